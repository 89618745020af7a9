"""DefaultBinder: binds the pod to the chosen node (plugins/defaultbinder/default_binder.go of v1.37.2).

The binding itself is an effect that the caller carries out; whether it succeeds is known when its outcome comes back.
"""

from __future__ import annotations

from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.interface import BindPlugin
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SUCCESS, Status


class DefaultBinder(BindPlugin):
    """Binds every pod."""

    name = "DefaultBinder"

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS
