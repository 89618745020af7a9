"""NodeUnschedulable: cordoned nodes (plugins/nodeunschedulable/node_unschedulable.go of v1.37.2)."""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, PreFilterResult, ReasonIds
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import Pod, Taint
from stowplan_scheduler.tolerations import NO_SCHEDULE, is_tolerated

from .changes import nodes, pods, present, queue_if
from .vectors import reject

UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint that goes with spec.unschedulable; a pod that tolerates it may go to a cordoned node."""


class NodeUnschedulable(FilterPlugin):
    """spec.unschedulable keeps pods away that do not tolerate the taint that goes with it."""

    name = "NodeUnschedulable"
    filter_inputs = Inputs.NODE
    filter_reads_requests = False

    def __init__(self) -> None:
        super().__init__()
        self._cordoned = self.reasons.id(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) were unschedulable")

    def filter_key(self, pod: PodInfo) -> bool:
        return _tolerates_cordon(pod.pod)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        return PreFilterResult(state=_tolerates_cordon(pod.pod))

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        if cast(bool, state):
            return np.zeros(view.size, np.int16)
        return reject(view.unschedulable, self._cordoned)

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _after_node_change),
            EventRegistration(
                ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION), _after_own_toleration_change
            ),
        )


def _tolerates_cordon(pod: Pod) -> bool:
    tolerations = pod.spec.tolerations
    return bool(tolerations) and is_tolerated(UNSCHEDULABLE_TAINT, tolerations)


def _after_node_change(pod: PodInfo, old: object, new: object) -> Hint:
    before, after = nodes(old, new)
    was_closed = before is None or before.spec.unschedulable
    return queue_if(was_closed and not present(after).spec.unschedulable)


def _after_own_toleration_change(pod: PodInfo, old: object, new: object) -> Hint:
    _, after = pods(old, new)
    return queue_if(_tolerates_cordon(present(after)))
