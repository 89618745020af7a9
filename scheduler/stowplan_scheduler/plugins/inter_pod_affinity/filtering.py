"""InterPodAffinity, required terms: with whom the pod must, and must not, share a domain.

Follows pkg/scheduler/framework/plugins/interpodaffinity/filtering.go of Kubernetes v1.37.2 with the host name fast
path off (its default). Upstream's three maps of (topology key, value) -> count are three counters here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.counters import Contribution, CounterHandle, TopologyCounter
from stowplan_scheduler.cache.node_table import Bools, Int64s, NodeTable
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.interface import ReasonIds, ReasonTable
from stowplan_scheduler.framework.pod_info import AffinityTerm, PodInfo
from stowplan_scheduler.framework.status import Code

from .terms import matches, matches_all

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

Sums = Mapping[str, Int64s]
"""Counts by topology key, then by label code; index 0 is 0."""


class RequiredTerms:
    """The required terms of one shape of pod, resolved, with their counters."""

    __slots__ = (
        "_affinity",
        "_anti_affinity",
        "_existing",
        "affinity",
        "anti_affinity",
        "matches_itself",
        "namespace_labels",
    )

    def __init__(
        self,
        pod: PodInfo,
        affinity: tuple[AffinityTerm, ...],
        anti_affinity: tuple[AffinityTerm, ...],
        namespace_labels: Mapping[str, str] | None,
    ) -> None:
        """`namespace_labels`: those of the pod's namespace, None if it is not known."""
        self.affinity = affinity
        self.anti_affinity = anti_affinity
        self.namespace_labels = namespace_labels
        self.matches_itself = matches_all(affinity, pod.shape)
        self._affinity = _handle("affinity", affinity, _all_terms(affinity)) if affinity else None
        self._anti_affinity = (
            _handle("anti-affinity", anti_affinity, _each_term(anti_affinity)) if anti_affinity else None
        )
        self._existing = _existing_handle(pod, namespace_labels)

    def state(self, cluster: Cluster) -> AffinityState | None:
        """The counts as the snapshot has them; None if there is nothing to check (upstream Skip)."""
        table = cluster.table
        existing: Sums = {}
        if cluster.snapshot.have_pods_with_required_anti_affinity:
            channels = self._existing.get(table).channels.values()
            existing = {channel.key: channel.sums for channel in channels if channel.total}
        if not self.affinity and not self.anti_affinity and not existing:
            return None
        return AffinityState(self, _sums(self._affinity, table), _sums(self._anti_affinity, table), existing)


@dataclass(frozen=True, slots=True)
class AffinityState:
    """Counts as the snapshot has them, or as they would be."""

    terms: RequiredTerms
    affinity: Sums
    anti_affinity: Sums
    existing: Sums


def _existing_handle(pod: PodInfo, namespace_labels: Mapping[str, str] | None) -> CounterHandle:
    """Where pods are whose required anti-affinity is directed at such a pod."""
    shape = pod.shape

    def contribution(other: PodInfo) -> Contribution:
        return tuple(
            (term.topology_key, 1)
            for term in other.shape.required_anti_affinity
            if term.matches(shape.namespace, shape.labels, namespace_labels)
        )

    return CounterHandle(
        ("existing-anti-affinity", shape.namespace, _items(shape.labels), _items(namespace_labels)),
        lambda table: TopologyCounter(
            table, (), contribution, lambda info: info.pods_with_required_anti_affinity, subject=shape.labels
        ),
    )


def _items(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    return None if labels is None else tuple(sorted(labels.items()))


def _handle(
    kind: str, terms: tuple[AffinityTerm, ...], contribution: Callable[[PodInfo], Contribution]
) -> CounterHandle:
    keys = topology_keys(terms)
    # Of several terms a pod may match any one.
    wanted = terms[0].query.wanted if len(terms) == 1 else ()
    return CounterHandle(
        (kind, terms), lambda table: TopologyCounter(table, keys, contribution, lambda info: info.pods, wanted=wanted)
    )


def topology_keys(terms: Sequence[AffinityTerm]) -> tuple[str, ...]:
    """The distinct keys, in order of first appearance."""
    return tuple(dict.fromkeys(term.topology_key for term in terms))


def _all_terms(terms: tuple[AffinityTerm, ...]) -> Callable[[PodInfo], Contribution]:
    """A pod counts only if it matches all terms, and then once for each."""
    whole = tuple((term.topology_key, 1) for term in terms)
    return lambda other: whole if matches_all(terms, other.shape) else ()


def _each_term(terms: tuple[AffinityTerm, ...]) -> Callable[[PodInfo], Contribution]:
    """A pod counts for each term that it matches."""
    return lambda other: tuple((t.topology_key, 1) for t in terms if matches(t, other.shape))


def _sums(handle: CounterHandle | None, table: NodeTable) -> Sums:
    if handle is None:
        return {}
    return {channel.key: channel.sums for channel in handle.get(table).channels.values()}


def judge(state: AffinityState, view: NodeView, reasons: ReasonTable) -> ReasonIds:
    """Own affinity, own anti-affinity, then the anti-affinity of the pods that are there."""
    codes = np.zeros(view.size, np.int16)
    if state.existing:
        repelled = _any_positive(state.existing, view)
        codes[repelled] = reasons.id(Code.UNSCHEDULABLE, EXISTING_ANTI_AFFINITY)
    if state.terms.anti_affinity:
        repelled = _any_positive(state.anti_affinity, view)
        codes[repelled] = reasons.id(Code.UNSCHEDULABLE, ANTI_AFFINITY)
    if state.terms.affinity:
        codes[~_attracted(state, view)] = reasons.id(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, AFFINITY)
    return codes


def _any_positive(counts: Sums, view: NodeView) -> Bools:
    found = np.zeros(view.size, np.bool_)
    for key, sums in counts.items():
        found |= sums[view.labels(key)] > 0
    return found


def _attracted(state: AffinityState, view: NodeView) -> Bools:
    """All keys present and each domain has a match; or nobody matches anywhere and the pod matches itself."""
    has_keys = np.ones(view.size, np.bool_)
    populated = np.ones(view.size, np.bool_)
    for key, sums in state.affinity.items():
        codes = view.labels(key)
        has_keys &= codes != 0
        populated &= sums[codes] > 0
    if state.terms.matches_itself and not any(sums.any() for sums in state.affinity.values()):
        return has_keys
    return has_keys & populated


def with_pods(
    state: AffinityState,
    pod: PodInfo,
    added: Sequence[PodInfo],
    removed: Sequence[PodInfo],
    view: NodeView,
) -> AffinityState:
    """The counts if pods came to and left the node of a one-row view."""
    terms, shape = state.terms, pod.shape
    own: dict[str, int] = {}
    anti: dict[str, int] = {}
    existing: dict[str, int] = {}
    for sign, others in ((1, added), (-1, removed)):
        for other in others:
            if matches_all(terms.affinity, other.shape):
                _count(own, terms.affinity, sign)
            _count(anti, [t for t in terms.anti_affinity if matches(t, other.shape)], sign)
            directed = other.shape.required_anti_affinity
            labels = terms.namespace_labels
            _count(existing, [t for t in directed if t.matches(shape.namespace, shape.labels, labels)], sign)
    if not (own or anti or existing):
        # The same object: rows whose states are one can be judged together.
        return state
    return AffinityState(
        terms,
        _shifted(state.affinity, own, view),
        _shifted(state.anti_affinity, anti, view),
        _shifted(state.existing, existing, view),
    )


def _count(changes: dict[str, int], terms: Sequence[AffinityTerm], sign: int) -> None:
    for term in terms:
        changes[term.topology_key] = changes.get(term.topology_key, 0) + sign


def _shifted(sums: Sums, changes: Mapping[str, int], view: NodeView) -> Sums:
    """The sums with changes in the domains of a one-row view."""
    result = dict(sums)
    for key, change in changes.items():
        code = int(view.labels(key)[0])
        if not code or not change:
            continue
        changed = np.zeros(len(view.table.labels(key).interned.values), np.int64)
        old = sums.get(key)
        if old is not None:
            changed[: len(old)] = old
        changed[code] += change
        result[key] = changed
    return result
