"""The live interpreter of the core's effects: what leaves for the API server, and what an answer is to the core.

Effects come as lists from the scheduler and are carried out in their order. Those that take a request are begun here
and kept in Bindings and PodWrites until they are answered; the others end at once. Nothing leaves unless this worker
leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan_scheduler.effects import (
    AttemptFailed,
    Bind,
    DeleteVictim,
    Effect,
    Observe,
    Outcome,
    PatchPodStatus,
    PreBind,
    RecordEvent,
    ReleaseClaim,
    Result,
    SetTimer,
)
from stowplan_scheduler.events import EffectDone
from stowplan_scheduler.objects import Pod

from .bindings import NOT_LEADING, Bindings, Finished
from .requests import Answer, BindPod, DeletePod, EmitEvent, PatchPod, ReadPod, Request, reference
from .story import Moment, Teller
from .writes import NOT_WANTED, EvictionDone, PodWrites

if TYPE_CHECKING:
    from stowplan_scheduler.scheduler import Scheduler


class Interpreter:
    """Effects of one scheduler. `on_ahead` is told of a pod that a read shows on a node before the watch does."""

    def __init__(
        self,
        scheduler: Scheduler,
        limit: int,
        story: Teller,
        *,
        on_ahead: Callable[[Pod, int], None],
        on_observe: Callable[[Observe], None] | None,
    ) -> None:
        """Nothing under way. `limit`: binds, and other writes, in flight at most."""
        self._scheduler = scheduler
        self._story = story
        self._ahead = on_ahead
        self._observe = on_observe
        self._request_id = 0
        self._out: list[Request] = []
        self.bindings = Bindings(limit, self._next_id, self._send, scheduler.pods.of_uid)
        self.writes = PodWrites(limit, self._next_id, self._send)
        self.leading = False
        self.epoch = 0
        """Of the Lease that this worker leads by, or led by last."""
        self.timer: int | None = None
        """When the scheduler wants to be called."""

    @property
    def told_epoch(self) -> int:
        """The epoch as stories tell it: 0 while this worker does not lead."""
        return self.epoch if self.leading else 0

    @property
    def may_decide(self) -> bool:
        """Whether it leads, and decisions have not run too far ahead: as many again as may be in flight, no more."""
        return self.leading and len(self.bindings) < 2 * self.bindings.limit

    def set_limit(self, limit: int) -> None:
        """Another number of requests in flight from now on."""
        self.bindings.limit = self.writes.limit = limit

    def takes_timer(self, now: int) -> bool:
        """Whether the scheduler's timer is due; then it is no longer set."""
        if self.timer is None or self.timer > now:
            return False
        self.timer = None
        return True

    def wake_at(self) -> int | None:
        """When the scheduler, or a request that is to be repeated, wants to be called."""
        due = (self.timer, self.bindings.wake_at(), self.writes.wake_at())
        return min((time for time in due if time is not None), default=None)

    # ---- answers ---------------------------------------------------------------------------------

    def answered(self, answer: Answer, now: int) -> None:
        """A request was answered. Answers to requests that were settled otherwise mean nothing."""
        self._story.answered(answer, now, self.told_epoch)
        if self.bindings.owns(answer.id):
            self.finished(self.bindings.answered(answer, now, leading=self.leading), now)
        elif self.writes.owns(answer.id):
            done = self.writes.answered(answer, now, leading=self.leading)
            if done is not None:
                self._evicted(done, now)

    def follow(self, now: int) -> None:
        """This worker leads no more."""
        self.leading = False
        for bind in self.bindings.follow():
            self.finished(bind, now)
        for eviction in self.writes.follow():
            self._evicted(eviction, now)

    def seen(self, pod: Pod, now: int) -> None:
        """The core has been told that the pod changed: that may settle its bind."""
        if pod.metadata.uid in self.bindings:
            self.finished(self.bindings.seen(pod), now)

    def gone(self, uid: str, now: int) -> None:
        """The core has been told that the pod is gone: that settles all about it that is not in flight."""
        self.finished(self.bindings.gone(uid), now)
        for eviction in self.writes.gone(uid):
            self._evicted(eviction, now)

    # ---- effects ---------------------------------------------------------------------------------

    def carry_out(self, effects: list[Effect], now: int) -> None:
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            outcome = self._carry(effect, now)
            if outcome is not None:
                pending.extend(self._scheduler.receive(EffectDone(effect.id, outcome), now))

    def _carry(self, effect: Effect, now: int) -> Outcome | None:
        """Begin one effect; the outcome, if that is all."""
        match effect:
            case Observe():
                if self._observe is not None:
                    self._observe(effect)
            case SetTimer():
                self.timer = effect.at
            case Bind():
                return self._bind(effect, now)
            case RecordEvent():
                self._record(effect, now)
            case PatchPodStatus():
                self._patch(effect, now)
            case AttemptFailed():
                self._tell_attempt(effect, now)
            case DeleteVictim():
                return self._evict(effect, now)
            case PreBind():
                text = f'running PreBind plugin "{effect.plugin}": Stowplan prepares nothing before binding'
                return Outcome(Result.FAILED, text)
            case ReleaseClaim():
                return Outcome(Result.FAILED, "Stowplan releases no resource claims")
        return None

    def _bind(self, effect: Bind, now: int) -> Outcome | None:
        self.writes.forget(effect.pod.metadata.uid)
        if not self.leading:
            return Outcome(Result.FAILED, NOT_LEADING)
        self._story.tell(Moment.ASSUMED, effect.pod, now, self.told_epoch, node=effect.node_name)
        self.bindings.add(effect, self.epoch)
        return None

    def finished(self, finished: Finished | None, now: int) -> None:
        """A bind has its outcome, if it has."""
        if finished is None:
            return
        bind, outcome = finished.bind, finished.outcome
        if self._story.is_heard:
            moment = Moment.BOUND if outcome.is_done else Moment.UNBOUND
            node = bind.effect.node_name
            self._story.tell(moment, bind.pod, now, bind.epoch, node=node, message=outcome.message)
        if finished.pod is not None:
            self._ahead(finished.pod, now)
        self.carry_out(self._scheduler.receive(EffectDone(bind.effect.id, outcome), now), now)

    def _patch(self, effect: PatchPodStatus, now: int) -> None:
        """Nothing is said on a pod that is bound or gone: PodScheduled=False would stay there."""
        newest = self._scheduler.pods.of_uid(effect.pod.metadata.uid)
        if newest is None or newest.spec.node_name or newest.metadata.uid in self.bindings:
            return
        if self.leading:
            self.writes.patch(effect)
        else:
            self._story.tell(Moment.DROPPED, effect.pod, now, 0, message="patch")

    def _evict(self, effect: DeleteVictim, now: int) -> Outcome | None:
        uid = effect.victim.metadata.uid
        if not self.leading:
            return Outcome(Result.FAILED, NOT_LEADING)
        if not self._is_wanted(effect):
            return Outcome(Result.FAILED, NOT_WANTED)
        # A victim that waits for Permit, or whose bind has not begun, goes back to the queue (executor.go, PreemptPod).
        if self._scheduler.attempts.reject_waiting(uid, "DefaultPreemption", "preempted", now):
            return Outcome(in_memory=True)
        cancelled = self.bindings.cancel(uid, "preempted by DefaultPreemption")
        if cancelled is not None:
            self.finished(cancelled, now)
            return Outcome(in_memory=True)
        newest = self._scheduler.pods.of_uid(uid)
        if newest is None:
            return Outcome(missing=True)
        self.writes.evict(effect, newest)
        return None

    def _evicted(self, done: EvictionDone, now: int) -> None:
        self.carry_out(self._scheduler.receive(EffectDone(done.effect.id, done.outcome), now), now)

    def _record(self, effect: RecordEvent, now: int) -> None:
        if not self.leading:
            return
        reporter = effect.regarding if effect.related is None else effect.related
        self._out.append(
            EmitEvent(
                id=self._next_id(),
                regarding=reference(effect.regarding),
                related=None if effect.related is None else reference(effect.related),
                scheduler_name=reporter.spec.scheduler_name,
                type=effect.type,
                reason=effect.reason,
                action=effect.action,
                note=effect.note,
            )
        )

    def _tell_attempt(self, effect: AttemptFailed, now: int) -> None:
        if self._story.is_heard:
            pod = effect.pod
            node = effect.nominated_node or ""
            self._story.tell(
                Moment.ATTEMPT,
                pod,
                now,
                self.told_epoch,
                attempt=effect.attempt,
                node=node,
                place=place_of(self._scheduler, pod),
                message=effect.message,
            )

    # ---- requests --------------------------------------------------------------------------------

    def _next_id(self) -> int:
        self._request_id += 1
        return self._request_id

    def _send(self, request: Request) -> None:
        self._out.append(request)

    def flush(self, now: int) -> list[Request]:
        """What leaves now."""
        while self.leading:
            spared = self.writes.run(now, self._is_wanted)
            for eviction in spared:
                self._evicted(eviction, now)
            gone = self.bindings.run(now, self.writes.is_busy, self._is_node)
            for bind in gone:
                self.finished(bind, now)
            if not spared and not gone:
                # Else there may be more to say: what follows from an outcome must not wait for another event.
                break
        requests, self._out = self._out, []
        if self._story.is_heard:
            for request in requests:
                self._tell_asked(request, now)
        return requests

    def _tell_asked(self, request: Request, now: int) -> None:
        if isinstance(request, EmitEvent):
            return
        assert isinstance(request, BindPod | ReadPod | PatchPod | DeletePod)
        scheduler = self._scheduler
        known = (
            scheduler.pods.of_key(request.key) if isinstance(request, ReadPod) else scheduler.pods.of_uid(request.uid)
        )
        if known is not None:
            self._story.asked(request, known, now, self.told_epoch)

    def _is_wanted(self, effect: DeleteVictim) -> bool:
        """Whether the preemptor still waits."""
        newest = self._scheduler.pods.of_uid(effect.preemptor.metadata.uid)
        return newest is not None and not newest.spec.node_name

    def _is_node(self, name: str) -> bool:
        held = self._scheduler.cache.get_node(name)
        return held is not None and held.node is not None


def place_of(scheduler: Scheduler, pod: Pod) -> str:
    """Where a pod waits, by the names of the queue's places; "" if nowhere."""
    info = scheduler.pods.by_key.get(pod.key)
    place = None if info is None else scheduler.queue.place_of(info)
    return "" if place is None else place.value
