"""The binds under way: from the scheduler's Bind effect to its outcome, over as many requests as that takes.

    ready -> sent -> (done | failed)
               | refused for the moment: waiting, then ready again; at most MAX_TRIES times
               | 409, or no answer: reading -> done | failed | waiting, then ready again
                                      | no answer: waiting, then reading again, as long as this worker leads

At most `limit` binds are sent and unanswered. A bind whose outcome is not known holds its room on the node until it is:
either a read says so, or the watch shows the pod. Only a worker that no longer leads gives such a pod up: it must not
ask any more, and whatever it does next begins with a fresh view of the cluster.

docs/architecture/worker.md has the whole table; tests/integration/test_api_pods.py has what a real API server answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from stowplan_scheduler.effects import DONE, Bind, Outcome, Result
from stowplan_scheduler.objects import Pod

from .requests import UNKNOWN, Answer, BindPod, ReadPod, Request
from .retries import MAX_TRIES, delay

NOT_LEADING: Final = "this worker does not lead any more"


class Stage(StrEnum):
    """Where a bind is."""

    READY = "ready"
    """To be sent as soon as there is room among the binds in flight."""
    SENT = "sent"
    READING = "reading"
    """The pod is being read, for the outcome is not known."""
    WAITING = "waiting"
    """For time to pass; then it is ready, or is read again."""


class UnderWay(msgspec.Struct, eq=False):
    """One bind."""

    effect: Bind
    epoch: int
    stage: Stage = Stage.READY
    refusals: int = 0
    """How often it was certainly not carried out."""
    reads: int = 0
    """How many reads in a row said nothing."""
    due: int = 0
    """End of the wait."""
    reads_next: bool = False
    """Whether a read comes after the wait."""

    @property
    def pod(self) -> Pod:
        """The pod as it was decided about, with its node."""
        return self.effect.pod

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.effect.pod.metadata.uid


class Finished(msgspec.Struct, frozen=True):
    """A bind has come to its end. `pod`: a read showed it on another node, before the watch does."""

    bind: UnderWay
    outcome: Outcome
    pod: Pod | None = None


class Bindings:
    """All binds under way, by the UID of the pod."""

    def __init__(
        self,
        limit: int,
        next_id: Callable[[], int],
        send: Callable[[Request], None],
        newest: Callable[[str], Pod | None],
    ) -> None:
        """Nothing under way. `limit`: binds in flight at most; `send` takes what is to leave; `newest` is the pod of a
        UID as the watch shows it, None if it is gone.
        """
        self.limit = limit
        self._newest = newest
        self._next_id = next_id
        self._send = send
        self._by_uid: dict[str, UnderWay] = {}
        self._by_request: dict[int, UnderWay] = {}
        self._ready: deque[UnderWay] = deque()
        self._waiting: dict[str, UnderWay] = {}

    def __len__(self) -> int:
        """How many binds are under way."""
        return len(self._by_uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    @property
    def in_flight(self) -> int:
        """How many requests are unanswered."""
        return len(self._by_request)

    def under_way(self) -> tuple[UnderWay, ...]:
        """All of them, oldest first."""
        return tuple(self._by_uid.values())

    # ---- what begins and ends them -------------------------------------------------------------

    def add(self, effect: Bind, epoch: int) -> None:
        """The scheduler decided: to be sent with the next `run`."""
        bind = UnderWay(effect, epoch)
        self._by_uid[bind.uid] = bind
        self._ready.append(bind)

    def owns(self, request_id: int) -> bool:
        """Whether the answer to this request belongs here."""
        return request_id in self._by_request

    def answered(self, answer: Answer, now: int, *, leading: bool) -> Finished | None:
        """An answer to a bind or a read. The outcome, if that settles it."""
        bind = self._by_request.pop(answer.id)
        if bind.stage is Stage.READING:
            return self._read(bind, answer, now, leading=leading)
        if answer.is_success:
            return self._finish(bind, DONE)
        # The watch may have told the end of it while the answer was on its way.
        newest = self._newest(bind.uid)
        known = self._lost(bind) if newest is None else self._settle(bind, newest)
        if known is not None:
            return known
        if answer.status in {UNKNOWN, 409}:
            if not leading:
                return self._failed(bind, answer.message or NOT_LEADING)
            self._ask(bind)
            return None
        if answer.is_retriable and leading:
            return self._again(bind, answer, now)
        return self._failed(bind, answer.message)

    def _read(self, bind: UnderWay, answer: Answer, now: int, *, leading: bool) -> Finished | None:
        if answer.status == 404:
            return self._failed(bind, answer.message or f'pods "{bind.pod.metadata.name}" not found')
        if answer.is_success and answer.pod is not None:
            settled = self._settle(bind, answer.pod)
            if settled is None:
                return self._again(bind, answer, now) if leading else self._failed(bind, NOT_LEADING)
            taken = answer.pod.spec.node_name and answer.pod.metadata.uid == bind.uid and not settled.outcome.is_done
            return Finished(bind, settled.outcome, answer.pod) if taken else settled
        if not leading:
            return self._failed(bind, NOT_LEADING)
        bind.reads += 1
        self._wait(bind, now + delay(bind.reads, answer.retry_after), reads_next=True)
        return None

    def _settle(self, bind: UnderWay, pod: Pod) -> Finished | None:
        """What a consistent view of the pod says; None if it is still to be bound."""
        name = bind.pod.key
        if pod.metadata.uid != bind.uid:
            return self._failed(bind, f"pod {name} was deleted and made anew")
        if pod.spec.node_name == bind.effect.node_name:
            return self._finish(bind, DONE)
        if pod.spec.node_name:
            return self._failed(bind, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
        if pod.is_terminating:
            return self._failed(bind, f"pod {name} is being deleted")
        return None

    def seen(self, pod: Pod) -> Finished | None:
        """The watch shows the pod: on a node, or being deleted, it settles a bind that is not in flight."""
        bind = self._by_uid.get(pod.metadata.uid)
        return None if bind is None or bind.stage is Stage.SENT else self._settle(bind, pod)

    def gone(self, uid: str) -> Finished | None:
        """The watch shows that the pod is deleted: settles the bind unless it is in flight."""
        bind = self._by_uid.get(uid)
        return None if bind is None or bind.stage is Stage.SENT else self._lost(bind)

    def _lost(self, bind: UnderWay) -> Finished:
        return self._failed(bind, f"pod {bind.pod.key} was deleted")

    def cancel(self, uid: str, message: str) -> Finished | None:
        """Give a bind up that has not begun, or was certainly not carried out; None if there is none."""
        bind = self._by_uid.get(uid)
        if bind is None or bind.reads_next or bind.stage not in {Stage.READY, Stage.WAITING}:
            return None
        return self._failed(bind, message)

    def follow(self) -> list[Finished]:
        """This worker leads no more: what is not in flight fails, what is may still be answered."""
        given_up = [bind for bind in self._by_uid.values() if bind.stage in {Stage.READY, Stage.WAITING}]
        return [self._failed(bind, NOT_LEADING) for bind in given_up]

    def _again(self, bind: UnderWay, answer: Answer, now: int) -> Finished | None:
        bind.refusals += 1
        bind.reads = 0
        if bind.refusals >= MAX_TRIES:
            return self._failed(bind, answer.message or "the API server refused it again and again")
        self._wait(bind, now + delay(bind.refusals, answer.retry_after), reads_next=False)
        return None

    def _wait(self, bind: UnderWay, due: int, *, reads_next: bool) -> None:
        bind.stage, bind.due, bind.reads_next = Stage.WAITING, due, reads_next
        self._waiting[bind.uid] = bind

    def _failed(self, bind: UnderWay, message: str) -> Finished:
        # Upstream's text around the answer of the API server.
        return self._finish(bind, Outcome(Result.FAILED, f'running Bind plugin "DefaultBinder": {message}'))

    def _finish(self, bind: UnderWay, outcome: Outcome) -> Finished:
        del self._by_uid[bind.uid]
        self._waiting.pop(bind.uid, None)
        if bind.stage is Stage.READY:
            self._ready.remove(bind)
        elif bind.stage is Stage.READING:
            # Settled by the watch: the answer, when it comes, means nothing.
            self._by_request = {key: other for key, other in self._by_request.items() if other is not bind}
        return Finished(bind, outcome)

    # ---- what leaves ---------------------------------------------------------------------------

    def run(self, now: int, is_blocked: Callable[[str], bool], is_node: Callable[[str], bool]) -> list[Finished]:
        """Send what may be sent now; returns what need not be sent any more, for its node is gone.

        `is_blocked`: whether a patch of the pod of this UID is under way. `is_node`: whether there is such a node; the
        API server would bind a pod to one that there is not.
        """
        if self._waiting:
            for bind in [bind for bind in self._waiting.values() if bind.due <= now]:
                del self._waiting[bind.uid]
                if bind.reads_next:
                    self._ask(bind)
                else:
                    bind.stage = Stage.READY
                    self._ready.append(bind)
        gone: list[Finished] = []
        if not self._ready:
            return gone
        blocked: list[UnderWay] = []
        while self._ready and len(self._by_request) < self.limit:
            bind = self._ready.popleft()
            if is_blocked(bind.uid):
                blocked.append(bind)
                continue
            bind.stage = Stage.SENT
            if not is_node(bind.effect.node_name):
                gone.append(self._failed(bind, f'node "{bind.effect.node_name}" was deleted'))
                continue
            request_id = self._next_id()
            self._by_request[request_id] = bind
            self._send(
                BindPod(id=request_id, key=bind.pod.key, uid=bind.uid, node=bind.effect.node_name, epoch=bind.epoch)
            )
        self._ready.extendleft(reversed(blocked))
        return gone

    def _ask(self, bind: UnderWay) -> None:
        """A read takes one of the places among the binds in flight: it goes to the same API server."""
        bind.stage = Stage.READING
        request_id = self._next_id()
        self._by_request[request_id] = bind
        self._send(ReadPod(id=request_id, key=bind.pod.key))

    def wake_at(self) -> int | None:
        """When the next wait ends."""
        return min((bind.due for bind in self._waiting.values()), default=None)
