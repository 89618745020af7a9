"""How many new nodes of a group some pods need: first-fit decreasing over groups of equivalent pods.

Follows pkg/estimator/binpacking_estimator.go and decreasing_pod_orderer.go of kubernetes-sigs/cluster-autoscaler. Its
duration limits are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from stowplan_autoscaling.supply.go_sort import go_sorted
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Status
from stowplan_scheduler.objects import Node
from stowplan_scheduler.quantity import parse_quantity
from stowplan_scheduler.resources import Resource
from stowplan_scheduler.selectors import label_selector_matches

from .equivalence import PodGroup
from .estimation_limits import EstimationLimiter
from .packing import Demand, Packer, arithmetic_demand
from .snapshot import ClusterSnapshot, NodeFilter
from .templates import HOST_NAME, TemplateNode

NANOS: Final = 10**9
_RESERVED: Final = 64

SPREAD: Final = "node(s) didn't match pod topology spread constraints"


class BinpackingEstimator:
    """Estimates in a fork of the snapshot; nothing stays behind but the position of the last match."""

    def __init__(self, snapshot: ClusterSnapshot, *, fastpath: bool = False, arithmetic: bool = True) -> None:
        """`fastpath`: upstream's approximation of the group that gains most (--fastpath-binpacking-enabled).

        `arithmetic`: off, every pod is asked for on its own; the result is the same.
        """
        self._snapshot = snapshot
        self._fastpath = fastpath
        self._arithmetic = arithmetic

    def estimate(
        self, groups: Sequence[PodGroup], template: TemplateNode, limiter: EstimationLimiter
    ) -> tuple[int, list[PodInfo]]:
        """(nodes that got a pod, pods in order of placing). All groups' samples fit on an empty new node."""
        ordered = decreasing_order(groups, template.node)
        if self._arithmetic and not self._fastpath:
            demands = self._demands(ordered, template)
            if demands is not None:
                packer = Packer(self._snapshot, template.info, limiter)
                for group, demand in zip(ordered, demands, strict=True):
                    packer.pack(group.pods, demand)
                return packer.node_count, packer.scheduled
        best = best_for_fastpath(ordered, template.node) if self._fastpath else None
        if best is not None:
            ordered = [group for group in ordered if group is not best] + [best]
        self._snapshot.fork()
        try:
            return _Estimation(self._snapshot, template, limiter).run(ordered, best)
        finally:
            self._snapshot.revert()

    def _demands(self, groups: Sequence[PodGroup], template: TemplateNode) -> list[Demand] | None:
        """The demand of each group; None if one of them needs more than arithmetic."""
        if template.info.pods_with_required_anti_affinity:
            return None
        demands = []
        for group in groups:
            demand = arithmetic_demand(self._snapshot, group.sample)
            if demand is None:
                return None
            demands.append(demand)
        return demands


class _Estimation:
    """One estimation, pod by pod."""

    def __init__(self, snapshot: ClusterSnapshot, template: TemplateNode, limiter: EstimationLimiter) -> None:
        self._snapshot = snapshot
        self._template = template
        self._limiter = limiter
        self._new: set[str] = set()
        self._with_pods: set[str] = set()
        self._last = ""
        self._scheduled: list[PodInfo] = []

    def run(self, groups: Sequence[PodGroup], fastpath: PodGroup | None) -> tuple[int, list[PodInfo]]:
        """All groups in order."""
        may_grow = True
        for group in groups:
            remaining = self._on_existing(group.pods)
            if may_grow:
                grow = self._by_fastpath if group is fastpath else self._on_new
                may_grow = grow(remaining)
        return len(self._with_pods), self._scheduled

    def _on_existing(self, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Place pods on new nodes that are there; returns those from the first failure on."""
        acceptable = NodeFilter(self._new.__contains__)
        for index, pod in enumerate(pods):
            name = self._snapshot.schedule_anywhere(pod, acceptable) if self._new else None
            if name is None:
                return pods[index:]
            self._track(pod, name)
        return ()

    def _on_new(self, pods: Sequence[PodInfo]) -> bool:
        """Place pods on the last node and on more new ones; whether more may be added for the next group."""
        for pod in pods:
            if self._on_last(pod):
                continue
            # A pod that does not fit on an empty node does not fit on another one.
            if self._last and self._last not in self._with_pods:
                return True
            if not self._limiter.permission():
                return False
            self._add_node()
            if not self._snapshot.schedule(pod, self._last).is_success:
                break
            self._track(pod, self._last)
        return True

    def _on_last(self, pod: PodInfo) -> bool:
        """Try the last node, and any other node for a pod that spreads over host names."""
        if not self._last:
            return False
        status = self._snapshot.schedule(pod, self._last)
        if status.is_success:
            self._track(pod, self._last)
            return True
        if _spreads_over_hosts(pod) and _is_spread_failure(status):
            last = self._last
            name = self._snapshot.schedule_anywhere(pod, NodeFilter(lambda node: node != last))
            if name is not None:
                self._track(pod, name)
                return True
        return False

    def _by_fastpath(self, pods: Sequence[PodInfo]) -> bool:
        """Fill one node, and take the rest of the pods for as many more as it takes."""
        if not pods:
            return True
        if not self._limiter.permission():
            return False
        self._add_node()
        first = 0
        while first < len(pods) and self._snapshot.schedule(pods[first], self._last).is_success:
            self._track(pods[first], self._last)
            first += 1
        if not first:
            return True
        per_node = first
        for number in range(1, -(-len(pods) // per_node)):
            if not self._limiter.permission():
                return False
            for pod in pods[first : first + per_node]:
                self._track(pod, f"{self._last}-fake-{number}")
            first += per_node
        return True

    def _add_node(self) -> None:
        number = len(self._new)
        if number % _RESERVED == 0:
            # Room for many nodes at once: each new layout of the rows costs what the whole cluster costs.
            last = number + min(_RESERVED, self._limiter.left + 1)
            self._snapshot.reserve(f"{self._template.name}-e-{each}" for each in range(number, last))
        info = self._template.fresh(f"e-{number}")
        self._snapshot.add(info)
        self._last = info.name
        self._new.add(info.name)

    def _track(self, pod: PodInfo, name: str) -> None:
        self._with_pods.add(name)
        self._scheduled.append(pod)


def decreasing_order(groups: Sequence[PodGroup], node: Node) -> list[PodGroup]:
    """The largest pods first, by the sum of their shares of cpu and memory; equals as Go's sort leaves them."""
    allocatable = Resource.from_map(node.status.allocatable)

    def score(group: PodGroup) -> float:
        requested, total = group.sample.shape.node_requested, 0.0
        if allocatable.milli_cpu > 0:
            total += requested.milli_cpu / allocatable.milli_cpu
        if allocatable.memory > 0:
            total += requested.memory / allocatable.memory
        return total

    return go_sorted(groups, lambda group: -score(group))


def best_for_fastpath(groups: Sequence[PodGroup], node: Node) -> PodGroup | None:
    """The group for which one filled node says most about the others; the last of equals."""
    best, most = None, 0
    for group in groups:
        nodes = max(_nodes_by_anti_affinity(group), *_nodes_by_requests(group, node))
        saved = len(group.pods) - len(group.pods) // nodes if nodes > 0 else 0
        if saved >= most and _suits_fastpath(group.sample):
            best, most = group, saved
    return best


def _nodes_by_anti_affinity(group: PodGroup) -> int:
    affinity = group.sample.pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity else None
    for term in anti.required_during_scheduling_ignored_during_execution if anti else ():
        if term.topology_key == HOST_NAME and label_selector_matches(term.label_selector, group.sample.shape.labels):
            return len(group.pods)
    return 0


def _nodes_by_requests(group: PodGroup, node: Node) -> tuple[int, int]:
    """By cpu and by memory of the first container, of the node's capacity."""
    containers = group.sample.pod.spec.containers
    requests = (containers[0].resources.requests if containers else None) or {}
    found = []
    for resource in ("cpu", "memory"):
        # In upstream's order of operations: a product of floats may end just above a whole number.
        asked = parse_quantity(requests.get(resource, 0)) / NANOS
        has = parse_quantity(node.status.capacity.get(resource, 0)) / NANOS
        found.append(ceil(float(len(group.pods)) * asked / has) if has else 0)
    return found[0], found[1]


def _suits_fastpath(pod: PodInfo) -> bool:
    if pod.pod.spec.topology_spread_constraints:
        return False
    return all(term.topology_key == HOST_NAME for term in pod.shape.required_anti_affinity)


def _spreads_over_hosts(pod: PodInfo) -> bool:
    return any(each.topology_key == HOST_NAME for each in pod.pod.spec.topology_spread_constraints)


def _is_spread_failure(status: Status) -> bool:
    return SPREAD in status.reasons
