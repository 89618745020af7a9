"""From what happens in a worker to its metrics: durations of cycles, attempts and events; states at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stowplan_operator.api.store import Change
from stowplan_scheduler.effects import Observe
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.queue import Place, node_update_events
from stowplan_scheduler.timestamps import NANOSECONDS

from .carrier import Carrier
from .informers import Informers
from .machine import WorkerMachine
from .metrics import Sample, WorkerMetrics
from .story import Moment, StoryRecord

_ATTEMPTS: Final = "schedule_attempts_total"
_WORDS: Final = {"ADDED": "Add", "MODIFIED": "Update", "DELETED": "Delete"}
SAMPLED_CYCLES: Final = 10
"""One in so many has its plugins measured; upstream: pluginMetricsSamplePercent, by chance."""

_QUEUES: Final = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE, Place.GATED)


class Measures:
    """Listens to one machine. `clock`: monotonic nanoseconds, the machine's."""

    def __init__(self, metrics: WorkerMetrics, clock: Callable[[], int]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._cycle = 0
        """When the running cycle began; 0 between cycles."""
        self._cycles = 0
        self._assumed: dict[str, int] = {}
        """Pods that have a node and are not bound: UID to when their attempt began."""

    # ---- cycles ------------------------------------------------------------------------------

    def cycle_begins(self, now: int) -> None:
        """A cycle may come next."""
        self._cycle = now

    def cycle_ends(self, has_run: bool) -> None:
        """It came, or there was none."""
        if has_run:
            self._cycles += 1
            seconds = (self._clock() - self._cycle) / NANOSECONDS
            self._metrics.time("scheduler_scheduling_algorithm_duration_seconds", seconds)
        self._cycle = 0

    # ---- the core's timing hooks -------------------------------------------------------------

    def clock(self) -> int:
        """For the hooks."""
        return self._clock()

    def observe(self, plugin: str, point: str, status: str, nanoseconds: int) -> None:
        """A plugin was called. One cycle in ten counts, as upstream: there are forty calls in each."""
        if self._cycle and self._cycles % SAMPLED_CYCLES == 0:
            name = "scheduler_plugin_execution_duration_seconds"
            self._metrics.time(name, nanoseconds / NANOSECONDS, plugin, point, status)

    # ---- attempts ----------------------------------------------------------------------------

    def on_observe(self, sample: Observe) -> None:
        """A sample of the core. A failed attempt is counted by the core at its end, so that this is its duration."""
        self._metrics.observe(sample.metric, sample.value, sample.labels)
        if self._cycle and sample.metric == _ATTEMPTS:
            labels = dict(sample.labels)
            self._attempt(labels["result"], labels["profile"], self._cycle)

    def on_story(self, record: StoryRecord) -> None:
        """A bind's attempt lasts until it is answered."""
        if record.moment is Moment.ASSUMED:
            self._assumed[record.uid] = self._cycle
        elif record.moment in {Moment.BOUND, Moment.UNBOUND, Moment.GONE}:
            began = self._assumed.pop(record.uid, 0)
            if began and record.moment is not Moment.GONE:
                self._attempt("scheduled" if record.moment is Moment.BOUND else "error", record.profile, began)

    def _attempt(self, result: str, profile: str, began: int) -> None:
        seconds = (self._clock() - began) / NANOSECONDS
        self._metrics.time("scheduler_scheduling_attempt_duration_seconds", seconds, result, profile)

    # ---- events ------------------------------------------------------------------------------

    def event(self, kind: str, change: Change, nanoseconds: int) -> None:
        """The machine was told of a change, and that took so long."""
        seconds = nanoseconds / NANOSECONDS
        for label in _labels(kind, change):
            self._metrics.time("scheduler_event_handling_duration_seconds", seconds, label)


def _labels(kind: str, change: Change) -> Sequence[str]:
    """Values of the label `event` as kube-scheduler has them (pkg/scheduler/eventhandlers.go)."""
    word = _WORDS[change.type]
    newest = change.new if change.new is not None else change.old
    if isinstance(newest, Pod):
        return (f"{'AssignedPod' if newest.spec.node_name else 'UnscheduledPod'}{word}",)
    if isinstance(newest, Node) and word == "Update":
        # Nothing that matters to a pod changed: upstream counts nothing either.
        return tuple(event.label for event in node_update_events(change.old, change.new))
    return (f"{kind}{word}",)


class MachineStates:
    """The states of a machine and its informers, for the metrics' scrapes."""

    def __init__(self, machine: WorkerMachine, informers: Informers, carrier: Carrier) -> None:
        self._machine = machine
        self._informers = informers
        self._carrier = carrier

    def samples(self) -> Iterable[tuple[str, Sequence[Sample]]]:
        """All gauges, and the counters that the queue keeps."""
        scheduler = self._machine.scheduler
        queue, cache = scheduler.queue, scheduler.cache
        counts = self._machine.pending()
        yield "scheduler_pending_pods", [((place.value,), counts[place]) for place in _QUEUES]
        yield "scheduler_queued_entities", [((place.value, "pod"), counts[place]) for place in _QUEUES]
        events = {"PodPopped": counts[Place.IN_FLIGHT], **queue.in_flight_events()}
        yield "scheduler_inflight_events", [((label,), count) for label, count in events.items()]
        yield "scheduler_goroutines", [(("binding",), self._machine.binds_under_way)]
        yield (
            "scheduler_cache_size",
            [
                (("nodes",), self._machine.node_count),
                (("pods",), cache.pod_count),
                (("assumed_pods",), cache.assumed_count),
            ],
        )
        yield "scheduler_unschedulable_pods", list(queue.rejector_counts().items())
        incoming = queue.incoming.items()
        yield "scheduler_queue_incoming_pods_total", [(labels, count) for labels, count in incoming]
        yield "scheduler_queue_incoming_entities_total", [((*labels, "pod"), count) for labels, count in incoming]
        pending = self._carrier.pending.items()
        yield "scheduler_pending_async_api_calls", [((call_type,), count) for call_type, count in pending]
        yield "stowplan_watch_age_seconds", [((kind,), age) for kind, age in self._informers.ages().items()]
        waiting = set(self._informers.waiting_for)
        yield "stowplan_informers_synced", [((kind,), kind not in waiting) for kind in self._informers.ages()]
        yield (
            "stowplan_profile_info",
            [
                ((profile.profile or profile.scheduler_name, str(profile.generation), profile.hash, profile.mode), 1.0)
                for profile in self._machine.settings.profiles
            ],
        )
