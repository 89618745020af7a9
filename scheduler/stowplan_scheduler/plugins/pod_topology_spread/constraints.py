"""Topology spread constraints, compiled: a pod's own ones, or the defaults with a selector derived from its owner.

Follows pkg/scheduler/framework/plugins/podtopologyspread/common.go and plugins/helper/spread.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.counters import Contribution, CounterHandle, TopologyCounter
from stowplan_scheduler.cache.node_table import Bools, NodeTable
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import OwnerReference, Toleration, TopologySpreadConstraint
from stowplan_scheduler.plugins.vectors import node_mask
from stowplan_scheduler.selectors import LabelQuery, NodeQuery
from stowplan_scheduler.tolerations import find_untolerated_taint

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
_HONOR = "Honor"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One compiled constraint; `honors_*`: the pod's node affinity or tolerations decide which nodes count."""

    max_skew: int
    topology_key: str
    query: LabelQuery
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """Those with `whenUnsatisfiable: action`; matchLabelKeys come from the pod's labels. Raises SelectorError."""
    return tuple(_compile(c, labels) for c in constraints if c.when_unsatisfiable == action)


def _compile(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Constraint:
    query = LabelQuery.of(constraint.label_selector)
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        query=query.and_equals(own) if own else query,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=constraint.node_affinity_policy in {None, _HONOR},
        honors_taints=constraint.node_taints_policy == _HONOR,
    )


def default_constraints(
    defaults: Sequence[TopologySpreadConstraint], pod: PodInfo, action: str, stores: Stores
) -> tuple[Constraint, ...]:
    """The profile's defaults for a pod without constraints; none if no selector can be derived for it."""
    if not any(c.when_unsatisfiable == action for c in defaults):
        return ()
    query = default_selector(pod, stores)
    if query.is_empty:
        return ()
    compiled = compile_constraints(defaults, pod.shape.labels, action)
    return tuple(
        Constraint(c.max_skew, c.topology_key, query, c.min_domains, c.honors_affinity, c.honors_taints)
        for c in compiled
    )


def default_selector(pod: PodInfo, stores: Stores) -> LabelQuery:
    """From the services that select the pod and from the object that controls it (upstream helper.DefaultSelector)."""
    namespace, labels = pod.shape.namespace, pod.shape.labels
    merged: dict[str, str] = {}
    for service in stores.services.values():
        selector = service.spec.selector
        if service.metadata.namespace == namespace and selector and _is_subset(selector, labels):
            merged.update(selector)
    owner = pod.shape.owner
    if owner is not None and (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = stores.replication_controllers.get(f"{namespace}/{owner.name}")
        if controller is not None:
            merged.update(controller.spec.selector)
    query = LabelQuery.of_map(merged)
    selected = _owner_query(owner, namespace, stores)
    return query if selected is None else query.and_requirements(selected.requirements)


def _owner_query(owner: OwnerReference | None, namespace: str, stores: Stores) -> LabelQuery | None:
    if owner is None or owner.api_version != "apps/v1":
        return None
    key = f"{namespace}/{owner.name}"
    if owner.kind == "ReplicaSet" and key in stores.replica_sets:
        return LabelQuery.of(stores.replica_sets[key].spec.selector)
    if owner.kind == "StatefulSet" and key in stores.stateful_sets:
        return LabelQuery.of(stores.stateful_sets[key].spec.selector)
    return None


def _is_subset(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def spread_counter(
    pod: PodInfo, constraint: Constraint, keys: tuple[str, ...], *, all_nodes: bool = False
) -> CounterHandle:
    """Counts the pods of the pod's namespace that a constraint selects, per domain of its key.

    Only nodes with all `keys` count that pass the constraint's policies; with `all_nodes` every node does.
    """
    spec, namespace = pod.pod.spec, pod.shape.namespace
    query = constraint.query
    node_query = NodeQuery()
    if constraint.honors_affinity and not all_nodes:
        node_query = NodeQuery.of(spec.node_selector, spec.affinity.node_affinity if spec.affinity else None)
    tolerations = spec.tolerations if constraint.honors_taints and not all_nodes else None
    restricted = not all_nodes and (keys or not node_query.is_empty or tolerations is not None)
    eligible = _Eligibility(keys, node_query, tolerations) if restricted else None

    def make(table: NodeTable) -> TopologyCounter:
        contribution = _contribution(namespace, query, constraint.topology_key)
        keys = (constraint.topology_key,)
        return TopologyCounter(table, keys, contribution, lambda info: info.pods, eligible, wanted=query.wanted)

    return CounterHandle(("spread", namespace, query, constraint.topology_key, eligible), make)


@dataclass(frozen=True, slots=True)
class _Eligibility:
    """Which nodes count: those with all keys that the pod's node query allows and whose taints it tolerates."""

    keys: tuple[str, ...]
    node_query: NodeQuery
    tolerations: tuple[Toleration, ...] | None

    def __call__(self, table: NodeTable) -> Bools:
        view = NodeView(table, slice(0, table.size))
        found = np.ones(table.size, np.bool_) if self.node_query.is_empty else node_mask(self.node_query, view)
        for key in self.keys:
            found &= view.labels(key) != 0
        if self.tolerations is not None:
            sets = table.taint_sets.values
            tolerated = [find_untolerated_taint(taints, self.tolerations) is None for taints in sets]
            found &= np.array(tolerated, np.bool_)[view.taints]
        return found


def _contribution(namespace: str, query: LabelQuery, key: str) -> Callable[[PodInfo], Contribution]:
    """1 for a pod that counts: same namespace, not terminating, selected; an empty selector counts nobody."""

    def contribution(pod: PodInfo) -> Contribution:
        counts = (
            not query.is_empty
            and not pod.terminating
            and pod.shape.namespace == namespace
            and query.matches(pod.shape.labels)
        )
        return ((key, 1),) if counts else ()

    return contribution
