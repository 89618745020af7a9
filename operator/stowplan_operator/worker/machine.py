"""The live interpreter of the scheduler core's effects, as a machine: changes and answers in, requests out.

    machine = WorkerMachine(settings, rng, start=now)
    requests = machine.changed(change, now)             # from the watches, leading or not: the view stays warm
    requests = machine.heard("Pod", version, now)       # all of that kind up to there has been passed on
    requests = machine.lead(epoch, barrier, now)        # the Lease is ours
    requests = machine.tick(now)                        # timers, and scheduling cycles; call it when wake_at() has come
    requests = machine.answered(Answer(...), now)       # in any order, as late as may be

No asyncio, no clock, no IO: the shell does all that, and so does the fault simulation in tests/worker_simulation.
Cycles go on while binds are in flight, for the core assumes their outcome. Nothing leaves unless the machine leads.

Pods of a profile that is paused or a shadow are not in the core's queue: the core is configured with the active
profiles alone. It remembers the others' pods, and takes them in when their profile becomes active.

What effects become is in interpreter.py, the states of a bind in bindings.py, the other writes in writes.py;
docs/architecture/worker.md has the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from stowplan_scheduler.cache.errors import CacheError
from stowplan_scheduler.effects import Observe
from stowplan_scheduler.events import WATCHED, Event, ObjectAdded, ObjectDeleted, ObjectUpdated, TimerFired
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.quantity import QuantityError
from stowplan_scheduler.queue import Place
from stowplan_scheduler.scheduler import Scheduler

from .interpreter import Interpreter, place_of
from .requests import Answer, Change, Request
from .settings import MachineSettings
from .shadow import ShadowReport, Shadows
from .story import Moment, StorySink, Teller

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_table import NodeTable
    from stowplan_scheduler.config import KubeSchedulerConfiguration
    from stowplan_scheduler.framework.handle import PluginFactory
    from stowplan_scheduler.framework.selection import Rng
    from stowplan_scheduler.framework.timing import Hooks

BARRIER_KINDS: Final = ("Node", "Pod")
"""The kinds in which a leader before us may have left traces that we have not seen: binds, deletions, new nodes."""

HELD: Final = "held"
"""The place of pods whose profile is not active."""

DEFAULT_CYCLES: Final = 16
"""Cycles in one tick at most: a few milliseconds, after which the shell can look at its network again."""


class WorkerMachine:
    """One scheduler over one cluster, for the profiles of one group.

    `start`: the time of now, in nanoseconds of the caller's clock, which must not run backwards. `rng` is the core's.
    `on_story` is told what happens to each pod, `on_observe` of metric samples, `on_failure` of what a plugin or an
    object broke; the machine goes on after such a failure.
    """

    def __init__(
        self,
        settings: MachineSettings,
        rng: Rng,
        *,
        start: int,
        third_party: Mapping[str, PluginFactory] | None = None,
        hooks: Hooks | None = None,
        on_story: StorySink | None = None,
        on_observe: Callable[[Observe], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """A follower that knows nothing yet. Raises ConfigurationError."""
        self.settings = settings
        self.scheduler = Scheduler(
            _core_configuration(settings),
            rng,
            start=start,
            third_party=third_party,
            hooks=hooks,
            metrics=on_observe is not None,
            on_plugin_failure=None if on_failure is None else self._failed,
        )
        self._now = start
        self._draining = False
        self._barrier = 0
        self._versions: dict[str, int] = {}
        self._pending: dict[str, str] = {}
        """Pods that have no node as far as we have seen, of whatever scheduler: UID to scheduler name."""
        self._ahead: dict[str, int] = {}
        """Pods of which a read showed more than the watch: UID to resource version."""
        self._failure = on_failure
        self._story = Teller(on_story, settings.profiles)
        self._interpreter = Interpreter(
            self.scheduler,
            settings.max_binds_in_flight,
            self._story,
            on_ahead=self._saw_ahead,
            on_observe=on_observe,
        )
        self._shadows = Shadows(settings, self.scheduler, third_party)
        self._failures = 0
        self._active = settings.active
        self._is_fresh = False

    # ---- what the shell reads --------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        """Whether requests may leave."""
        return self._interpreter.leading

    @property
    def epoch(self) -> int:
        """The epoch of the Lease that this machine leads by, 0 while it does not lead."""
        return self._interpreter.told_epoch

    @property
    def synced(self) -> bool:
        """Whether every kind has been heard of."""
        return all(kind in self._versions for kind in WATCHED)

    @property
    def fresh(self) -> bool:
        """Whether what is known is at least as new as the moment in which the Lease was won."""
        return self._is_fresh

    @property
    def is_drained(self) -> bool:
        """After `drain`: nothing is under way any more."""
        return self._draining and not self._interpreter.bindings and not self._interpreter.writes

    @property
    def binds_under_way(self) -> int:
        """Binds that were decided and have no outcome yet."""
        return len(self._interpreter.bindings)

    def is_binding(self, uid: str) -> bool:
        """Whether a bind of the pod of this UID is under way."""
        return uid in self._interpreter.bindings

    @property
    def requests_in_flight(self) -> int:
        """Requests that have left and are unanswered, events aside."""
        return self._interpreter.bindings.in_flight + self._interpreter.writes.in_flight

    @property
    def failures(self) -> int:
        """How many objects could not be read, and how many cycles a plugin broke."""
        return self._failures

    def pending(self) -> dict[str, int]:
        """Pods without a node by place: those of the queue, "in_flight" (being tried), "binding" and "held"."""
        if self._active:
            counts = {place.value: count for place, count in self.scheduler.queue.counts().items()}
        else:
            # Then the core's queue holds what no profile tries.
            counts = {place.value: 0 for place in Place}
        counts["binding"] = self.binds_under_way
        counts[HELD] = sum(count for name, count in self.pending_of().items() if name not in self._active)
        return counts

    def pending_of(self) -> dict[str, int]:
        """Pods without a node by scheduler name, for the profiles of this worker."""
        counts = {profile.scheduler_name: 0 for profile in self.settings.profiles}
        for name in self._pending.values():
            if name in counts:
                counts[name] += 1
        return counts

    def utilization(self) -> dict[str, int]:
        """Requested share of what the nodes have, in percent rounded down, for cpu and memory. 0 without nodes."""
        table = self._table()
        shares = {}
        for resource in ("cpu", "memory"):
            allocatable = int(table.allocatable(resource).sum())
            shares[resource] = int(table.requested(resource).sum()) * 100 // allocatable if allocatable else 0
        return shares

    def shadow_reports(self) -> dict[str, ShadowReport]:
        """What each shadow profile has counted, by scheduler name."""
        return self._shadows.reports()

    @property
    def node_count(self) -> int:
        """Nodes that are known."""
        return self._table().size

    def _table(self) -> NodeTable:
        with suppress(CacheError):  # it has been repaired then
            self.scheduler.update_snapshot()
        return self.scheduler.cluster.table

    def wake_at(self) -> int | None:
        """When `tick` has something to do next: a time that is over if it has already, None if nothing waits."""
        if self._may_try():
            return self._now
        return self._interpreter.wake_at()

    # ---- what happens ----------------------------------------------------------------------------

    def changed(self, change: Change, now: int) -> list[Request]:
        """An object came, changed or went. Changes may come twice or late; those of one kind come in order."""
        new = change.new if change.type != "DELETED" else None
        if isinstance(new or change.old, Pod):
            self._pod_changed(change, new, now)
        elif new is None:
            self._receive(ObjectDeleted(change.old if change.new is None else change.new), now)
        else:
            self._receive(ObjectAdded(new) if change.type == "ADDED" else ObjectUpdated(new), now)
        return self._flush(now)

    def heard(self, kind: str, version: int, now: int) -> list[Request]:
        """Every change of that kind up to this resource version has been passed on: after a list, an event, a bookmark.

        Takes no notice of an older version than one before.
        """
        self._versions[kind] = max(version, self._versions.get(kind, 0))
        if not self._is_fresh:
            self._look_for_freshness()
        return self._flush(now)

    def answered(self, answer: Answer, now: int) -> list[Request]:
        """A request was answered. Answers to requests that were settled otherwise mean nothing."""
        self._interpreter.answered(answer, now)
        return self._flush(now)

    def tick(self, now: int, cycles: int = DEFAULT_CYCLES) -> list[Request]:
        """Time has passed: what waited for it happens, and up to `cycles` pods are tried."""
        if self._interpreter.takes_timer(now):
            self._receive(TimerFired(), now)
        for _ in range(cycles):
            if not self._may_try():
                break
            self._try_next(now)
        return self._flush(now)

    # ---- leadership --------------------------------------------------------------------------------

    def lead(self, epoch: int, barrier: int, now: int) -> list[Request]:
        """The Lease is ours. `barrier`: the resource version of that moment; nothing is decided before the watches of
        nodes and pods have reached it. `epoch`: how often the Lease has changed hands; it stands on every bind.
        """
        if self.leading:
            self._interpreter.follow(now)
        self._interpreter.leading, self._interpreter.epoch, self._barrier = True, epoch, barrier
        self._look_for_freshness()
        return self._flush(now)

    def follow(self, now: int) -> list[Request]:
        """The Lease is lost, or given back. Nothing new leaves; what is in flight may still be answered."""
        self._interpreter.follow(now)
        return self._flush(now)

    def drain(self, now: int) -> list[Request]:
        """The end is near: no pod is tried any more, what was decided is carried out. See `is_drained`."""
        self._draining = True
        return self._flush(now)

    def reconfigure(self, settings: MachineSettings, now: int) -> list[Request]:
        """Run other profiles, or the same ones otherwise. Queue, view and binds under way are kept.

        Raises ConfigurationError; nothing has changed then.
        """
        shadows = self._shadows.rebuilt(settings)
        effects = self.scheduler.reconfigure(_core_configuration(settings), now)
        self.settings = settings
        self._shadows = shadows
        self._story.profiles(settings.profiles)
        self._interpreter.set_limit(settings.max_binds_in_flight)
        self._active = settings.active
        self._interpreter.carry_out(effects, now)
        return self._flush(now)

    # ---- pods ------------------------------------------------------------------------------------

    def _pod_changed(self, change: Change, new: Pod | None, now: int) -> None:
        pod: Pod = change.old if new is None and change.old is not None else change.new
        uid = pod.metadata.uid
        if self._ahead and not self._is_news(uid, new):
            return
        if new is None or new.is_terminal:
            self._pending.pop(uid, None)
            if self._story.knows(pod):
                self._story.tell(Moment.GONE, pod, now, self.epoch)
            self._receive(ObjectDeleted(pod) if new is None else ObjectUpdated(pod), now)
            self._interpreter.gone(uid, now)
            return
        if self._shadows:
            self._shadows.before(change.old, new)
        self._pod_set(new, now)

    def _is_news(self, uid: str, new: Pod | None) -> bool:
        """Whether the watch has caught up with what a read showed of this pod."""
        known = self._ahead.get(uid)
        if known is None:
            return True
        if new is not None and _version(new) < known:
            return False
        del self._ahead[uid]
        return True

    def _pod_set(self, pod: Pod, now: int) -> None:
        uid = pod.metadata.uid
        is_new = False
        if not pod.spec.node_name:
            is_new = uid not in self._pending
            self._pending[uid] = pod.spec.scheduler_name
        elif self._pending.pop(uid, None) is not None:
            self._interpreter.writes.forget(uid)
            if self._story.knows(pod):
                self._story.tell(Moment.SEEN_BOUND, pod, now, self.epoch, node=pod.spec.node_name)
        if not self._receive(ObjectUpdated(pod), now):
            return
        if is_new and self._story.knows(pod):
            self._tell_seen(pod, now)
        self._interpreter.seen(pod, now)

    def _tell_seen(self, pod: Pod, now: int) -> None:
        if pod.spec.scheduler_name in self._active:
            self._story.tell(Moment.SEEN, pod, now, self.epoch, place=place_of(self.scheduler, pod))
        else:
            self._story.tell(Moment.HELD, pod, now, self.epoch, place=HELD, message="its profile is not active")

    # ---- cycles ----------------------------------------------------------------------------------

    def _look_for_freshness(self) -> None:
        self._is_fresh = self.synced and all(self._versions[kind] >= self._barrier for kind in BARRIER_KINDS)

    def _may_try(self) -> bool:
        """Whether the next pod may be tried."""
        return (
            self._is_fresh
            and self._interpreter.may_decide
            and not self._draining
            and bool(self._active)
            and self.scheduler.has_work()
        )

    def _try_next(self, now: int) -> None:
        pod = self.scheduler.begin_cycle(now)
        if pod is None:
            return
        try:
            effects = self.scheduler.finish_cycle(pod, now)
        except Exception as failure:  # noqa: BLE001 - the core has put the pod back; others go on
            # What is to be done about it comes with the core's next answer.
            self._failed(failure)
            effects = self.scheduler.receive(TimerFired(), now)
        self._interpreter.carry_out(effects, now)

    def _failed(self, failure: Exception) -> None:
        self._failures += 1
        if self._failure is None:
            raise failure
        self._failure(failure)

    # ---- the core --------------------------------------------------------------------------------

    def _receive(self, event: Event, now: int) -> bool:
        """Tell the core; False if it cannot read the object."""
        try:
            effects = self.scheduler.receive(event, now)
        except QuantityError as failure:
            obj = getattr(event, "object", None)
            if isinstance(obj, Pod):
                self._story.tell(Moment.REFUSED, obj, now, self.epoch, message=str(failure))
            self._failed(failure)
            return False
        self._interpreter.carry_out(effects, now)
        return True

    def _saw_ahead(self, pod: Pod, now: int) -> None:
        """A read showed the pod on another node. Taken in at once, or it would be tried until the watch shows it."""
        if pod.metadata.uid not in self._pending:
            return
        self._ahead[pod.metadata.uid] = _version(pod)
        self._pod_set(pod, now)

    def _flush(self, now: int) -> list[Request]:
        self._now = now
        return self._interpreter.flush(now)


def _core_configuration(settings: MachineSettings) -> KubeSchedulerConfiguration:
    """The configuration with the active profiles alone; with all if none is, for there must be one.

    Nothing is tried then, whatever the queue holds.
    """
    active = settings.active
    configuration = settings.configuration
    if not active:
        return configuration
    profiles = tuple(profile for profile in configuration.profiles if profile.scheduler_name in active)
    return configuration.model_copy(update={"profiles": profiles})


def _version(pod: Pod) -> int:
    text = pod.metadata.resource_version
    return int(text) if text.isdecimal() else 0
