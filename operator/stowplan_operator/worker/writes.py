"""The other writes: conditions and nominations of pods, and the end of victims.

A pod's status is patched one request at a time, so that patches cannot overtake each other; while one is under way, the
newest wish waits and the ones before it are forgotten. A bind of the pod waits too (`is_busy`): PodScheduled=False that
comes late on a bound pod would stay there.

A victim first gets the condition DisruptionTarget, then it is deleted, as PreemptPod of
pkg/scheduler/framework/preemption/executor.go of Kubernetes v1.37.2 does it; here with the UID as a precondition, and
only as long as the preemptor waits: upstream deletes the rest of the victims even if it has a node by then, or is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

import msgspec

from stowplan_scheduler.effects import DONE, DeleteVictim, Outcome, PatchPodStatus, Result
from stowplan_scheduler.objects import Pod, PodCondition

from .requests import UNKNOWN, Answer, DeletePod, PatchPod, Request
from .retries import MAX_TRIES, delay

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
POD_SCHEDULED: Final = "PodScheduled"

GONE: Final = Outcome(missing=True)
NOT_WANTED: Final = "the preemptor does not wait any more"


class Job(msgspec.Struct, eq=False, kw_only=True):
    """Something to be sent, perhaps several times."""

    tries: int = 0
    is_sent: bool = False
    """Its request is unanswered."""
    is_dropped: bool = False
    """It stands among those to be sent, and will not be."""


class Wish(Job, eq=False):
    """What a pod's status is to say."""

    pod: Pod
    condition: PodCondition | None
    nominated_node_name: str | None
    next: Wish | None = None
    """A newer wish, while this one is in flight."""

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.pod.metadata.uid

    def request(self, request_id: int) -> Request:
        """What is to be sent."""
        return PatchPod(
            id=request_id,
            key=self.pod.key,
            uid=self.uid,
            condition=self.condition,
            nominated_node_name=self.nominated_node_name,
        )


class Eviction(Job, eq=False):
    """A victim on its way out."""

    effect: DeleteVictim
    condition: PodCondition | None
    """To be set still; None once it is, or was there already."""

    def request(self, request_id: int) -> Request:
        """What is to be sent next."""
        key, uid = self.effect.victim.key, self.effect.victim.metadata.uid
        if self.condition is None:
            return DeletePod(id=request_id, key=key, uid=uid)
        return PatchPod(id=request_id, key=key, uid=uid, condition=self.condition, nominated_node_name=None)


class EvictionDone(msgspec.Struct, frozen=True):
    """The answer to a DeleteVictim effect."""

    effect: DeleteVictim
    outcome: Outcome


class PodWrites:
    """Patches and evictions under way; `limit` requests in flight at most."""

    def __init__(self, limit: int, next_id: Callable[[], int], send: Callable[[Request], None]) -> None:
        """Nothing under way."""
        self.limit = limit
        self._next_id = next_id
        self._send = send
        self._wishes: dict[str, Wish] = {}
        self._ready: deque[Wish | Eviction] = deque()
        self._waiting: list[tuple[int, int, Wish | Eviction]] = []
        """A heap by the end of the wait, and by number."""
        self._waits = 0
        self._by_request: dict[int, Wish | Eviction] = {}
        self._evictions: dict[int, Eviction] = {}
        """By the id of the effect."""

    def __len__(self) -> int:
        """How many writes are under way."""
        return len(self._wishes) + len(self._evictions)

    @property
    def in_flight(self) -> int:
        """How many requests are unanswered."""
        return len(self._by_request)

    def is_busy(self, uid: str) -> bool:
        """Whether a patch of this pod is under way."""
        return uid in self._wishes

    def owns(self, request_id: int) -> bool:
        """Whether the answer to this request belongs here."""
        return request_id in self._by_request

    # ---- what is wanted --------------------------------------------------------------------------

    def patch(self, effect: PatchPodStatus) -> None:
        """A pod's condition or nomination is to change."""
        wish = Wish(effect.pod, _unscheduled(effect), effect.nominated_node_name)
        current = self._wishes.get(wish.uid)
        if current is None:
            self._wishes[wish.uid] = wish
            self._ready.append(wish)
        elif current.is_sent:
            current.next = wish if current.next is None else _merged(current.next, wish)
        else:
            merged = _merged(current, wish)
            current.pod, current.condition = merged.pod, merged.condition
            current.nominated_node_name = merged.nominated_node_name

    def forget(self, uid: str) -> None:
        """The pod is about to be bound, or gone: what has not left need not leave."""
        wish = self._wishes.get(uid)
        if wish is None:
            return
        wish.next = None
        if not wish.is_sent:
            self._drop(wish)

    def evict(self, effect: DeleteVictim, victim: Pod) -> None:
        """A victim is to go; `victim` is the newest object of it."""
        condition = PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=effect.message,
            last_transition_time=_kept_time(victim, DISRUPTION_TARGET, "True"),
            observed_generation=victim.metadata.generation,
        )
        job = self._evictions[effect.id] = Eviction(effect, None if _has(victim, condition) else condition)
        self._ready.append(job)

    # ---- answers -----------------------------------------------------------------------------------

    def answered(self, answer: Answer, now: int, *, leading: bool) -> EvictionDone | None:
        """An answer; an eviction's outcome, if that ends one."""
        job = self._by_request.pop(answer.id)
        job.is_sent = False
        if isinstance(job, Eviction):
            return self._evicted(job, answer, now, leading=leading)
        self._patched(job, answer, now, leading=leading)
        return None

    def _patched(self, wish: Wish, answer: Answer, now: int, *, leading: bool) -> None:
        newer = wish.next
        if leading and newer is None and _is_worth_repeating(answer) and wish.tries < MAX_TRIES:
            self._wait(wish, answer, now)
            return
        del self._wishes[wish.uid]
        if newer is not None and leading:
            self._wishes[newer.uid] = newer
            self._ready.append(newer)

    def _evicted(self, job: Eviction, answer: Answer, now: int, *, leading: bool) -> EvictionDone | None:
        if answer.status == 404 or (answer.status == 409 and job.condition is None):
            # A deletion is refused by the UID alone: the victim is gone, another pod has its name.
            return self._end(job, GONE)
        if answer.is_success:
            if job.condition is None:
                return self._end(job, DONE)
            job.condition, job.tries = None, 0
            if leading:
                self._ready.append(job)
                return None
        elif leading and _is_worth_repeating(answer) and job.tries < MAX_TRIES:
            self._wait(job, answer, now)
            return None
        return self._end(job, Outcome(Result.FAILED, answer.message or "this worker does not lead any more"))

    def _wait(self, job: Wish | Eviction, answer: Answer, now: int) -> None:
        self._waits += 1
        heappush(self._waiting, (now + delay(max(job.tries, 1), answer.retry_after), self._waits, job))

    def _end(self, job: Eviction, outcome: Outcome) -> EvictionDone:
        job.is_dropped = True
        del self._evictions[job.effect.id]
        return EvictionDone(job.effect, outcome)

    def gone(self, uid: str) -> list[EvictionDone]:
        """The watch shows that a pod is deleted: nothing more needs to be sent about it."""
        self.forget(uid)
        jobs = list(self._evictions.values())
        return [self._end(job, GONE) for job in jobs if job.effect.victim.metadata.uid == uid and not job.is_sent]

    def follow(self) -> list[EvictionDone]:
        """This worker leads no more: what has not left never will."""
        for uid in list(self._wishes):
            self.forget(uid)
        outcome = Outcome(Result.FAILED, "this worker does not lead any more")
        ended = [self._end(job, outcome) for job in list(self._evictions.values()) if not job.is_sent]
        self._ready.clear()
        self._waiting.clear()
        return ended

    def _drop(self, wish: Wish) -> None:
        wish.is_dropped = True
        del self._wishes[wish.uid]

    # ---- what leaves -------------------------------------------------------------------------------

    def run(self, now: int, is_wanted: Callable[[DeleteVictim], bool]) -> list[EvictionDone]:
        """Send what may be sent now; returns the evictions that nobody needs any more, by `is_wanted`."""
        ended: list[EvictionDone] = []
        while self._waiting and self._waiting[0][0] <= now:
            self._ready.append(heappop(self._waiting)[2])
        while self._ready and len(self._by_request) < self.limit:
            job = self._ready.popleft()
            if job.is_dropped:
                continue
            if isinstance(job, Eviction) and not is_wanted(job.effect):
                ended.append(self._end(job, Outcome(Result.FAILED, NOT_WANTED)))
                continue
            job.tries += 1
            job.is_sent = True
            request_id = self._next_id()
            self._by_request[request_id] = job
            self._send(job.request(request_id))
        return ended

    def wake_at(self) -> int | None:
        """When the next wait ends."""
        return self._waiting[0][0] if self._waiting else None


def _is_worth_repeating(answer: Answer) -> bool:
    """Both requests may be made twice, so a lost answer is as good as a refusal (util.RetriableWithConflict)."""
    return answer.is_retriable or answer.status in {UNKNOWN, 409}


def _unscheduled(effect: PatchPodStatus) -> PodCondition | None:
    """The PodScheduled condition that an attempt that failed leaves behind (schedule_one.go, updatePod)."""
    if not effect.reason:
        return None
    return PodCondition(
        type=POD_SCHEDULED,
        status="False",
        reason=effect.reason,
        message=effect.message,
        last_transition_time=_kept_time(effect.pod, POD_SCHEDULED, "False"),
        observed_generation=effect.pod.metadata.generation,
    )


def _kept_time(pod: Pod, kind: str, status: str) -> str | None:
    """The transition time that stays, for the status stays (pkg/api/v1/pod/util.go, UpdatePodCondition)."""
    for condition in pod.status.conditions:
        if condition.type == kind and condition.status == status:
            return condition.last_transition_time
    return None


def _has(pod: Pod, wanted: PodCondition) -> bool:
    return any(
        (held.type, held.status, held.reason, held.message)
        == (wanted.type, wanted.status, wanted.reason, wanted.message)
        for held in pod.status.conditions
    )


def _merged(older: Wish, newer: Wish) -> Wish:
    """The newer wish, and what the older one wanted that the newer one leaves as it is."""
    return Wish(
        newer.pod,
        older.condition if newer.condition is None else newer.condition,
        older.nominated_node_name if newer.nominated_node_name is None else newer.nominated_node_name,
    )
