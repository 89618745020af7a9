"""InterPodAffinity, required terms: with whom the pod must, and must not, share a domain.

Follows pkg/scheduler/framework/plugins/interpodaffinity/filtering.go of Kubernetes v1.37.2 with the host name fast path off
(its default). Upstream's three maps of (topology key, value) -> count are three counters here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.counters import Contribution, TopologyCounter
from stowplan_scheduler.cache.node_table import Bools, Int64s
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


@dataclass(frozen=True, slots=True)
class RequiredTerms:
    """The incoming pod's required terms, resolved, and the labels of its namespace."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    namespace_labels: Mapping[str, str] | None
    matches_itself: bool
    version: int


@dataclass(frozen=True, slots=True)
class AffinityState:
    """Counts as the snapshot has them, or as they would be."""

    terms: RequiredTerms
    affinity: Sums
    anti_affinity: Sums
    existing: Sums


def affinity_state(pod: PodInfo, terms: RequiredTerms, cluster: Cluster) -> AffinityState | None:
    """The counts for a pod; None if there is nothing to check (upstream Skip)."""
    existing = _existing(pod, terms, cluster)
    if not terms.affinity and not terms.anti_affinity and not existing:
        return None
    return AffinityState(
        terms,
        _sums(_counter("affinity", terms.affinity, _all_terms(terms.affinity), cluster)),
        _sums(_counter("anti-affinity", terms.anti_affinity, _each_term(terms.anti_affinity), cluster)),
        existing,
    )


def _existing(pod: PodInfo, terms: RequiredTerms, cluster: Cluster) -> Sums:
    """Where pods are whose required anti-affinity is directed at such a pod."""
    if not cluster.snapshot.have_pods_with_required_anti_affinity:
        return {}
    shape = pod.shape
    labels = tuple(sorted(shape.labels.items()))
    counter = cluster.table.counters.get(
        ("existing-anti-affinity", shape.namespace, labels, terms.version),
        lambda: TopologyCounter(
            cluster.table,
            (),
            _directed_at(pod, terms.namespace_labels),
            lambda info: info.pods_with_required_anti_affinity,
        ),
    )
    return {key: sums for key, sums in _sums(counter).items() if sums.any()}


def _directed_at(pod: PodInfo, namespace_labels: Mapping[str, str] | None) -> Callable[[PodInfo], Contribution]:
    shape = pod.shape
    return lambda other: tuple(
        (term.topology_key, 1)
        for term in other.shape.required_anti_affinity
        if term.matches(shape.namespace, shape.labels, namespace_labels)
    )


def _counter(
    kind: str,
    terms: tuple[AffinityTerm, ...],
    contribution: Callable[[PodInfo], Contribution],
    cluster: Cluster,
) -> TopologyCounter | None:
    if not terms:
        return None
    keys = topology_keys(terms)
    return cluster.table.counters.get(
        (kind, terms), lambda: TopologyCounter(cluster.table, keys, contribution, lambda info: info.pods)
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


def _sums(counter: TopologyCounter | None) -> Sums:
    return {} if counter is None else {channel.key: channel.sums for channel in counter.channels.values()}


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
        found |= (sums > 0)[view.labels(key)]
    return found


def _attracted(state: AffinityState, view: NodeView) -> Bools:
    """All keys present and each domain has a match; or nobody matches anywhere and the pod matches itself."""
    has_keys = np.ones(view.size, np.bool_)
    populated = np.ones(view.size, np.bool_)
    for key, sums in state.affinity.items():
        codes = view.labels(key)
        has_keys &= codes != 0
        populated &= (sums > 0)[codes]
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
    terms = state.terms
    shape = pod.shape
    own, anti, existing = dict(state.affinity), dict(state.anti_affinity), dict(state.existing)
    for sign, others in ((1, added), (-1, removed)):
        for other in others:
            if matches_all(terms.affinity, other.shape):
                for term in terms.affinity:
                    _shift(own, term.topology_key, sign, view)
            for term in terms.anti_affinity:
                if matches(term, other.shape):
                    _shift(anti, term.topology_key, sign, view)
            for term in other.shape.required_anti_affinity:
                if term.matches(shape.namespace, shape.labels, terms.namespace_labels):
                    _shift(existing, term.topology_key, sign, view)
    return AffinityState(terms, own, anti, existing)


def _shift(sums: dict[str, Int64s], key: str, sign: int, view: NodeView) -> None:
    code = int(view.labels(key)[0])
    if not code:
        return
    domains = len(view.table.labels(key).interned.values)
    old = sums.get(key)
    changed = np.zeros(domains, np.int64)
    if old is not None:
        changed[: len(old)] = old
    changed[code] += sign
    sums[key] = changed
