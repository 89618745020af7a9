"""NodeName: a pod that names its node fits that node only (plugins/nodename/node_name.go of v1.37.2)."""

from __future__ import annotations

from typing import cast

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import NODE_ADD, EventRegistration
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, PreFilterResult, ReasonIds
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Code

from .vectors import is_row, reject


class NodeName(FilterPlugin):
    """spec.nodeName, where it is set, must be the node's name."""

    name = "NodeName"
    filter_inputs = Inputs.NODE
    filter_reads_requests = False

    def __init__(self) -> None:
        super().__init__()
        self._other_node = self.reasons.id(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match the requested node name"
        )

    def filter_key(self, pod: PodInfo) -> str:
        return pod.pod.spec.node_name

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        wanted = pod.pod.spec.node_name
        return PreFilterResult(node_names=frozenset((wanted,)) if wanted else None, state=wanted)

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        wanted = cast(str, state)
        if not wanted:
            return np.zeros(view.size, np.int16)
        return reject(~is_row(view, wanted), self._other_node)

    def events(self) -> tuple[EventRegistration, ...]:
        return (EventRegistration(NODE_ADD),)
