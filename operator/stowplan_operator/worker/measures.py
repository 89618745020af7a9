"""From what happens in a worker to its metrics: durations of cycles, attempts and events; states at each scrape."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from stowplan_operator.api.store import Change
from stowplan_scheduler.effects import Observe
from stowplan_scheduler.event_handlers import WATCHED_RESOURCES
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, Resource
from stowplan_scheduler.framework.evaluations import Evaluations
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.queue import Place, node_update_events, pod_update_events
from stowplan_scheduler.timestamps import NANOSECONDS

from .carrier import Carrier
from .informers import Informers
from .machine import WorkerMachine
from .metrics import Sample, WorkerMetrics
from .story import Moment, StoryRecord

_ATTEMPTS: Final = "schedule_attempts_total"
SAMPLED: Final = 0.1
"""Share of the attempts in which each call of a plugin is measured; upstream: pluginMetricsSamplePercent."""

_ASSIGNED: Final = Resource.ASSIGNED_POD.value
_UNSCHEDULED: Final = Resource.UNSCHEDULED_POD.value

_QUEUES: Final = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE, Place.GATED)


class Measures:
    """Listens to one machine; also the core's hooks. `clock`: monotonic nanoseconds, the machine's.

    `chance` draws which attempts are sampled: a source of this class's own, so that no decision depends on it.
    """

    def __init__(self, metrics: WorkerMetrics, clock: Callable[[], int], chance: random.Random | None = None) -> None:
        self._metrics = metrics
        self._clock = clock
        self._chance = random.Random() if chance is None else chance
        self.sampled = False
        self.evaluations = Evaluations()
        self._cycle = 0
        """When the running cycle began; 0 between cycles."""
        self._assumed: dict[str, int] = {}
        """Pods that have a node and are not bound: UID to when their attempt began."""

    # ---- cycles ------------------------------------------------------------------------------

    def cycle_begins(self, now: int) -> None:
        """A cycle may come next."""
        self._cycle = now

    def cycle_ends(self, has_run: bool) -> None:
        """It came, or there was none."""
        if has_run:
            seconds = (self._clock() - self._cycle) / NANOSECONDS
            self._metrics.time("scheduler_scheduling_algorithm_duration_seconds", seconds)
        self._cycle = 0

    # ---- the core's timing hooks -------------------------------------------------------------

    def clock(self) -> int:
        """For the hooks."""
        return self._clock()

    def sample(self) -> bool:
        """Whether to measure each call in the attempt that begins: there are forty of them."""
        return self._chance.random() < SAMPLED

    def observe(self, plugin: str, point: str, status: str, nanoseconds: int) -> None:
        """A plugin was called."""
        name = "scheduler_plugin_execution_duration_seconds"
        self._metrics.time(name, nanoseconds / NANOSECONDS, plugin, point, status)

    def observe_point(self, profile: str, point: str, status: str, nanoseconds: int) -> None:
        """All plugins of an extension point were called."""
        name = "scheduler_framework_extension_point_duration_seconds"
        self._metrics.time(name, nanoseconds / NANOSECONDS, point, status, profile)

    def observe_hint(self, plugin: str, event: str, hint: str, nanoseconds: int) -> None:
        """A queueing hint was called."""
        name = "scheduler_queueing_hint_execution_duration_seconds"
        self._metrics.time(name, nanoseconds / NANOSECONDS, plugin, event, hint)

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

    def event(self, change: Change, nanoseconds: int, profiles: Container[str]) -> None:
        """The machine was told of a change, and that took so long. `profiles`: the scheduler names that are ours."""
        seconds = nanoseconds / NANOSECONDS
        for label in event_labels(change, profiles):
            self._metrics.time("scheduler_event_handling_duration_seconds", seconds, label)


def event_labels(change: Change, profiles: Container[str]) -> Sequence[str]:
    """Values of the label `event` for which kube-scheduler would have measured this change, one for each sample.

    Follows pkg/scheduler/eventhandlers.go: pods of other schedulers count once they have a node; a finished pod is
    gone. What no handler is made for (namespaces, services) is not measured.
    """
    old = change.old
    new = None if change.type == "DELETED" else change.new
    subject = new if new is not None else old if old is not None else change.new
    if isinstance(subject, Pod):
        last = old if old is not None else change.new
        return _pod_labels(old if change.type == "MODIFIED" else None, new, last, profiles)
    if isinstance(subject, Node):
        if old is not None and new is not None:
            # Nothing that matters to a pod changed: upstream counts nothing either.
            return [event.label for event in node_update_events(old, new)]
        return [ClusterEvent(Resource.NODE, Action.DELETE if new is None else Action.ADD).label]
    resource = WATCHED_RESOURCES.get(type(subject))
    if resource is None or new is None:
        return ()
    return [ClusterEvent(resource, Action.ADD if old is None else Action.UPDATE).label]


def _pod_labels(old: Pod | None, new: Pod | None, last: Pod, profiles: Container[str]) -> Sequence[str]:
    """`last`: the pod as it was last known; a pod that comes has no `old`, one that goes no `new`."""
    if new is None or new.is_terminal:
        if last.spec.node_name:
            return (f"{_ASSIGNED}Delete",)
        return (f"{_UNSCHEDULED}Delete",) if last.spec.scheduler_name in profiles else ()
    is_ours = new.spec.scheduler_name in profiles
    if old is None:
        if new.spec.node_name:
            return (f"{_ASSIGNED}Add",)
        return (f"{_UNSCHEDULED}Add",) if is_ours else ()
    if old.spec.node_name:
        return (f"{_ASSIGNED}Update", *(event.label for event in pod_update_events(old, new, Resource.ASSIGNED_POD)))
    if new.spec.node_name:
        return (f"{_ASSIGNED}Add", f"{_UNSCHEDULED}Delete") if is_ours else (f"{_ASSIGNED}Add",)
    if not is_ours or old.metadata.resource_version == new.metadata.resource_version:
        return ()
    plain = f"{_UNSCHEDULED}Update"
    events = pod_update_events(old, new, Resource.UNSCHEDULED_POD)
    return (plain, *(event.label for event in events if event.label != plain))


class MachineStates:
    """The states of a machine and its informers, for the metrics' scrapes."""

    def __init__(
        self, machine: WorkerMachine, informers: Informers, carrier: Carrier, evaluations: Evaluations
    ) -> None:
        self._machine = machine
        self._evaluations = evaluations
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
        entities = queue.incoming_entities.items()
        yield "scheduler_queue_incoming_entities_total", [((*labels, "pod"), count) for labels, count in entities]
        yield "scheduler_plugin_evaluation_total", list(self._evaluations.totals().items())
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
