"""One worker process: the real machine, elector and stores, and what the shell does around them.

What runner.py and carrier.py do with asyncio and HTTP is done here with the kernel and the network: changes are passed
on, requests leave behind the fence, answers come back, leadership is told, ticks come when they are wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stowplan_operator.api.call import Reply
from stowplan_operator.api.election import ElectionSettings, Elector, LeaseCreate, LeaseRead, LeaseUpdate
from stowplan_operator.api.store import Change, ChangeType, number_of
from stowplan_operator.worker.machine import BARRIER_KINDS, WorkerMachine
from stowplan_operator.worker.requests import (
    NOT_SENT,
    Answer,
    BindPod,
    DeletePod,
    EmitEvent,
    PatchPod,
    ReadPod,
    Request,
)
from stowplan_operator.worker.settings import MachineSettings
from stowplan_operator.worker.story import StoryRecord
from stowplan_scheduler.config import ConfigurationError
from stowplan_scheduler.events import WATCHED
from stowplan_scheduler.objects import Node, Pod, PodDisruptionBudget, key_of

from .breaking import MistakeError, registered
from .event_sink import EventSink
from .listening import listen
from .plan import MILLISECOND, SECOND, Fault
from .watches import Watch
from .world import BUDGET, Answered

if TYPE_CHECKING:
    from .simulation import Simulation

DRAIN = 15 * SECOND


class Process:
    """A worker from start to end. `number` grows with every start: an identity is never used twice."""

    def __init__(self, simulation: Simulation, slot: int, number: int, settings: MachineSettings) -> None:
        """Started now: it lists, contends for the lease, and waits."""
        self._sim = simulation
        self._kernel = simulation.kernel
        self._plan = simulation.plan
        self.slot = slot
        self.name = f"w{slot}.{number}"
        self.alive = True
        self.paused_until = 0
        self._deferred: deque[Callable[[], None]] = deque()
        self.loses_lease_until = 0
        self.wants_to_stop = False
        skew = self._plan.stream("skew").randint(-30, 30) * SECOND if self._plan.rolls(Fault.CLOCK_SKEW, 1) else 0
        self._wall = 1_700_000_000 * SECOND + skew
        self._clock = self._plan.stream("clock").randint(0, 10**15)
        self.machine = WorkerMachine(
            settings,
            np.random.default_rng(self._plan.seed),
            start=self.now,
            third_party=registered(self._plan),
            on_story=self._told,
            on_failure=self._broke,
        )
        duration, deadline, period = self._plan.lease
        self.elector = Elector(
            ElectionSettings(
                namespace="default",
                name="worker",
                identity=self.name,
                lease_duration_seconds=duration,
                renew_deadline_seconds=deadline,
                retry_period_seconds=period,
            ),
            self._plan.stream(f"election {slot}"),
        )
        self.watches = {
            kind: Watch(kind, simulation.world, self._kernel, simulation.network, self._plan, self._take)
            for kind in self._plan.kinds
        }
        self.view: dict[str, Pod] = {}
        """The pods that the machine has been told of, by key."""
        self.nodes: dict[str, Node] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self._seen: dict[str, dict[str, Any]] = {"Pod": self.view, "Node": self.nodes, BUDGET: self.budgets}
        self.newest: dict[str, int] = {}
        """The newest version that the machine has been told of, by UID."""
        self.assumed: dict[str, tuple[str, str]] = {}
        """Pods by key that have a node in the machine alone: UID and node."""
        self.binds_in_flight: dict[int, BindPod] = {}
        self.events = EventSink(self._kernel, self._plan, self.name)
        self.barrier = 0
        self.strategy = ""
        self._first: dict[str, dict[str, Any]] = {}
        """What was listed of each kind, and what happened since, until there is a list of every kind."""
        self._first_versions: dict[str, int] = {}
        self.told = False
        """Whether the machine has been told of the first lists."""
        self._tick_at: int | None = None
        self._elect_at: int | None = None
        listen(self, simulation.checks)
        self._drained_by: int | None = None
        for watch in self.watches.values():
            watch.relist()
        self._kernel.after(self._plan.stream("start").randint(1, 500) * MILLISECOND, self.here(self._elect))

    # ---- time --------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """This process's own monotonic clock."""
        return self._kernel.now + self._clock

    @property
    def leading(self) -> bool:
        """Whether it believes that it leads."""
        return self.alive and self.elector.leading(self.now)

    def here(self, action: Callable[[], None]) -> Callable[[], None]:
        """The action in this process: not once it is dead, and later if it stands still."""

        def acts() -> None:
            if not self.alive:
                return
            if self._kernel.now < self.paused_until or self._deferred:
                # In the order in which it came, also what comes while the process wakes up.
                self._deferred.append(action)
            else:
                action()

        return acts

    def _thaw(self) -> None:
        while self.alive and self._deferred and self._kernel.now >= self.paused_until:
            self._deferred.popleft()()

    def _answering(self, action: Callable[[Answered], None]) -> Callable[[Answered], None]:
        return lambda answered: self.here(lambda: action(answered))()

    def kill(self) -> None:
        """It is gone, with all it knew; what it had sent is on its way."""
        self.alive = False
        for watch in self.watches.values():
            watch.closed = True

    def pause(self, nanoseconds: int) -> None:
        """It stands still, and does not know."""
        self.paused_until = max(self.paused_until, self._kernel.now + nanoseconds)
        self._kernel.at(self.paused_until, self._thaw)

    def wake_up(self) -> None:
        """It goes on now."""
        self.paused_until = min(self.paused_until, self._kernel.now)
        self._thaw()

    # ---- what it hears -------------------------------------------------------------------------

    def _take(self, kind: str, changes: Sequence[Change], version: int) -> None:
        # Bytes wait in the socket while the process stands still.
        self.here(lambda: self._took(kind, changes, version))()

    def _took(self, kind: str, changes: Sequence[Change], version: int) -> None:
        if self.told:
            self._tell(kind, changes, version)
            return
        first = self._first.setdefault(kind, {})
        for change in changes:
            if change.old is not None:
                first.pop(key_of(change.old.metadata), None)
            if change.new is not None:
                first[key_of(change.new.metadata)] = change.new
        self._first_versions[kind] = version
        if len(self._first) == len(self.watches):
            self._tell_all()

    def _tell_all(self) -> None:
        """The first lists are complete: everything at once, pods last."""
        self.told = True
        for kind in WATCHED:
            objects = self._first.get(kind, {}).values()
            version = self._first_versions.get(kind, self._sim.world.revision)
            self._tell(kind, [Change(ChangeType.ADDED, None, each) for each in objects], version)
        self._first.clear()

    def _tell(self, kind: str, changes: Sequence[Change], version: int) -> None:
        seen = self._seen.get(kind, {})
        for change in changes:
            self._sim.checks.hears(self, change)
            key = key_of((change.old if change.new is None else change.new).metadata)
            if change.new is None or (kind == "Pod" and change.new.is_terminal):
                seen.pop(key, None)
            else:
                seen[key] = change.new
            self._send(self.machine.changed(change, self.now))
        self._send(self.machine.heard(kind, version, self.now))
        self._sim.checks.after(self)
        self._wake()

    def _told(self, record: StoryRecord) -> None:
        self._sim.story(self, record)

    def _broke(self, failure: Exception) -> None:
        """A worker goes on after what a plugin breaks; anything else is a mistake of ours."""
        if not isinstance(failure, MistakeError):
            raise failure
        self._sim.log(f"{self.name} broke {failure}")

    # ---- ticks ---------------------------------------------------------------------------------

    def _wake(self) -> None:
        due = self.machine.wake_at()
        if due is None:
            return
        at = max(due - self._clock, self._kernel.now)
        if self._tick_at is None or at < self._tick_at:
            self._tick_at = at
            self._kernel.at(at, self.here(lambda: self._tick(at)))

    def _tick(self, at: int) -> None:
        if self._tick_at != at:
            return
        self._tick_at = None
        due = self.machine.wake_at()
        if due is not None and due <= self.now:
            self._send(self.machine.tick(self.now, cycles=1))
            self._sim.checks.after(self)
            # A cycle takes some time, in which the network has its turn.
            self._kernel.after(self._plan.cycle, self.here(self._wake))
            return
        self._wake()

    # ---- requests ------------------------------------------------------------------------------

    def _send(self, requests: list[Request]) -> None:
        for request in requests:
            if isinstance(request, EmitEvent):
                self.events.take(request)
            else:
                self._sim.checks.asked(self, request)
                self._leave(request)
        if self._drained_by is not None:
            self._look_whether_drained()

    def _leave(self, request: Request) -> None:
        """The fence, then the network."""
        if not isinstance(request, ReadPod) and not self.leading:
            self._plan.fired["the fence held a request back"] += 1
            self._kernel.after(0, self.here(lambda: self._answered(Answer(id=request.id, status=NOT_SENT))))
            return
        self._sim.boundary(self, request, "leaves")
        if not self.alive:
            return

        def apply() -> Answered:
            answered = self._apply(request)
            self._sim.boundary(self, request, "was carried out")
            return answered

        def back(answered: Answered) -> None:
            message, found = answered.message, answered.object
            self._answered(Answer(id=request.id, status=answered.status, message=message, pod=found))

        self._sim.checks.sent(self, request)
        self._sim.network.call(apply, self._answering(back))

    def _apply(self, request: Request) -> Answered:
        world = self._sim.world
        match request:
            case BindPod():
                return self._sim.checks.binding(
                    self, request, lambda: world.bind(request.key, request.uid, request.node)
                )
            case ReadPod():
                return world.read(request.key)
            case PatchPod():
                return world.patch(request.key, request.uid, request.condition, request.nominated_node_name)
            case DeletePod():
                return world.delete(request.key, request.uid)
            case _:
                raise TypeError(request)

    def _answered(self, answer: Answer) -> None:
        self._sim.log(f"{self.name} answer {answer.id} {answer.status}")
        self.binds_in_flight.pop(answer.id, None)
        self._send(self.machine.answered(answer, self.now))
        self._sim.checks.after(self)
        self._wake()

    # ---- the lease -----------------------------------------------------------------------------

    def _elect(self) -> None:
        self._tell_leadership()
        request = self.elector.step(self.now, self._wall + self._kernel.now)
        if request is None:
            self._elect_later()
            return
        world, body = self._sim.world, None if isinstance(request, LeaseRead) else request.body

        def apply() -> Answered:
            if isinstance(request, LeaseCreate):
                return world.lease_create(body or {})
            if isinstance(request, LeaseUpdate):
                return world.lease_update(body or {})
            return world.lease_read()

        timeout = self._plan.lease[1] * SECOND // 2
        if self._kernel.now < self.loses_lease_until:
            self._kernel.after(timeout, lambda: self._answering(self._elected)(Answered(0)))
        else:
            self._sim.network.call(apply, self._answering(self._elected), timeout=timeout, lossy=False)

    def _elected(self, answered: Answered) -> None:
        body = b"" if answered.object is None else msgspec.json.encode(answered.object)
        self.elector.answered(Reply(status=answered.status, body=body), self.now)
        self._tell_leadership()
        self._elect_later()

    def _elect_later(self) -> None:
        if self.elector.is_released:
            self._sim.stopped(self)
            return
        due = self.elector.wake_at()
        if due is None:
            return
        at = max(due - self._clock, self._kernel.now)
        if self._elect_at is None or self._elect_at <= self._kernel.now or at < self._elect_at:
            self._elect_at = at
            self._kernel.at(at, self.here(self._elect))

    def _tell_leadership(self) -> None:
        leads = self.elector.leading(self.now)
        if leads == self.machine.leading:
            return
        self._sim.log(f"{self.name} {'leads' if leads else 'follows'} {self.elector.epoch}")
        if leads:
            self.barrier = number_of(self.elector.version)
            self._send(self.machine.lead(self.elector.epoch, number_of(self.elector.version), self.now))
            for kind in BARRIER_KINDS:
                if self.told:
                    self.watches[kind].relist()
            # The end of the fence is looked at when it may come, or a moment later.
        else:
            self._plan.fired["a leader followed"] += 1
            self._send(self.machine.follow(self.now))
        self._sim.checks.after(self)
        self._watch_fence()
        self._wake()

    def _watch_fence(self) -> None:
        if self.machine.leading:
            late = self._plan.stream("fence").randint(0, 300) * MILLISECOND
            self._kernel.at(self.elector.valid_until - self._clock + late, self.here(self._look_at_fence))

    def _look_at_fence(self) -> None:
        if self.machine.leading and self.elector.leading(self.now):
            self._watch_fence()
        else:
            self._tell_leadership()

    # ---- configuration and end -------------------------------------------------------------------

    def reconfigure(self, settings: MachineSettings) -> bool:
        """Another configuration; False if it was refused, and the one before runs on."""
        before = self.machine.settings
        try:
            self._send(self.machine.reconfigure(settings, self.now))
        except ConfigurationError:
            assert self.machine.settings is before
            return False
        self._sim.checks.after(self)
        self._wake()
        return True

    def stop(self) -> None:
        """SIGTERM: no more pods, the binds under way, then the lease."""
        if self._drained_by is None:
            self._drained_by = self._kernel.now + DRAIN
            self._send(self.machine.drain(self.now))
            self._kernel.after(DRAIN, self.here(self._look_whether_drained))

    def _look_whether_drained(self) -> None:
        assert self._drained_by is not None
        if self.wants_to_stop or not (self.machine.is_drained or self._kernel.now >= self._drained_by):
            return
        self.wants_to_stop = True
        if self.machine.is_drained:
            self._plan.fired["drained to the end"] += 1
        self._send(self.machine.follow(self.now))
        self.elector.release()
        if self.elector.is_released:
            self._kernel.after(0, self.here(lambda: self._sim.stopped(self)))
        else:
            self._elect_later()
