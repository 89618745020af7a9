"""Random histories of the scheduling queue against a naive model.

The model keeps one list of pods, each with its place, and looks at all of them at every step and at every second that
passes. It has no heap, no index by rejector, no shared log of events and no timers, which is where the queue could go
wrong: a pod lost or in two places, an event not replayed, a timer not announced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.queue.queue_support import (
    GATE_EVENT,
    REGISTRATIONS,
    TARGET_TOLERATION,
    Harness,
    info_of,
    make_pod,
)
from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.queue import SECOND, QueuedPodInfo

NAMES = ("a", "b", "c", "d", "e")
PLUGINS = ("Fit", "Taint", "Claims", "Picky", "Deaf")
TARGET_UPDATE = ClusterEvent(Resource.TARGET_POD, Action.UPDATE)
HEARD = {
    "Fit": {NODE_ADD, ASSIGNED_POD_DELETE},
    "Taint": {TARGET_TOLERATION},
    "Claims": {NODE_ADD},
    "Gate": {GATE_EVENT},
    "Picky": {ASSIGNED_POD_ADD},
}
PENDING = st.sets(st.sampled_from(("Claims", "Picky")), max_size=1)
BACKOFF = (0, 1, 2, 4, 8, 10)


def picky(info: PodInfo, old: object, new: object) -> Hint:
    return Hint.QUEUE if new == "good" else Hint.SKIP


@dataclass
class ModelPod:
    info: PodInfo
    timestamp: int
    place: str = ""
    rejectors: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    gate: str = ""
    rejections: int = 0
    errors: int = 0
    attempts: int = 0
    flushed: int | None = None
    after_error: bool = False
    missed: list[tuple[ClusterEvent, object]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.info.pod.metadata.name

    @property
    def expiry(self) -> int | None:
        count = self.errors or self.rejections
        if not count:
            return None
        return (self.timestamp + BACKOFF[min(count, 5)] * SECOND) // SECOND * SECOND

    @property
    def order(self) -> tuple[int, int]:
        return -self.info.priority, self.timestamp

    def answer(self, event: ClusterEvent, new: object) -> str:
        """skip, backoff or now."""
        blockers = self.rejectors | self.pending
        if not blockers:
            return "backoff"
        if event in {FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT}:
            return "backoff" if new is None or (isinstance(new, Pod) and new.metadata.uid == self.info.uid) else "skip"
        waking = {p for p in blockers if event in HEARD.get(p, set()) and (p != "Picky" or new == "good")}
        return "now" if waking & self.pending else "backoff" if waking else "skip"


class Model:
    def __init__(self) -> None:
        self.pods: list[ModelPod] = []
        self.closed: set[str] = set()

    def find(self, name: str, *places: str) -> ModelPod | None:
        return next((pod for pod in self.pods if pod.name == name and pod.place in places), None)

    def at(self, *places: str) -> list[ModelPod]:
        return [pod for pod in self.pods if pod.place in places]

    def enter(self, pod: ModelPod, answer: str, now: int, *, ask: bool = True) -> None:
        if answer == "skip":
            pod.place = "gated" if pod.gate else "unschedulable"
            return
        if ask:
            pod.gate = "Gate" if pod.name in self.closed else ""
            if pod.gate:
                pod.rejectors.add("Gate")
                pod.place = "gated"
                return
        expiry = pod.expiry
        backs_off = answer == "backoff" and expiry is not None and expiry >= now // SECOND * SECOND
        pod.place = "backoff" if backs_off else "active"
        pod.after_error = not (pod.rejectors | pod.pending)

    def happens(self, event: ClusterEvent, new: object, now: int, among: Iterable[ModelPod] | None = None) -> None:
        for pod in self.at("unschedulable", "gated") if among is None else among:
            heard = event is UNSCHEDULABLE_TIMEOUT or event in HEARD.get(pod.gate, set())
            if (not pod.gate or heard) and (answer := pod.answer(event, new)) != "skip":
                self.enter(pod, answer, now)
        for pod in self.at("in_flight"):
            pod.missed.append((event, new))

    def second_passes(self, now: int) -> None:
        for pod in self.at("backoff"):
            assert pod.expiry is not None
            if pod.expiry < now:
                self.enter(pod, "now", now, ask=False)
        if now % (30 * SECOND) == 0:
            late = [
                pod
                for pod in self.at("unschedulable", "gated")
                if now - max(pod.timestamp, pod.flushed or 0) > 300 * SECOND
            ]
            for pod in late:
                pod.flushed = now
            if late:
                self.happens(UNSCHEDULABLE_TIMEOUT, None, now, late)

    def next_pod(self) -> ModelPod | None:
        active = sorted(self.at("active"), key=lambda pod: pod.order)
        waiting = [pod for pod in self.at("backoff") if not pod.after_error]
        waiting.sort(key=lambda pod: (pod.expiry, pod.order))
        return next(iter(active + waiting), None)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.harness = Harness(REGISTRATIONS | {"Picky": (EventRegistration(ASSIGNED_POD_ADD, picky),)})
        self.queue = self.harness.queue
        self.harness.gated = self.model.closed
        self.flying: dict[str, QueuedPodInfo] = {}
        self.now = 0
        self.born = 0

    def step(self) -> int:
        """Every step has its own nanosecond: no two timestamps are equal, so the order of pops is certain."""
        self.now += 1
        return self.now

    @initialize(rejectors=st.lists(st.sets(st.sampled_from(PLUGINS), max_size=2), min_size=3, max_size=3))
    def some_pods_were_tried(self, rejectors: list[set[str]]) -> None:
        """Without this, short histories would hardly get beyond the first attempt."""
        for name, rejected_by in zip(NAMES, rejectors, strict=False):
            self.add(name, 0, closed=False)
            self.attempt(rejected_by, set())

    @rule(span=st.sampled_from([SECOND // 3, SECOND, 3 * SECOND, 31 * SECOND, 170 * SECOND, 331 * SECOND]))
    def time_passes(self, span: int) -> None:
        """The model looks every second; the queue only when it asked to."""
        end = self.now + span
        for second in range(self.now // SECOND + 1, end // SECOND + 1):
            self.model.second_passes(second * SECOND)
        while (timer := self.queue.next_timer(self.now)) is not None and timer <= end:
            self.now = timer
            self.queue.run_timers(timer)
        self.now = end

    @rule(name=st.sampled_from(NAMES), priority=st.integers(0, 2), closed=st.booleans())
    def add(self, name: str, priority: int, closed: bool) -> None:
        if any(pod.name == name for pod in self.model.pods):
            return
        (self.model.closed.add if closed else self.model.closed.discard)(name)
        self.born += 1
        info = info_of(make_pod(name, uid=f"{name}{self.born}", priority=priority))
        now = self.step()
        pod = ModelPod(info, now)
        self.model.pods.append(pod)
        self.model.enter(pod, "now", now)
        self.queue.add(info, now)

    @rule()
    def pop(self) -> None:
        expected = self.model.next_pod()
        assert self.queue.has_poppable() is (expected is not None)
        popped = self.queue.pop(self.step())
        assert (popped and popped.key) == (expected and expected.info.key)
        if popped and expected:
            expected.place, expected.missed, expected.attempts = "in_flight", [], expected.attempts + 1
            self.flying[expected.name] = popped

    @rule(rejectors=st.sets(st.sampled_from(PLUGINS), max_size=2), pending=PENDING)
    def attempt(self, rejectors: set[str], pending: set[str]) -> None:
        """Pop and fail with nothing in between, as most attempts do."""
        before = set(self.flying)
        self.pop()
        for name in sorted(set(self.flying) - before):
            self.come_back(name, rejectors, pending)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), rejectors=st.sets(st.sampled_from(PLUGINS), max_size=2), pending=PENDING)
    def fail(self, data: st.DataObject, rejectors: set[str], pending: set[str]) -> None:
        self.come_back(data.draw(st.sampled_from(sorted(self.flying))), rejectors, pending)

    def come_back(self, name: str, rejectors: set[str], pending: set[str]) -> None:
        popped, pod = self.flying.pop(name), self.model.find(name, "in_flight")
        assert pod is not None
        now = self.step()
        popped.clear_rejectors()
        popped.unschedulable_plugins, popped.pending_plugins = frozenset(rejectors), frozenset(pending)
        popped.info = pod.info
        place = self.queue.add_unschedulable_if_not_present(popped, now)
        pod.rejectors, pod.pending, pod.gate = set(rejectors), set(pending), ""
        pod.timestamp, pod.flushed = now, None
        if rejectors or pending:
            pod.rejections, pod.errors = pod.rejections + 1, 0
        else:
            pod.errors += 1
        answers = [pod.answer(event, new) for event, new in pod.missed] or ["skip"]
        best = max(answers, key=["skip", "backoff", "now"].index)
        self.model.enter(pod, best if rejectors or pending else "backoff", now)
        assert place == pod.place

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.flying)))
        popped, pod = self.flying.pop(name), self.model.find(name, "in_flight")
        assert pod is not None
        self.queue.done(popped.uid)
        self.model.pods.remove(pod)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        pod = self.model.find(name, "active", "backoff", "unschedulable", "gated")
        if pod is not None:
            self.queue.delete(pod.info.pod, self.step())
            self.model.pods.remove(pod)

    @rule(name=st.sampled_from(NAMES), priority=st.integers(0, 2), toleration=st.booleans())
    def update(self, name: str, priority: int, toleration: bool) -> None:
        pod = next((pod for pod in self.model.pods if pod.name == name), None)
        if pod is None:
            return
        old = pod.info.pod
        tolerations = len(old.spec.tolerations) + toleration
        new = info_of(make_pod(name, uid=pod.info.uid, priority=priority, tolerations=tolerations))
        event = TARGET_TOLERATION if toleration else TARGET_UPDATE
        now = self.step()
        self.queue.update(old, new, now)
        pod.info = new
        if pod.place == "in_flight":
            for other in self.model.at("in_flight"):
                other.missed.append((event, new.pod))  # one log for all: a hint must compare the UIDs
        elif pod.place in {"unschedulable", "gated"}:
            answer = pod.answer(event, new.pod)
            if answer != "skip":
                self.model.enter(pod, answer, now)

    @rule(
        event=st.sampled_from([NODE_ADD, ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, GATE_EVENT]),
        new=st.sampled_from(["good", "bad"]),
    )
    def happens(self, event: ClusterEvent, new: str) -> None:
        now = self.step()
        self.model.happens(event, new, now)
        self.queue.move_all_to_active_or_backoff(event, None, new, now)

    @rule(name=st.sampled_from(NAMES), closed=st.booleans())
    def turn_gate(self, name: str, closed: bool) -> None:
        (self.model.closed.add if closed else self.model.closed.discard)(name)

    @rule(name=st.sampled_from(NAMES))
    def activate(self, name: str) -> None:
        pod = next((pod for pod in self.model.pods if pod.name == name), None)
        if pod is None:
            return
        now = self.step()
        self.queue.activate([pod.info], now)
        if pod.place in {"unschedulable", "gated", "backoff"}:
            self.model.enter(pod, "now", now, ask=pod.place != "backoff")
        elif pod.place == "in_flight":
            for other in self.model.at("in_flight"):
                other.missed.append((FORCE_ACTIVATE, pod.info.pod))

    @invariant()
    def every_pod_is_where_the_model_has_it(self) -> None:
        places = {pod.info.key: self.queue.place_of(pod.info) for pod in self.model.pods}
        assert places == {pod.info.key: pod.place for pod in self.model.pods}
        assert sum(self.queue.counts().values()) == len(self.model.pods)

    @invariant()
    def what_the_queue_remembers_is_what_the_model_does(self) -> None:
        for pod in self.model.at("active", "backoff", "unschedulable", "gated"):
            mine = self.queue.find(pod.info.key)
            assert mine is not None
            assert mine.info is pod.info
            assert (mine.timestamp, mine.attempts, mine.unschedulable_count, mine.consecutive_errors_count) == (
                pod.timestamp,
                pod.attempts,
                pod.rejections,
                pod.errors,
            )
            assert mine.rejectors == pod.rejectors | pod.pending

    @invariant()
    def the_queue_does_not_contradict_itself(self) -> None:
        self.queue.check_invariants()
        if not self.flying:
            assert self.queue.in_flight_events() == {}


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=200, stateful_step_count=60)
