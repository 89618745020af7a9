"""PodTopologySpread: hard constraints as a filter, soft ones as a score.

Follows plugins/podtopologyspread and plugins/helper/spread.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stowplan_scheduler.objects import Node, Pod, TopologySpreadConstraint, controller_of

from .cluster import NodeState, ReferenceCluster
from .profile import Profile
from .selectors import Query, Requirement, pod_may_run_on, query_matches, query_of, query_of_labels
from .status import SUCCESS, Status, unresolvable, unschedulable
from .taints import untolerated_taint

HOSTNAME = "kubernetes.io/hostname"
REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A spread constraint with its selector worked out for one pod."""

    max_skew: int
    key: str
    query: Query
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def counts_node(self, pod: Pod, node: Node) -> bool:
        """Whether the inclusion policies let the node count."""
        if self.honor_affinity and not pod_may_run_on(pod, node):
            return False
        return not self.honor_taints or untolerated_taint(node, pod) is None


def constraints_of(
    declared: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> list[Constraint]:
    """The constraints with the given whenUnsatisfiable."""
    found = []
    for constraint in declared:
        if constraint.when_unsatisfiable == action:
            found.append(
                Constraint(
                    max_skew=constraint.max_skew,
                    key=constraint.topology_key,
                    query=_query(constraint, labels),
                    min_domains=1 if constraint.min_domains is None else constraint.min_domains,
                    honor_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
                    honor_taints=(constraint.node_taints_policy or "Ignore") == "Honor",
                )
            )
    return found


def _query(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Query:
    query = query_of(constraint.label_selector)
    if query is None:
        return None
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return query_of_labels(own) + query


def pod_constraints(cluster: ReferenceCluster, profile: Profile, pod: Pod, action: str) -> list[Constraint]:
    """The pod's own constraints; the defaults only if it declares none of any kind."""
    labels = pod.metadata.labels
    if pod.spec.topology_spread_constraints:
        return constraints_of(pod.spec.topology_spread_constraints, labels, action)
    defaults = constraints_of(profile.spread_defaults, labels, action)
    query = default_query(cluster, pod)
    if not query:
        return []
    return [
        Constraint(
            max_skew=c.max_skew,
            key=c.key,
            query=query,
            min_domains=c.min_domains,
            honor_affinity=c.honor_affinity,
            honor_taints=c.honor_taints,
        )
        for c in defaults
    ]


def default_query(cluster: ReferenceCluster, pod: Pod) -> tuple[Requirement, ...]:
    """What the services and the owner of a pod select; empty if there is nothing."""
    namespace, labels = pod.metadata.namespace, pod.metadata.labels
    merged: dict[str, str] = {}
    for service in cluster.services:
        selector = service.spec.selector
        if service.metadata.namespace == namespace and query_matches(query_of_labels(selector), labels):
            merged |= selector
    owner = controller_of(pod.metadata)
    if owner is None:
        return query_of_labels(merged)
    kind = (owner.api_version, owner.kind)
    if kind == ("v1", "ReplicationController"):
        for controller in cluster.replication_controllers:
            if (controller.metadata.namespace, controller.metadata.name) == (namespace, owner.name):
                merged |= controller.spec.selector
    added: tuple[Requirement, ...] = ()
    for owner_kind, workloads in (("ReplicaSet", cluster.replica_sets), ("StatefulSet", cluster.stateful_sets)):
        for workload in workloads if kind == ("apps/v1", owner_kind) else ():
            if (workload.metadata.namespace, workload.metadata.name) == (namespace, owner.name):
                added += query_of(workload.spec.selector) or ()
    return query_of_labels(merged) + added


def has_all_keys(node: Node, constraints: Iterable[Constraint]) -> bool:
    """Whether the node has the topology key of every constraint."""
    return all(constraint.key in node.metadata.labels for constraint in constraints)


def matching_pods(state: NodeState, query: Query, namespace: str) -> int:
    """Pods on the node that count: same namespace, not terminating, selected. An empty selector counts nothing."""
    if not query:
        return 0
    count = 0
    for each in state.pods:
        meta = each.pod.metadata
        if meta.namespace == namespace and not each.pod.is_terminating and query_matches(query, meta.labels):
            count += 1
    return count


# ---- hard constraints ------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class SpreadCounts:
    """Matching pods per domain, one mapping for each hard constraint. Only domains with a node that counts appear."""

    pod: Pod
    constraints: list[Constraint]
    counts: list[dict[str, int]]

    def copy(self) -> SpreadCounts:
        """An independent copy."""
        return SpreadCounts(pod=self.pod, constraints=self.constraints, counts=[dict(c) for c in self.counts])

    def change(self, other: Pod, node: Node, delta: int) -> None:
        """Add or remove a pod on a node. Unlike the first count this minds neither termination nor empty selectors."""
        if other.metadata.namespace != self.pod.metadata.namespace or not has_all_keys(node, self.constraints):
            return
        for constraint, counts in zip(self.constraints, self.counts, strict=True):
            if query_matches(constraint.query, other.metadata.labels) and constraint.counts_node(self.pod, node):
                domain = node.metadata.labels[constraint.key]
                counts[domain] = counts.get(domain, 0) + delta


def hard_spread(cluster: ReferenceCluster, profile: Profile, pod: Pod) -> SpreadCounts | None:
    """Count the pods of every domain; None without hard constraints."""
    constraints = pod_constraints(cluster, profile, pod, "DoNotSchedule")
    if not constraints:
        return None
    counts: list[dict[str, int]] = [{} for _ in constraints]
    for state in cluster.nodes:
        if not has_all_keys(state.node, constraints):
            continue
        for constraint, per_domain in zip(constraints, counts, strict=True):
            if constraint.counts_node(pod, state.node):
                domain = state.node.metadata.labels[constraint.key]
                found = matching_pods(state, constraint.query, pod.metadata.namespace)
                per_domain[domain] = per_domain.get(domain, 0) + found
    return SpreadCounts(pod=pod, constraints=constraints, counts=counts)


def filter_spread(spread: SpreadCounts, state: NodeState) -> Status:
    """Whether the pod keeps every skew within its limit on this node."""
    labels = state.node.metadata.labels
    for constraint, counts in zip(spread.constraints, spread.counts, strict=True):
        if constraint.key not in labels:
            return unresolvable(REASON_LABEL)
        fewest = 0 if len(counts) < constraint.min_domains else min(counts.values(), default=2**31 - 1)
        itself = 1 if query_matches(constraint.query, spread.pod.metadata.labels) else 0
        if counts.get(labels[constraint.key], 0) + itself - fewest > constraint.max_skew:
            return unschedulable(REASON_SKEW)
    return SUCCESS


# ---- soft constraints ------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class SoftSpread:
    """Matching pods per domain and the weight of each soft constraint."""

    pod: Pod
    constraints: list[Constraint]
    counts: list[dict[str, int]]
    weights: list[float] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)  # names of feasible nodes that lack a key


def soft_spread(
    cluster: ReferenceCluster, profile: Profile, pod: Pod, feasible: Sequence[NodeState]
) -> SoftSpread | None:
    """Domains come from the feasible nodes, counts from all nodes. None without soft constraints."""
    constraints = pod_constraints(cluster, profile, pod, "ScheduleAnyway")
    if not constraints:
        return None
    all_keys = bool(pod.spec.topology_spread_constraints) or not profile.spread_system_defaulted
    spread = SoftSpread(pod=pod, constraints=constraints, counts=[{} for _ in constraints])
    for state in feasible:
        if all_keys and not has_all_keys(state.node, constraints):
            spread.ignored.add(state.node.metadata.name)
            continue
        for constraint, counts in zip(constraints, spread.counts, strict=True):
            if constraint.key != HOSTNAME:
                # A node without the label makes a domain of its own, named by the empty string.
                counts.setdefault(state.node.metadata.labels.get(constraint.key, ""), 0)
    for constraint, counts in zip(constraints, spread.counts, strict=True):
        size = len(feasible) - len(spread.ignored) if constraint.key == HOSTNAME else len(counts)
        spread.weights.append(math.log(size + 2))
    for state in cluster.nodes:
        if not all_keys or has_all_keys(state.node, constraints):
            _count_soft(spread, state)
    return spread


def _count_soft(spread: SoftSpread, state: NodeState) -> None:
    for constraint, counts in zip(spread.constraints, spread.counts, strict=True):
        domain = state.node.metadata.labels.get(constraint.key, "")
        if domain in counts and constraint.counts_node(spread.pod, state.node):
            counts[domain] += matching_pods(state, constraint.query, spread.pod.metadata.namespace)


def score_spread(spread: SoftSpread, state: NodeState) -> int:
    """The weighted number of matching pods around this node: less is better."""
    labels = state.node.metadata.labels
    if state.node.metadata.name in spread.ignored:
        return 0
    score = 0.0
    for constraint, counts, weight in zip(spread.constraints, spread.counts, spread.weights, strict=True):
        if constraint.key not in labels:
            continue
        if constraint.key == HOSTNAME:
            count = matching_pods(state, constraint.query, spread.pod.metadata.namespace)
        else:
            count = counts[labels[constraint.key]]
        score += float(count) * weight + float(constraint.max_skew - 1)
    return round_half_away(score)


def round_half_away(number: float) -> int:
    """Go's math.Round for a number that is not negative."""
    whole = math.floor(number)
    return whole + 1 if number - whole >= 0.5 else whole


def normalize_spread(spread: SoftSpread, names: Sequence[str], raw: Sequence[int]) -> list[int]:
    """The fewest pods get 100; ignored nodes get 0."""
    counted = [score for name, score in zip(names, raw, strict=True) if name not in spread.ignored]
    highest = max([0, *counted])
    lowest = min(counted, default=0)

    def normalized(name: str, score: int) -> int:
        if name in spread.ignored:
            return 0
        return 100 * (highest + lowest - score) // highest if highest else 100

    return [normalized(name, score) for name, score in zip(names, raw, strict=True)]
