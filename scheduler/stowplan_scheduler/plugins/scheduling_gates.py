"""SchedulingGates: a pod with gates stays outside (plugins/schedulinggates/scheduling_gates.go of v1.37.2)."""

from __future__ import annotations

from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Resource
from stowplan_scheduler.framework.interface import PreEnqueuePlugin
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SUCCESS, Status, unresolvable


class SchedulingGates(PreEnqueuePlugin):
    """Admits pods without scheduling gates."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events(self) -> tuple[EventRegistration, ...]:
        gone = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (EventRegistration(gone),)
