"""InterPodAffinity: required terms as a filter, preferred ones as a score.

Follows plugins/interpodaffinity of Kubernetes v1.37.2 with gate InterPodAffinityHostnameFastPath off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stowplan_scheduler.objects import Node, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm

from .cluster import NodeState, ReferenceCluster
from .profile import Profile
from .selectors import Query, query_matches, query_of
from .status import SUCCESS, Status, unresolvable, unschedulable

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Pair = tuple[str, str]
"""Topology key and value."""

ScoreTable = dict[Pair, int]
"""Topology pair -> sum of weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """An affinity term with its selectors worked out."""

    key: str
    namespaces: frozenset[str]
    namespace_query: Query
    query: Query
    weight: int = 0

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term selects the pod, whose namespace has these labels."""
        if pod.metadata.namespace in self.namespaces or query_matches(self.namespace_query, namespace_labels):
            return query_matches(self.query, pod.metadata.labels)
        return False


def _term(owner: Pod, term: PodAffinityTerm, weight: int = 0) -> Term:
    own = not term.namespaces and term.namespace_selector is None
    return Term(
        key=term.topology_key,
        namespaces=frozenset({owner.metadata.namespace} if own else term.namespaces),
        namespace_query=query_of(term.namespace_selector),
        query=query_of(term.label_selector),
        weight=weight,
    )


def _affinity(pod: Pod, anti: bool) -> PodAffinity | None:
    if pod.spec.affinity is None:
        return None
    return pod.spec.affinity.pod_anti_affinity if anti else pod.spec.affinity.pod_affinity


def required_terms(pod: Pod, *, anti: bool) -> list[Term]:
    """The required terms of a pod."""
    affinity = _affinity(pod, anti)
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    return [_term(pod, term) for term in terms]


def preferred_terms(pod: Pod, *, anti: bool) -> list[Term]:
    """The preferred terms of a pod with their weights."""
    affinity = _affinity(pod, anti)
    terms: Iterable[WeightedPodAffinityTerm] = ()
    if affinity:
        terms = affinity.preferred_during_scheduling_ignored_during_execution
    return [_term(pod, term.pod_affinity_term, term.weight) for term in terms]


def expanded(cluster: ReferenceCluster, terms: Iterable[Term]) -> list[Term]:
    """The incoming pod's terms: a namespace selector is replaced by the names it selects now."""
    found = []
    for term in terms:
        if term.namespace_query == ():
            found.append(term)
            continue
        names = {name for name, labels in cluster.namespaces.items() if query_matches(term.namespace_query, labels)}
        found.append(
            Term(
                key=term.key,
                namespaces=term.namespaces | names,
                namespace_query=None,
                query=term.query,
                weight=term.weight,
            )
        )
    return found


def _matches_all(terms: Sequence[Term], pod: Pod) -> bool:
    return bool(terms) and all(term.matches(pod, {}) for term in terms)


# ---- required terms --------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class AffinityCounts:
    """Matching pods per topology pair, for the three kinds of rules."""

    pod: Pod
    namespace_labels: Mapping[str, str]
    affinity_terms: list[Term]
    anti_affinity_terms: list[Term]
    affinity: dict[Pair, int] = field(default_factory=dict)
    anti_affinity: dict[Pair, int] = field(default_factory=dict)
    existing: dict[Pair, int] = field(default_factory=dict)  # existing pods whose anti-affinity means the pod

    def copy(self) -> AffinityCounts:
        """An independent copy."""
        return AffinityCounts(
            pod=self.pod,
            namespace_labels=self.namespace_labels,
            affinity_terms=self.affinity_terms,
            anti_affinity_terms=self.anti_affinity_terms,
            affinity=dict(self.affinity),
            anti_affinity=dict(self.anti_affinity),
            existing=dict(self.existing),
        )

    def change(self, other: Pod, node: Node, delta: int) -> None:
        """Count a pod on a node in (1) or out (-1)."""
        for term in required_terms(other, anti=True):
            if term.matches(self.pod, self.namespace_labels):
                _bump(self.existing, term.key, node, delta)
        if _matches_all(self.affinity_terms, other):
            for term in self.affinity_terms:
                _bump(self.affinity, term.key, node, delta)
        for term in self.anti_affinity_terms:
            if term.matches(other, {}):
                _bump(self.anti_affinity, term.key, node, delta)


def _bump(counts: dict[Pair, int], key: str, node: Node, delta: int) -> None:
    """Change a count and forget it at 0: an empty map is what lets the first pod of a group in."""
    if key in node.metadata.labels:
        pair = (key, node.metadata.labels[key])
        counts[pair] = counts.get(pair, 0) + delta
        if counts[pair] == 0:
            del counts[pair]


def required_counts(cluster: ReferenceCluster, pod: Pod) -> AffinityCounts | None:
    """Count over all pods; None if no required term can matter."""
    counts = AffinityCounts(
        pod=pod,
        namespace_labels=cluster.namespaces.get(pod.metadata.namespace, {}),
        affinity_terms=expanded(cluster, required_terms(pod, anti=False)),
        anti_affinity_terms=expanded(cluster, required_terms(pod, anti=True)),
    )
    for state in cluster.nodes:
        for each in state.pods:
            counts.change(each.pod, state.node, 1)
    if not counts.existing and not counts.affinity_terms and not counts.anti_affinity_terms:
        return None
    return counts


def filter_affinity(counts: AffinityCounts, state: NodeState) -> Status:
    """Own affinity, own anti-affinity, anti-affinity of the others: in this order."""
    labels = state.node.metadata.labels
    if not _affinity_holds(counts, labels):
        return unresolvable(REASON_AFFINITY)
    for term in counts.anti_affinity_terms:
        if term.key in labels and counts.anti_affinity.get((term.key, labels[term.key]), 0) > 0:
            return unschedulable(REASON_ANTI_AFFINITY)
    if any(counts.existing.get(pair, 0) > 0 for pair in labels.items()):
        return unschedulable(REASON_EXISTING)
    return SUCCESS


def _affinity_holds(counts: AffinityCounts, labels: Mapping[str, str]) -> bool:
    if any(term.key not in labels for term in counts.affinity_terms):
        return False
    if all(counts.affinity.get((term.key, labels[term.key]), 0) > 0 for term in counts.affinity_terms):
        return True
    return not counts.affinity and _matches_all(counts.affinity_terms, counts.pod)


# ---- preferred terms -------------------------------------------------------------------------------------------------


def preferred_scores(cluster: ReferenceCluster, profile: Profile, pod: Pod) -> ScoreTable | None:
    """Weights per topology pair over all pods of the cluster; None if nothing matched (Skip)."""
    wanted = expanded(cluster, preferred_terms(pod, anti=False))
    unwanted = expanded(cluster, preferred_terms(pod, anti=True))
    if profile.ignore_preferred_terms_of_existing_pods and not wanted and not unwanted:
        return None
    own_labels = cluster.namespaces.get(pod.metadata.namespace, {})
    table: ScoreTable = {}

    def add(terms: Iterable[Term], target: Pod, labels: Mapping[str, str], node: Node, sign: int) -> None:
        for term in terms:
            if term.matches(target, labels) and term.key in node.metadata.labels:
                pair = (term.key, node.metadata.labels[term.key])
                table[pair] = table.get(pair, 0) + sign * term.weight

    for state in cluster.nodes:
        node = state.node
        for each in state.pods:
            other = each.pod
            add(wanted, other, {}, node, 1)
            add(unwanted, other, {}, node, -1)
            if profile.hard_pod_affinity_weight > 0:
                hard = _weighted(required_terms(other, anti=False), profile.hard_pod_affinity_weight)
                add(hard, pod, own_labels, node, 1)
            add(preferred_terms(other, anti=False), pod, own_labels, node, 1)
            add(preferred_terms(other, anti=True), pod, own_labels, node, -1)
    return table or None


def _weighted(terms: Iterable[Term], weight: int) -> list[Term]:
    return [
        Term(key=t.key, namespaces=t.namespaces, namespace_query=t.namespace_query, query=t.query, weight=weight)
        for t in terms
    ]


def score_affinity(table: ScoreTable, state: NodeState) -> int:
    """The sum over the topology pairs of the node."""
    return sum(table.get(pair, 0) for pair in state.node.metadata.labels.items())


def normalize_affinity(raw: Sequence[int]) -> list[int]:
    """Stretched to 0..100 in floating point, in upstream's order of operations."""
    lowest, spread = min(raw), max(raw) - min(raw)
    return [int(100.0 * (float(score - lowest) / float(spread))) if spread else 0 for score in raw]
