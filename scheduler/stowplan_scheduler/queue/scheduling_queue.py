"""The scheduling queue: where every pending pod is, and what moves it.

A pod is *active* (to be tried next), *backing off*, *unschedulable* (waits for a change, or behind a gate), or *in
flight* (popped, being tried). docs/architecture/queue.md shows which trigger moves a pod where. The queue has no clock:
every change carries the caller's time in nanoseconds, and `next_timer` says when to call again if nothing happens.

Follows pkg/scheduler/backend/queue/scheduling_queue.go of Kubernetes v1.37.2 for pods (gate GenericWorkload off,
SchedulerPopFromBackoffQ on).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from stowplan_scheduler.framework.cluster_event import (
    CONFIGURATION_CHANGE,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Status
from stowplan_scheduler.objects import Pod

from .active_queue import ActiveQueue
from .backoff_queue import BackoffQueue, earlier
from .heap import SortKey
from .hints import HintErrorHandler, HintIndex, HintMap, Strategy
from .measured import MeasuredHintIndex
from .nominator import NominatingMode, Nominator
from .object_events import pod_update_events
from .places import AlreadyQueuedError, PendingPods, Place, QueueInvariantError
from .queued_pod import SECOND, QueuedPodInfo, move_order
from .unschedulable import UnschedulablePods

if TYPE_CHECKING:
    from stowplan_scheduler.framework.timing import Hooks

DEFAULT_MAX_IN_UNSCHEDULABLE = 300 * SECOND
"""How long a pod may wait for a change before it is tried without one, in nanoseconds."""

LEFTOVER_PERIOD = 30 * SECOND
"""How often the queue looks for such pods, in nanoseconds."""

POD_ADD = "UnscheduledPodAdd"
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"

_PLACES = {
    Strategy.SKIP: Place.UNSCHEDULABLE,
    Strategy.AFTER_BACKOFF: Place.BACKOFF,
    Strategy.IMMEDIATELY: Place.ACTIVE,
}
"""Where a strategy sends a pod (upstream strategyToQueueLabel)."""

_TARGET_POD_UPDATE = ClusterEvent(Resource.TARGET_POD, Action.UPDATE)


_NAMES: Final = {place: place.value for place in Place}
"""The text of each place: an enum's own way to it is a slow one."""


class SchedulingQueue:
    """All pending pods of all profiles."""

    __slots__ = (
        "_active",
        "_backoff",
        "_hints",
        "_last_leftover_tick",
        "_max_in_unschedulable",
        "_nominator",
        "_pre_enqueue",
        "_start",
        "_unschedulable",
        "discarded",
        "incoming",
        "incoming_entities",
    )

    def __init__(
        self,
        hints: Mapping[str, HintMap],
        pre_enqueue: Callable[[QueuedPodInfo], Status],
        sort_key: Callable[[QueuedPodInfo], SortKey],
        *,
        initial_backoff_ns: int,
        max_backoff_ns: int,
        max_in_unschedulable_ns: int = DEFAULT_MAX_IN_UNSCHEDULABLE,
        lister: Callable[[str], Pod | None],
        start_ns: int = 0,
        on_hint_error: HintErrorHandler | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """An empty queue.

        `hints` by scheduler name. `pre_enqueue`: SUCCESS, or another status that names the gating plugin (see
        `PreEnqueueGates`). `sort_key`: smaller is popped first; PrioritySort is (-priority, timestamp). `lister` finds
        the newest object of a pod by UID, None if it is gone. `start_ns`: the periodic flush of pods that waited too
        long runs then and every 30 s after; back-off ends at whole seconds of the caller's time itself. `hooks`
        hear how long hints take.
        """
        self._hints = (
            HintIndex(hints, on_hint_error) if hooks is None else MeasuredHintIndex(hints, on_hint_error, hooks)
        )
        self._pre_enqueue = pre_enqueue
        self._active = ActiveQueue(sort_key)
        self._backoff = BackoffQueue(sort_key, initial_backoff_ns, max_backoff_ns)
        self._unschedulable = UnschedulablePods()
        self._nominator = Nominator(lister)
        self._max_in_unschedulable = max_in_unschedulable_ns
        self._start = start_ns
        self._last_leftover_tick = -1
        self.incoming: dict[tuple[str, str], int] = {}
        """Pods that entered a place, by (place, label of the event): queue_incoming_pods_total."""
        self.incoming_entities: dict[tuple[str, str], int] = {}
        """The same without those that went where their strategy sent them: queue_incoming_entities_total."""
        self.discarded = 0
        """Pods popped while a pod of the same UID was in flight: anything but 0 is a mistake of the caller."""

    # ---- pods come and go ------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, now: int) -> None:
        """A pending pod appeared. Raises ValueError for a pod of a profile that the queue does not know."""
        name = info.pod.spec.scheduler_name
        if name not in self._hints:
            raise ValueError(f"pod {info.key} asks for the scheduler {name!r}, which has no profile here")
        # Even a gated pod may have been promised room.
        self._nominator.add(info)
        self._to_active(QueuedPodInfo(info, now), POD_ADD, now)

    def update(self, old: Pod | None, new: PodInfo, now: int, *, alike: bool = False) -> None:
        """The object of a pending pod changed; `old` is None if the version before is not known.

        A pod in flight only hears of it. One that is active or backs off stays, reordered. One that is unschedulable
        moves if a rejector says so. One that is nowhere is added. `alike`: as for `pod_update_events`.
        """
        if old is None:
            events: tuple[ClusterEvent, ...] = (_TARGET_POD_UPDATE,)
        else:
            events = pod_update_events(old, new.pod, Resource.TARGET_POD, alike=alike)
        in_flight = self._active.in_flight
        if new.uid in in_flight:
            for event in events:
                in_flight.log(event, old, new.pod)
            return
        pod = self.find(new.key)
        if pod is None:
            self.add(new, now)
            return
        pod.info = new
        self._nominator.update(old, new)
        if pod.key in self._active:
            self._active.push(pod)
        elif pod.key in self._backoff:
            self._backoff.reorder(pod)
        else:
            self._wake_updated(pod, events, old, now)

    def _wake_updated(self, pod: QueuedPodInfo, events: Iterable[ClusterEvent], old: Pod | None, now: int) -> None:
        new = pod.info.pod
        for event in events:
            strategy = self._hints.strategy(pod, event, old, new)
            if strategy is not Strategy.SKIP and self._requeue(pod, strategy, event.label, now) is not Place.GATED:
                return

    def delete(self, pod: Pod, now: int) -> None:
        """A pod is gone, or bound by somebody else. One in flight stays in flight until it is done."""
        key = pod.key
        self._nominator.delete(pod.metadata.uid or key)
        if self._active.remove(key) is None and self._backoff.remove(key) is None:
            self._unschedulable.remove(key)

    def activate(self, infos: Iterable[PodInfo], now: int) -> None:
        """Move pods to the active queue whatever they wait for, except for a gate that still holds.

        One that is in flight is tried again when it comes back. Unknown pods are ignored.
        """
        for info in infos:
            if (pod := self._unschedulable.get(info.key)) is not None:
                self._to_active(pod, FORCE_ACTIVATE.label, now)
            elif (pod := self._backoff.remove(info.key)) is not None:
                self._enter_active(pod, FORCE_ACTIVATE.label, now)
            elif info.uid in self._active.in_flight:
                self._active.in_flight.log(FORCE_ACTIVATE, None, info.pod)

    def reconfigure(
        self,
        hints: Mapping[str, HintMap],
        pre_enqueue: Callable[[QueuedPodInfo], Status],
        sort_key: Callable[[QueuedPodInfo], SortKey] | None,
        *,
        initial_backoff_ns: int,
        max_backoff_ns: int,
        changed: frozenset[str],
        now: int,
    ) -> None:
        """Other profiles decide from now on; arguments are those of the constructor.

        Pods of profiles that are gone leave. Those of the profiles named in `changed` meet the gates anew, and where
        plugins of before had rejected them they are tried again, after their back-off. All others stay where they are,
        in the order in which they are. `sort_key`: None keeps the one there is.
        """
        self._hints = self._hints.of(hints)
        self._pre_enqueue = pre_enqueue
        self._backoff.set_durations(initial_backoff_ns, max_backoff_ns)
        waiting = self.pending_pods()
        for pod in (*waiting.active, *waiting.backoff, *waiting.error_backoff, *waiting.unschedulable, *waiting.gated):
            if pod.scheduler_name not in hints:
                self.delete(pod.info.pod, now)
        if sort_key is not None:
            self._active.sort_by(sort_key)
            self._backoff.sort_by(sort_key)
        label = CONFIGURATION_CHANGE.label
        for place in (self._active, self._backoff):
            for pod in (*waiting.active, *waiting.backoff, *waiting.error_backoff):
                if pod.scheduler_name in changed and pod.key in place and not self._passes_gates(pod):
                    place.remove(pod.key)
                    self._park_gated(pod, label)
        for pod in sorted((*waiting.unschedulable, *waiting.gated), key=move_order):
            if pod.scheduler_name in changed:
                self._unschedulable.remove(pod.key)
                self._requeue(pod, Strategy.AFTER_BACKOFF, label, now)
        if changed:
            self._active.in_flight.log(CONFIGURATION_CHANGE, None, None)

    # ---- attempts --------------------------------------------------------------------------------------------------

    def has_poppable(self) -> bool:
        """Whether `pop` finds a pod: an active one, or one that backs off after a rejection."""
        return len(self._active) > 0 or len(self._backoff.rejected) > 0

    def pop(self, now: int) -> QueuedPodInfo | None:
        """Take the pod to be tried next; it is in flight until `done` or `add_unschedulable_if_not_present`.

        Without an active pod the one that ends its back-off next is taken early, unless it came back after an error.
        """
        while True:
            pod = self._active.pop()
            if pod is None:
                pod = self._backoff.pop_rejected()
                if pod is None:
                    return None
                self._count(Place.ACTIVE, POP_FROM_BACKOFF)
            if self._active.start_attempt(pod):
                return pod
            self.discarded += 1

    def add_unschedulable_if_not_present(self, pod: QueuedPodInfo, now: int) -> Place:
        """A pod came back from a failed attempt with its rejectors, or without any after an error. Says where it went.

        Events that it missed are replayed. The pod is done in any case. Raises AlreadyQueuedError.
        """
        try:
            self._refuse_queued(pod.key)
            if pod.rejectors:
                pod.unschedulable_count += 1
                pod.consecutive_errors_count = 0
            else:
                pod.consecutive_errors_count += 1
            pod.timestamp = now
            pod.backoff_expiration = None
            pod.was_flushed_from_unschedulable = False
            pod.flush_timestamp = None
            return self._requeue(pod, self._strategy_for_missed(pod), SCHEDULE_ATTEMPT_FAILURE, now)
        finally:
            self.done(pod.uid)

    def _refuse_queued(self, key: str) -> None:
        for name, pods in (
            ("unschedulable", self._unschedulable),
            ("active", self._active),
            ("backoff", self._backoff),
        ):
            if key in pods:
                article = "" if name == "unschedulable" else "the "
                raise AlreadyQueuedError(f"Pod {key} is already present in {article}{name} queue")

    def _strategy_for_missed(self, pod: QueuedPodInfo) -> Strategy:
        """The strongest answer to the events since the pod was popped."""
        missed = self._active.in_flight.missed(pod.uid)
        if not pod.rejectors or missed is None:
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for event, old, new in missed:
            best = max(best, self._hints.strategy(pod, event, old, new))
            if best is Strategy.IMMEDIATELY or (best is Strategy.AFTER_BACKOFF and not pod.pending_plugins):
                break
        return best

    def done(self, uid: str) -> None:
        """The attempt of a popped pod has ended. May be called again."""
        self._active.in_flight.done(uid)

    @property
    def scheduling_cycle(self) -> int:
        """How many attempts have been started."""
        return self._active.scheduling_cycle

    # ---- events and timers -----------------------------------------------------------------------------------------

    def move_all_to_active_or_backoff(
        self,
        event: ClusterEvent,
        old: object,
        new: object,
        now: int,
        pre_check: Callable[[QueuedPodInfo], bool] | None = None,
    ) -> None:
        """Something changed: wake the unschedulable pods that a rejector says it helps.

        `old` and `new` go to the hints as they are: the API objects, or None. `pre_check` limits the pods looked at.
        Costs nothing unless a pod was rejected by a plugin that listens to the event, or a pod is in flight.
        """
        in_flight = self._active.in_flight
        if not self.listens():
            return
        if not self._hints.is_of_interest(event):
            return
        if self._unschedulable:
            pods = self._candidates(event)
            if pre_check is not None:
                pods = [pod for pod in pods if pre_check(pod)]
            self._move(pods, event, old, new, now)
        # Pods in flight hear of it when they come back.
        in_flight.log(event, old, new)

    def listens(self) -> bool:
        """Whether an event could concern any pod: one is unschedulable, or in flight."""
        return bool(self._unschedulable) or bool(self._active.in_flight)

    def _candidates(self, event: ClusterEvent) -> list[QueuedPodInfo]:
        """The pods that the event may concern. A gate hears only what its plugin listens to, and wildcards."""
        if event.is_wildcard:
            return list(self._unschedulable)
        interest = self._hints.interest(event)
        pods = self._unschedulable.rejected_by(interest.rejectors)
        if not self._unschedulable.gated_count:
            return pods
        return [pod for pod in pods if not pod.is_gated or pod.gating_plugin in interest.plugins]

    def _move(self, pods: Iterable[QueuedPodInfo], event: ClusterEvent, old: object, new: object, now: int) -> None:
        answers = [(pod, self._hints.strategy(pod, event, old, new)) for pod in pods]
        moving = [(pod, strategy) for pod, strategy in answers if strategy is not Strategy.SKIP]
        moving.sort(key=lambda pair: move_order(pair[0]))
        for pod, strategy in moving:
            self._unschedulable.remove(pod.key)
            self._requeue(pod, strategy, event.label, now)

    def flush_backoff_completed(self, now: int) -> None:
        """Activate the pods whose back-off is over."""
        for pod in self._backoff.pop_completed(now):
            self._enter_active(pod, BACKOFF_COMPLETE, now)

    def flush_unschedulable_leftover(self, tick: int, now: int) -> None:
        """Wake the pods that nothing had woken for longer than the maximum by the instant `tick`, gated ones too."""
        pods = self._unschedulable.waiting_since_before(tick - self._max_in_unschedulable)
        if not pods:
            return
        for pod in pods:
            pod.was_flushed_from_unschedulable = True
            pod.flush_timestamp = now
        self._move(pods, UNSCHEDULABLE_TIMEOUT, None, None, now)
        self._active.in_flight.log(UNSCHEDULABLE_TIMEOUT, None, None)

    def run_timers(self, now: int) -> None:
        """Do what the two periodic flushes would have done by now. Call it whenever `next_timer` is reached."""
        self.flush_backoff_completed(now)
        tick = (now - self._start) // LEFTOVER_PERIOD
        if tick > self._last_leftover_tick:
            self._last_leftover_tick = tick
            # Also after a call between two ticks, a pod must have waited long enough by the tick.
            self.flush_unschedulable_leftover(self._start + tick * LEFTOVER_PERIOD, now)

    def is_idle(self) -> bool:
        """Whether no pod waits for time to pass."""
        return not self._backoff and not self._unschedulable

    def next_timer(self, now: int) -> int | None:
        """The next instant at which `run_timers` may move a pod; `now` if it is overdue, None if no pod waits."""
        due = earlier(self._backoff.next_completion(), self._next_leftover_tick(now))
        return None if due is None else max(due, now)

    def _next_leftover_tick(self, now: int) -> int | None:
        oldest = self._unschedulable.oldest
        if oldest is None:
            return None
        # The first tick at which it has waited longer than the maximum, and that is not over.
        needed = (oldest + self._max_in_unschedulable - self._start) // LEFTOVER_PERIOD + 1
        current = (now - self._start) // LEFTOVER_PERIOD
        tick = max(needed, current + 1 if self._last_leftover_tick >= current else current)
        return self._start + tick * LEFTOVER_PERIOD

    # ---- moves -----------------------------------------------------------------------------------------------------

    def _requeue(self, pod: QueuedPodInfo, strategy: Strategy, label: str, now: int) -> Place:
        if strategy is Strategy.SKIP:
            return self._park(pod, label, strategy)
        if strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(pod, now):
            return self._to_backoff(pod, label, strategy)
        return self._to_active(pod, label, now, strategy)

    def _to_active(self, pod: QueuedPodInfo, label: str, now: int, strategy: Strategy | None = None) -> Place:
        if not self._passes_gates(pod):
            return self._park_gated(pod, label, strategy)
        self._unschedulable.remove(pod.key)
        return self._enter_active(pod, label, now, strategy)

    def _enter_active(self, pod: QueuedPodInfo, label: str, now: int, strategy: Strategy | None = None) -> Place:
        """Without PreEnqueue: a pod that backs off passed it when its back-off began."""
        if pod.initial_attempt_timestamp is None:
            pod.initial_attempt_timestamp = now
        self._active.push(pod)
        self._count(Place.ACTIVE, label, strategy)
        return Place.ACTIVE

    def _to_backoff(self, pod: QueuedPodInfo, label: str, strategy: Strategy) -> Place:
        if not self._passes_gates(pod):
            return self._park_gated(pod, label, strategy)
        self._unschedulable.remove(pod.key)
        self._backoff.add(pod)
        self._count(Place.BACKOFF, label, strategy)
        return Place.BACKOFF

    def _passes_gates(self, pod: QueuedPodInfo) -> bool:
        status = self._pre_enqueue(pod)
        if status.is_success:
            pod.gating_plugin = ""
            return True
        if not status.plugin:
            raise ValueError(f"a PreEnqueue status without a plugin's name holds back pod {pod.key}")
        pod.gating_plugin = status.plugin
        pod.unschedulable_plugins |= {status.plugin}
        return False

    def _park_gated(self, pod: QueuedPodInfo, label: str, strategy: Strategy | None = None) -> Place:
        # A flushed pod that stays behind its gate is not tried, so nothing else clears the mark.
        pod.was_flushed_from_unschedulable = False
        return self._park(pod, label, strategy)

    def _park(self, pod: QueuedPodInfo, label: str, strategy: Strategy | None) -> Place:
        if self._unschedulable.park(pod):
            self._count(Place.UNSCHEDULABLE, label, strategy)
        return Place.GATED if pod.is_gated else Place.UNSCHEDULABLE

    def _count(self, place: Place, label: str, strategy: Strategy | None = None) -> None:
        """`strategy`: what made a pod move that was here before. As an entity it counts only elsewhere (upstream)."""
        counted = (_NAMES[place], label)
        self.incoming[counted] = self.incoming.get(counted, 0) + 1
        if strategy is None or place is not _PLACES[strategy]:
            self.incoming_entities[counted] = self.incoming_entities.get(counted, 0) + 1

    # ---- nominations -----------------------------------------------------------------------------------------------

    def add_nominated_pod(
        self, info: PodInfo, node_name: str | None = None, mode: NominatingMode = NominatingMode.NOOP
    ) -> None:
        """Record where a pod is nominated; see `Nominator.add`."""
        self._nominator.add(info, node_name, mode)

    def update_nominated_pod(self, old: Pod | None, info: PodInfo) -> None:
        """The object of a nominated pod changed; see `Nominator.update`."""
        self._nominator.update(old, info)

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """Forget the nomination of a pod, as when it is assumed."""
        self._nominator.delete(pod.metadata.uid or pod.key)

    def nominated_pods_for_node(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in order of nomination."""
        return self._nominator.pods_for(node_name)

    def nominated_nodes(self) -> tuple[str, ...]:
        """The nodes that pods are nominated to."""
        return self._nominator.nodes()

    def nominated_node(self, uid: str) -> str:
        """The node that a pod is nominated to, "" if none."""
        return self._nominator.node_of(uid)

    def has_nominated_pods(self) -> bool:
        """Whether any pod is nominated; cheap."""
        return bool(self._nominator)

    # ---- looking at it ---------------------------------------------------------------------------------------------

    def find(self, key: str) -> QueuedPodInfo | None:
        """The waiting pod with this "namespace/name"; None if it is in flight or unknown."""
        return self._active.get(key) or self._backoff.get(key) or self._unschedulable.get(key)

    def place_of(self, info: PodInfo) -> Place | None:
        """Where a pod is; None if the queue does not know it."""
        if info.key in self._active:
            return Place.ACTIVE
        if info.key in self._backoff:
            return Place.BACKOFF
        if (pod := self._unschedulable.get(info.key)) is not None:
            return Place.GATED if pod.is_gated else Place.UNSCHEDULABLE
        return Place.IN_FLIGHT if info.uid in self._active.in_flight else None

    def counts(self) -> dict[Place, int]:
        """How many pods are where."""
        gated = self._unschedulable.gated_count
        return {
            Place.ACTIVE: len(self._active),
            Place.BACKOFF: len(self._backoff),
            Place.UNSCHEDULABLE: len(self._unschedulable) - gated,
            Place.GATED: gated,
            Place.IN_FLIGHT: len(self._active.in_flight),
        }

    def in_flight_events(self) -> dict[str, int]:
        """How many events are kept for the pods in flight, by label."""
        counted: dict[str, int] = {}
        for event, _, _ in self._active.in_flight.events:
            counted[event.label] = counted.get(event.label, 0) + 1
        return counted

    def rejector_counts(self) -> dict[tuple[str, str], int]:
        """How many waiting pods each plugin rejected, by (plugin, profile), sorted: the gauge unschedulable_pods."""
        counted: dict[tuple[str, str], int] = {}
        backoff = self._backoff
        for pods in (self._active.heap, backoff.rejected, backoff.after_error, self._unschedulable):
            for pod in pods:
                for plugin in pod.rejectors:
                    counted[plugin, pod.scheduler_name] = counted.get((plugin, pod.scheduler_name), 0) + 1
        return dict(sorted(counted.items()))

    def pending_pods(self) -> PendingPods:
        """Where every pod is. Sorts everything: for reports, not for the hot path."""
        parked = sorted(self._unschedulable, key=move_order)
        return PendingPods(
            active=self._active.heap.sorted(),
            backoff=self._backoff.rejected.sorted(),
            error_backoff=self._backoff.after_error.sorted(),
            unschedulable=tuple(pod for pod in parked if not pod.is_gated),
            gated=tuple(pod for pod in parked if pod.is_gated),
            in_flight=self._active.in_flight.pods,
        )

    def check_invariants(self) -> None:
        """Raise QueueInvariantError if a pod is in two places or a part of the queue contradicts itself. O(n)."""
        backoff = self._backoff
        found = [
            *self._active.heap.problems(),
            *backoff.rejected.problems(),
            *backoff.after_error.problems(),
            *self._unschedulable.problems(),
            *self._active.in_flight.problems(),
            *self._nominator.problems(),
        ]
        seen: set[str] = set()
        for pods in (self._active.heap, backoff.rejected, backoff.after_error, self._unschedulable):
            for pod in pods:
                if pod.key in seen:
                    found.append(f"{pod.key} is in two places")
                if pod.uid in self._active.in_flight:
                    found.append(f"{pod.key} waits although it is in flight")
                seen.add(pod.key)
        if found:
            raise QueueInvariantError("; ".join(found))
