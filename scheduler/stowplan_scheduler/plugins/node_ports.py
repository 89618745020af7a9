"""NodePorts: host ports that are taken on the node (plugins/nodeports/node_ports.go of v1.37.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np

from stowplan_scheduler.cache.node_info import HostPortInfo
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, NODE_ADD, EventRegistration, Hint
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, PreFilterResult, ReasonIds
from stowplan_scheduler.framework.pod_info import HostPort, PodInfo
from stowplan_scheduler.framework.status import SKIP, Code

from .changes import RecentShapes, has_place, pods, present, queue_if


class NodePorts(FilterPlugin):
    """The pod's host ports must be free."""

    name = "NodePorts"
    filter_inputs = Inputs.ROW
    filter_reads_requests = False

    def __init__(self) -> None:
        super().__init__()
        self._taken = self.reasons.id(Code.UNSCHEDULABLE, "node(s) didn't have free ports for the requested pod ports")
        self._shapes = RecentShapes()

    def filter_key(self, pod: PodInfo) -> tuple[HostPort, ...]:
        return pod.shape.host_ports

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        ports = pod.shape.host_ports
        return PreFilterResult(state=ports) if ports else PreFilterResult(SKIP)

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        wanted = cast(tuple[HostPort, ...], state)
        verdicts = np.zeros(view.size, np.int16)
        for index in _with_ports(view):
            if _conflict(wanted, view.info(index).used_ports):
                verdicts[index] = self._taken
        return verdicts

    def events(self) -> tuple[EventRegistration, ...]:
        return (EventRegistration(ASSIGNED_POD_DELETE, self._after_pod_deleted), EventRegistration(NODE_ADD))

    def _after_pod_deleted(self, pod: PodInfo, old: object, new: object) -> Hint:
        before, _ = pods(old, None)
        deleted = present(before)
        if not has_place(deleted):
            return Hint.SKIP
        return queue_if(_conflict(pod.shape.host_ports, HostPortInfo(self._shapes.of(deleted).host_ports)))


def _with_ports(view: NodeView) -> Iterable[int]:
    """The few elements of the view with any host port taken."""
    if view.infos is not None:
        return [index for index, info in enumerate(view.infos) if info.used_ports]
    return np.flatnonzero(view.table.with_ports[view.rows]).tolist()


def _conflict(wanted: tuple[HostPort, ...], taken: HostPortInfo | None) -> bool:
    return taken is not None and any(taken.conflicts(port.ip, port.protocol, port.port) for port in wanted)
