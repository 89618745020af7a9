"""Topology groups: how many pods that a rule is about stand in each domain, and which domains the next one may take.

A group belongs to a spread constraint, a pod affinity or a pod anti-affinity term; all pods with equal terms share it.
Upstream takes one of several equally good domains, in the random order of a Go map; which one is taken here, `topology`
decides.

Follows pkg/controllers/provisioning/scheduling/topologygroup.go and topologynodefilter.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from stowplan_scheduler.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    PodSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from stowplan_scheduler.selectors import NOTHING, LabelQuery, SelectorError

from .labels import HOSTNAME
from .requirement import Requirement, exists
from .requirements import Requirements
from .taints import all_tolerated

SPREAD: Final = "topology spread"
AFFINITY: Final = "pod affinity"
ANTI_AFFINITY: Final = "pod anti-affinity"

HONOR: Final = "Honor"
IGNORE: Final = "Ignore"

_UNBOUNDED: Final = 2**31 - 1

Member = TypeVar("Member")


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes a spread constraint looks at: those that the pod's selector, affinity and tolerations allow.

    One of `requirements` must hold. The empty filter, of affinity terms, passes every node.
    """

    requirements: tuple[Requirements, ...] = ()
    taint_policy: str = ""
    affinity_policy: str = ""
    tolerations: tuple[Toleration, ...] = ()

    @classmethod
    def of(cls, spec: PodSpec, constraint: TopologySpreadConstraint) -> NodeFilter:
        """The filter of a pod's constraint; affinity is honoured and taints are ignored unless it says otherwise."""
        selector = Requirements.of_labels(spec.node_selector)
        node = spec.affinity.node_affinity if spec.affinity else None
        required = node.required_during_scheduling_ignored_during_execution if node else None
        terms: tuple[Requirements, ...] = (selector,)
        if required is not None:
            terms = tuple(
                selector.adding(Requirements.of_expressions(term.match_expressions))
                for term in required.node_selector_terms
            )
        return cls(
            terms, constraint.node_taints_policy or IGNORE, constraint.node_affinity_policy or HONOR, spec.tolerations
        )

    def passes(self, taints: tuple[Taint, ...], requirements: Requirements) -> bool:
        """Whether a node takes part. What it says nothing about counts as absent, even for a machine still to come."""
        if self.affinity_policy == HONOR and self.requirements:
            if not any(requirements.compatible(term, frozenset()) for term in self.requirements):
                return False
        return self.taint_policy != HONOR or all_tolerated(taints, self.tolerations)

    @property
    def is_open(self) -> bool:
        """Whether the filter passes every node, as it does without selector, affinity and taint policy."""
        selective = self.affinity_policy == HONOR and all(len(term) for term in self.requirements) and self.requirements
        return not selective and self.taint_policy != HONOR

    @property
    def mentions_host(self) -> bool:
        """Whether a host name takes part."""
        return any(HOSTNAME in term for term in self.requirements)

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two filters one to upstream, whose hash sees the keys of requirements and not their values.

        Its hash of a list as a set also lets equal members cancel out in pairs.
        """
        terms = Counter(frozenset(term.keys) for term in self.requirements)
        return (_odd(terms), self.taint_policy, self.affinity_policy, _odd(Counter(self.tolerations)))


class GroupKey(NamedTuple):
    """What makes two terms one group. `min_domains` does not: the first pod's holds."""

    type: str
    key: str
    namespaces: frozenset[str]
    max_skew: int
    filter: tuple[object, ...]
    selector: tuple[object, ...] | None


@dataclass(frozen=True, slots=True)
class Term:
    """A constraint or affinity term of a pod, ready to become a group. `raw` None: no selector was given."""

    identity: GroupKey
    query: LabelQuery
    raw: LabelSelector | None
    node_filter: NodeFilter = NodeFilter()
    min_domains: int | None = None

    @classmethod
    def of_spread(
        cls, namespace: str, labels: Mapping[str, str], spec: PodSpec, constraint: TopologySpreadConstraint
    ) -> Term:
        """From a spread constraint; matchLabelKeys become expressions of the selector."""
        selector = constraint.label_selector
        if selector is not None:
            added = tuple(
                LabelSelectorRequirement(key=key, operator="In", values=(labels[key],))
                for key in constraint.match_label_keys
                if key in labels
            )
            if added:
                selector = LabelSelector(
                    match_labels=selector.match_labels, match_expressions=(*selector.match_expressions, *added)
                )
        node_filter = NodeFilter.of(spec, constraint)
        key = GroupKey(
            SPREAD, constraint.topology_key, frozenset((namespace,)), constraint.max_skew, node_filter.identity,
            _selector_identity(selector),
        )  # fmt: skip
        return cls(key, _query(selector), selector, node_filter, constraint.min_domains)

    @classmethod
    def of_affinity(
        cls, type: str, topology_key: str, namespaces: frozenset[str], selector: LabelSelector | None
    ) -> Term:
        """From an affinity or anti-affinity term."""
        key = GroupKey(type, topology_key, namespaces, _UNBOUNDED, NodeFilter().identity, _selector_identity(selector))
        return cls(key, _query(selector), selector)


class Choice(NamedTuple):
    """Domains for the next pod: all of them, or with `one` any one of them."""

    domains: frozenset[str]
    one: bool


class Group:
    """Pods per domain. `domains` are all that are known, with 0 for the empty ones.

    For host names only those with pods are kept: a new host can always be had, and counts 0.
    """

    __slots__ = ("domains", "is_host", "key", "max_skew", "term", "type")

    def __init__(self, term: Term, domains: Iterable[str]) -> None:
        self.term = term
        self.type = term.identity.type
        self.key = term.identity.key
        self.max_skew = term.identity.max_skew
        self.is_host = self.key == HOSTNAME
        self.domains: dict[str, int] = dict.fromkeys(domains, 0)

    def record(self, domain: str, count: int = 1) -> None:
        """So many more pods stand in a domain."""
        self.domains[domain] = self.domains.get(domain, 0) + count

    def register(self, domain: str) -> None:
        """A domain exists."""
        self.domains.setdefault(domain, 0)

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is one of those that are counted."""
        return namespace in self.term.identity.namespaces and self.term.query.matches(labels)

    # ---- host names: a node is its own domain ----------------------------------------------------------------------

    def host_allowed(self, host: str, pod_host: Requirement | None, *, selected: bool) -> bool:
        """Whether the next pod may stand on a host. `selected`: it counts itself."""
        count = self.domains.get(host, 0)
        if self.type == SPREAD:
            return count + selected <= self.max_skew
        if self.type == ANTI_AFFINITY:
            return count == 0
        if pod_host is not None and not pod_host.has(host):
            return False
        return count > 0 or (selected and not self.is_somewhere(pod_host))

    # ---- other domains ---------------------------------------------------------------------------------------------

    def choose(self, pod: Requirement | None, node: Requirement | None, *, selected: bool) -> Choice:
        """The domains that the next pod may take; without any it may not go there.

        `pod` and `node` say which domains the pod itself and the node may have; None: any. `selected`: the pod counts
        itself.
        """
        pod = pod or exists(self.key)
        node = node or exists(self.key)
        if self.type == SPREAD:
            return Choice(self._spread(pod, node, selected=selected), True)
        if self.type == ANTI_AFFINITY:
            return Choice(frozenset(d for d, count in self._among(node) if not count and pod.has(d)), False)
        found = frozenset(d for d, count in self._among(node) if count and pod.has(d))
        if found or not selected or self.is_somewhere(pod):
            return Choice(found, False)
        # The first pod of its kind: anywhere where it and the node may be.
        return Choice(frozenset(d for d, _ in self._among(node) if pod.has(d)), True)

    def _among(self, node: Requirement) -> list[tuple[str, int]]:
        domains = self.domains
        if not node.complement and len(node.values) < len(domains):
            return [(d, domains[d]) for d in node.values if d in domains]
        return [(d, count) for d, count in domains.items() if node.has(d)]

    def _spread(self, pod: Requirement, node: Requirement, *, selected: bool) -> frozenset[str]:
        least = self._least(pod)
        counts = [(d, count) for d, count in self._among(node) if count + selected - least <= self.max_skew]
        lowest = min((count for _, count in counts), default=0)
        return frozenset(domain for domain, count in counts if count == lowest)

    def _least(self, pod: Requirement) -> int:
        counts = [count for domain, count in self.domains.items() if pod.has(domain)]
        if self.term.min_domains is not None and len(counts) < self.term.min_domains:
            return 0
        return min(counts, default=_UNBOUNDED)

    def is_somewhere(self, pod: Requirement | None) -> bool:
        """Whether a pod that is counted stands where this one might; None: it might anywhere."""
        if pod is None:
            return any(self.domains.values())
        return any(count and pod.has(domain) for domain, count in self.domains.items())


def _query(selector: LabelSelector | None) -> LabelQuery:
    try:
        return LabelQuery.of(selector)
    except SelectorError:
        return NOTHING


def _selector_identity(selector: LabelSelector | None) -> tuple[object, ...] | None:
    if selector is None:
        return None
    expressions = frozenset((e.key, e.operator, _odd(Counter(e.values))) for e in selector.match_expressions)
    return frozenset(selector.match_labels.items()), expressions


def _odd(counts: Counter[Member]) -> frozenset[Member]:
    return frozenset(member for member, count in counts.items() if count % 2)
