"""Runs the scheduler core on the virtual cluster: watches, cycles that take time, and the effects.

One cycle at a time. A pod is popped as soon as there is one and the last cycle has ended; the decision falls `cycle`
later, on the state of that moment. Bindings and deletions happen at the moment of the decision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.kernel import Timer
from stowplan_scheduler.effects import (
    DONE,
    Bind,
    DeleteVictim,
    Effect,
    Outcome,
    PatchPodStatus,
    PreBind,
    Result,
    SetTimer,
)
from stowplan_scheduler.events import (
    WATCHED,
    EffectDone,
    Event,
    ObjectAdded,
    ObjectDeleted,
    ObjectUpdated,
    TimerFired,
)
from stowplan_scheduler.objects import PodCondition

from .errors import ApiError, ConflictError, NotFoundError
from .feed import Change, ChangeType
from .pods import FAILED, SUCCEEDED, ClusterPod

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_scheduler.framework.runtime import Decision
    from stowplan_scheduler.queue import QueuedPodInfo
    from stowplan_scheduler.scheduler import Scheduler

    from .api_server import ApiServer
    from .feed import ChangeFeed

_ENDED: Final = frozenset({SUCCEEDED, FAILED})
_OWNERS: Final = frozenset({"Service", "ReplicationController", "ReplicaSet", "StatefulSet"})
"""Kinds of which the scheduler reads the selector only."""

Listener = Callable[[Effect], None]
"""Told of every effect before it is carried out."""


class SchedulerProcess:
    """One scheduler with its watches.

    `cycle`: time from the pop to the decision, in nanoseconds. `on_effect` is told of effects, for reports.
    `on_decision` is told (pod, decision) of each attempt; None where no node was chosen.
    """

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        scheduler: Scheduler,
        *,
        cycle: int,
        on_effect: Listener | None = None,
        on_decision: Callable[[QueuedPodInfo, Decision | None], None] | None = None,
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._scheduler = scheduler
        self._cycle = cycle
        self._on_effect = on_effect
        self._on_decision = on_decision
        self._timer: Timer | None = None
        self._doers: dict[type[Effect], Callable[[Any], Outcome | None]] = {
            Bind: self._bind,
            PreBind: self._prepare,
            PatchPodStatus: self._patch,
            DeleteVictim: self._delete,
            SetTimer: self._set_timer,
        }
        """How effects are carried out; of the others nothing is to be done."""
        self._trying: QueuedPodInfo | None = None

    def start(self, feed: ChangeFeed, latency: int = 0) -> None:
        """Take what is there, and watch from now on."""
        for kind in WATCHED:
            for obj in self._server.all(kind).values():
                self._tell(ObjectAdded(obj))
        feed.watch("scheduler", frozenset(WATCHED), self._changed, latency, selects=_selects)
        self._look()

    @property
    def trying(self) -> QueuedPodInfo | None:
        """The pod that is being tried, if there is one."""
        return self._trying

    # ---- what it hears -----------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if change.type is ChangeType.MODIFIED:
            if _is_of_no_interest(change):
                return
            self._tell(ObjectUpdated(change.new))
        elif change.type is ChangeType.ADDED:
            self._tell(ObjectAdded(change.new))
        else:
            self._tell(ObjectDeleted(change.new))
        self._look()

    def _tell(self, event: Event) -> None:
        self._carry_out(self._scheduler.receive(event, self._kernel.now))

    def _fired(self) -> None:
        self._timer = None
        self._tell(TimerFired())
        self._look()

    # ---- cycles ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Begin a cycle if there is a pod to try and none is being tried."""
        if self._trying is not None or not self._scheduler.has_work():
            return
        pod = self._scheduler.begin_cycle(self._kernel.now)
        if pod is not None:
            self._trying = pod
            self._kernel.at(self._kernel.now + self._cycle, lambda: self._decide(pod))

    def _decide(self, pod: QueuedPodInfo) -> None:
        self._trying = None
        effects = self._scheduler.finish_cycle(pod, self._kernel.now)
        if self._on_decision is not None:
            self._on_decision(pod, self._scheduler.attempts.last_decision)
        self._carry_out(effects)
        self._look()

    # ---- effects -----------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        if not effects:
            return
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            if self._on_effect is not None:
                self._on_effect(effect)
            do = self._doers.get(type(effect))
            outcome = None if do is None else do(effect)
            if outcome is not None:
                pending.extend(self._scheduler.receive(EffectDone(effect.id, outcome), self._kernel.now))

    def _set_timer(self, effect: SetTimer) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._kernel.at(effect.at, self._fired)

    def _prepare(self, effect: PreBind) -> Outcome:
        """Volumes and claims are not modelled: there is nothing to prepare."""
        return DONE

    def _bind(self, effect: Bind) -> Outcome:
        try:
            held: ClusterPod = self._server.get("Pod", effect.pod.key)
            if held.metadata.uid != effect.pod.metadata.uid:
                raise _other_pod(held, effect.pod.metadata.uid)
            self._server.bind(effect.pod.key, effect.node_name)
        except ApiError as failure:
            return Outcome(Result.FAILED, f'running Bind plugin "DefaultBinder": {failure}')
        return DONE

    def _patch(self, effect: PatchPodStatus) -> None:
        """A pod that is gone needs no patch."""
        pod: ClusterPod | None = self._server.find("Pod", effect.pod.key)
        if pod is None or pod.metadata.uid != effect.pod.metadata.uid:
            return
        status, unschedulable = pod.status, pod.unschedulable
        if effect.reason:
            unschedulable = effect.reason == "Unschedulable"
            condition = PodCondition(type="PodScheduled", status="False", reason=effect.reason, message=effect.message)
            status = replace(status, conditions=(*_without(status.conditions, "PodScheduled"), condition))
        if effect.nominated_node_name is not None:
            status = replace(status, nominated_node_name=effect.nominated_node_name)
        if status != pod.status:
            self._server.patch(replace(pod, status=status, unschedulable=unschedulable))

    def _delete(self, effect: DeleteVictim) -> Outcome:
        """First the condition, then the deletion, each on the victim of that UID only."""
        key, uid = effect.victim.key, effect.victim.metadata.uid
        pod: ClusterPod | None = self._server.find("Pod", key)
        if pod is None or pod.metadata.uid != uid:
            return Outcome(missing=True)
        condition = PodCondition(
            type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=effect.message
        )
        status = replace(pod.status, conditions=(*_without(pod.status.conditions, "DisruptionTarget"), condition))
        self._server.patch(replace(pod, status=status))
        try:
            self._server.delete("Pod", key, uid=uid)
        except NotFoundError:
            return Outcome(missing=True)
        return DONE


def _other_pod(held: ClusterPod, uid: str) -> ConflictError:
    """A pod of that name which is not the one that was to be bound (pkg/registry/core/pod/storage/storage.go)."""
    return ConflictError(
        f'Operation cannot be fulfilled on pods "{held.metadata.name}": StorageError: invalid object, Code: 4, '
        f"Key: /registry/pods/{held.key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {uid}, UID in object meta: {held.metadata.uid}"
    )


def _selects(kind: str, old: Any, new: Any) -> bool:
    """Pods that have ended are not asked for (NewInformerFactory of pkg/scheduler/scheduler.go); that they end is."""
    return kind != "Pod" or new.status.phase not in _ENDED or (old is not None and old.status.phase not in _ENDED)


def _is_of_no_interest(change: Change) -> bool:
    """Whether the scheduler reads nothing of what changed."""
    if change.kind == "Pod":
        old, new = change.old, change.new
        # Readiness and restarts come and go; nobody schedules by them.
        return bool(
            new.spec is old.spec
            and new.metadata is old.metadata
            and new.status.phase == old.status.phase
            and new.status.start_time == old.status.start_time
            and new.status.conditions == old.status.conditions
            and new.status.nominated_node_name == old.status.nominated_node_name
        )
    if change.kind in _OWNERS:
        old, new = change.old.spec, change.new.spec
        return bool(old is new or old.selector is new.selector or old.selector == new.selector)
    return False


def _without(conditions: tuple[PodCondition, ...], kind: str) -> tuple[PodCondition, ...]:
    return tuple(condition for condition in conditions if condition.type != kind)
