"""A plugin that agrees to everything, for tests that do something of their own wherever it is called."""

from __future__ import annotations

from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import (
    BindPlugin,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SKIP, SUCCESS, Status


class PluginAtEveryPoint(PreEnqueuePlugin, ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin, PostBindPlugin):
    """At every point outside of the choice of a node. `called` is told of each call, by the name of the point."""

    def __init__(self, args: object, handle: PluginHandle) -> None:
        """There is nothing to configure."""
        super().__init__()

    def called(self, point: str) -> None:
        """Nothing, unless a test has it otherwise."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        self.called("PreEnqueue")
        return SUCCESS

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.called("Reserve")
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.called("Unreserve")

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, int]:
        self.called("Permit")
        return SUCCESS, 0

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.called("PreBind")
        return SKIP

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.called("Bind")
        return SKIP

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.called("PostBind")
