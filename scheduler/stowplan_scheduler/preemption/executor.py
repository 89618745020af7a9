"""Carries a preemption out: victims are deleted in the background while the preemptor waits behind a gate.

All victims but one are deleted first, the last one after them. The preemptor stays gated until the last deletion is
answered, or until it shows in the cluster, whichever comes first: its event would otherwise find the preemptor still
gated, and no later event would wake it.

Follows prepareCandidateAsync and isRunningPreemption of pkg/scheduler/framework/preemption/executor.go of Kubernetes
v1.37.2 (gate SchedulerAsyncPreemption on).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stowplan_scheduler.effects import DeleteVictim, Effect, Outcome, PatchPodStatus, RecordEvent
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Pod

NextId = Callable[[], int]
"""Gives out the ids of effects."""

PodLister = Callable[[str], Pod | None]
"""The newest object of the pod "namespace/name", None if there is none."""


@dataclass(slots=True)
class Step:
    """What follows from the answer to an effect. `activate`: the pod that must be tried again in any case."""

    effects: list[Effect] = field(default_factory=list)
    activate: PodInfo | None = None
    ended: str = ""
    """How the preemption has ended: "success" or "error"; "" while it goes on."""


class _Preemption:
    """One preemption under way. `awaited` holds the victims whose deletion has not been answered, by effect."""

    __slots__ = ("awaited", "failed", "is_last", "last", "node_name", "preemptor", "scheduler_name")

    def __init__(self, preemptor: PodInfo, node_name: str, scheduler_name: str, last: Pod) -> None:
        self.preemptor = preemptor
        self.node_name = node_name
        self.scheduler_name = scheduler_name
        self.last = last
        self.is_last = False
        """The deletion of the last victim has been asked for."""
        self.failed = False
        self.awaited: dict[int, Pod] = {}

    def delete(self, victim: Pod, effect_id: int) -> DeleteVictim:
        self.awaited[effect_id] = victim
        return DeleteVictim(
            id=effect_id,
            victim=victim,
            preemptor=self.preemptor.pod,
            node_name=self.node_name,
            message=f"{self.scheduler_name}: preempting to accommodate a higher priority pod",
        )

    def delete_last(self, effect_id: int) -> DeleteVictim:
        self.is_last = True
        return self.delete(self.last, effect_id)

    def report(self, victim: Pod, outcome: Outcome, effect_id: int) -> RecordEvent:
        note = f"Preempted by pod {self.preemptor.uid} on node {self.node_name}"
        return RecordEvent(
            id=effect_id,
            regarding=victim,
            related=self.preemptor.pod,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=f"{note} (in kube-scheduler memory)." if outcome.in_memory else note,
        )


class PreemptionExecutor:
    """The preemptions under way of one profile.

    `pod_lister` shows whether the last victim is gone; without one a preemption ends with the answer to its deletion.
    """

    def __init__(self, pod_lister: PodLister | None = None) -> None:
        self.pod_lister = pod_lister
        self._by_uid: dict[str, _Preemption] = {}
        self._by_effect: dict[int, _Preemption] = {}
        self._others: tuple[PreemptionExecutor, ...] = ()
        """Of the profile as it was before, as long as they have something to do."""

    def take_over(self, other: PreemptionExecutor | None) -> None:
        """Keep the gates of preemptions that another one began; their answers go on to go there."""
        if other is not None:
            self._others = (*other.unfinished(), other)

    def unfinished(self) -> tuple[PreemptionExecutor, ...]:
        """Those taken over that have preemptions under way."""
        return tuple(other for other in self._others if other.is_busy)

    @property
    def is_busy(self) -> bool:
        """Whether any preemption is under way."""
        return bool(self._by_uid)

    def start(
        self,
        preemptor: PodInfo,
        victims: Sequence[PodInfo],
        node_name: str,
        lower_nominated: Sequence[PodInfo],
        next_id: NextId,
        scheduler_name: str,
    ) -> list[Effect]:
        """Begin to delete the victims, and take the room on the node away from those who were promised it.

        `lower_nominated`: pods of lower priority that are nominated to the node. Victims that terminate already are
        left alone; if all do, nothing happens at all and the preemptor is not gated.
        """
        alive = [victim.pod for victim in victims if not victim.terminating]
        if not alive:
            return []
        running = _Preemption(preemptor, node_name, scheduler_name, alive[-1])
        self._by_uid[preemptor.uid] = running
        effects: list[Effect] = [_clear_nomination(pod, next_id()) for pod in lower_nominated]
        effects += [running.delete(victim, next_id()) for victim in alive[:-1]]
        if not running.awaited:
            effects.append(running.delete_last(next_id()))
        self._by_effect.update((effect_id, running) for effect_id in running.awaited)
        return effects

    def awaits(self, effect_id: int) -> bool:
        """Whether the answer to this effect belongs to `effect_done`."""
        return effect_id in self._by_effect

    def effect_done(self, effect_id: int, outcome: Outcome, next_id: NextId) -> Step:
        """The answer to a deletion. Answers to other effects, and second answers, mean nothing."""
        running = self._by_effect.pop(effect_id, None)
        if running is None:
            return Step()
        victim = running.awaited.pop(effect_id)
        step = Step()
        if outcome.is_done and not outcome.missing:
            step.effects.append(running.report(victim, outcome, next_id()))
        elif not outcome.is_done:
            running.failed = True
        if running.awaited:
            return step
        if running.failed or running.is_last:
            self._finish(running)
            step.ended = "error" if running.failed else "success"
            # No deletion will be seen of a victim that was not deleted, or never reached the API server.
            if running.failed or outcome.in_memory:
                step.activate = running.preemptor
            return step
        last_id = next_id()
        step.effects.append(running.delete_last(last_id))
        self._by_effect[last_id] = running
        return step

    def _finish(self, running: _Preemption) -> None:
        uid = running.preemptor.uid
        # The gate opens before the last answer, so the pod may have begun another preemption by now.
        if self._by_uid.get(uid) is running:
            del self._by_uid[uid]

    def is_running(self, uid: str) -> bool:
        """Whether the pod must wait for the preemption that it began."""
        running = self._by_uid.get(uid)
        if running is None:
            return any(other.is_running(uid) for other in self._others)
        if not running.is_last or self.pod_lister is None:
            return True
        last = self.pod_lister(running.last.key)
        return last is not None and not last.is_terminating


def _clear_nomination(pod: PodInfo, effect_id: int) -> PatchPodStatus:
    return PatchPodStatus(id=effect_id, pod=pod.pod, reason="", message="", nominated_node_name="")
