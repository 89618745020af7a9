"""KEDA's operator and metrics server in virtual time: the loop around `poll`, and the answers to the generated HPAs.

    keda = Keda(scales, sources, record=record)
    hpa = keda.add(scaled_object, now)              # to be created in the cluster; None while paused
    kernel.later(keda.next_event(), lambda: keda.advance(kernel.now))   # again after each
    MetricsApis(resources=..., externals=keda)

A ScaledObject is polled right after it was added and every pollingInterval from then on, whatever a poll took. The HPA
reads a trigger's source anew with each question, unless the trigger uses cached metrics.

Follows pkg/scaling/scale_handler.go, pkg/provider/provider.go and controllers/keda/scaledobject_controller.go of
KEDA 2.21.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from stowplan_autoscaling.hpa.metrics import MetricsError
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, ScaleError
from stowplan_autoscaling.kernel import MILLISECOND, SECOND, whole_seconds
from stowplan_scheduler.objects import LabelSelector

from .fallback import NO_FALLBACK, Measured, TriggerReading, measure
from .hpa import hpa_of
from .objects import FALLBACK, NAME_LABEL, PAUSE_REPLICAS, PAUSED, READY, Event, ScaledObject, ScaledObjectStatus
from .poll import IS_PAUSED, IS_READY, NORMAL, Decision, PollState, poll
from .triggers import ExternalTrigger, Trigger
from .validation import check_scaled_object

FIRST_POLL: Final = MILLISECOND
"""From adding to the first poll. Any positive time will do: it is why a cool-down that is a multiple of the polling
interval ends at that poll and not one later (a poll is never at a whole second, the recorded times always are)."""


class Scales(Protocol):
    """The scale sub-resource of targets."""

    def replicas(self, scaled_object: ScaledObject) -> int:
        """spec.replicas of the target. Raises ScaleError."""
        ...

    def ready_replicas(self, scaled_object: ScaledObject) -> int:
        """Running and ready pods of the target. Raises ScaleError."""
        ...

    def scale(self, scaled_object: ScaledObject, replicas: int, now: int) -> None:
        """Write spec.replicas. Raises ScaleError."""
        ...


Sources = Callable[[ScaledObject, ExternalTrigger, int], TriggerReading]
"""What the source of a trigger answers at a time, without raising."""

Record = Callable[[ScaledObject, Event, int], None]
"""Takes the events."""


@dataclass(slots=True)
class _Watched:
    scaled_object: ScaledObject
    triggers: tuple[Trigger, ...]
    status: ScaledObjectStatus
    stopped: bool = False
    cached: dict[str, Measured] = field(default_factory=dict)


class Keda:
    """Watches ScaledObjects and answers for their metrics."""

    def __init__(self, scales: Scales, sources: Sources, *, record: Record, first_poll: int = FIRST_POLL) -> None:
        self._scales = scales
        self._sources = sources
        self._record = record
        self._first_poll = first_poll
        self._watched: dict[str, _Watched] = {}
        self._due: list[tuple[int, int, _Watched]] = []
        self._sequence = 0
        self.polls = 0
        """How many polls were made."""

    def status(self, namespace: str, name: str) -> ScaledObjectStatus:
        """The status of a ScaledObject. Raises KeyError."""
        return self._watched[f"{namespace}/{name}"].status

    # ---- objects

    def add(self, scaled_object: ScaledObject, now: int) -> HorizontalPodAutoscaler | None:
        """A ScaledObject appears, or its spec changed: the loop starts anew. Returns the HPA that belongs to it now.

        None: it is paused and has none. Raises FieldError.
        """
        triggers = check_scaled_object(scaled_object)
        before = self._watched.get(scaled_object.key)
        status = ScaledObjectStatus(created=whole_seconds(now)) if before is None else before.status
        if before is not None:
            before.stopped = True
        watched = _Watched(scaled_object, triggers, status)
        self._watched[scaled_object.key] = watched
        if scaled_object.is_paused:
            self._pause(watched, now)
            return None
        self._reconcile(watched, now)
        self._plan(watched, now + self._first_poll)
        return hpa_of(scaled_object, triggers)

    def remove(self, namespace: str, name: str, now: int) -> None:
        """A ScaledObject is deleted; its HPA goes with it. The target gets its first replicas back if so wished."""
        watched = self._watched.pop(f"{namespace}/{name}")
        watched.stopped = True
        advanced, original = watched.scaled_object.spec.advanced, watched.status.original_replicas
        if advanced is not None and advanced.restore_to_original_replica_count and original is not None:
            self._write(watched, original, now)

    def _reconcile(self, watched: _Watched, now: int) -> None:
        """What the controller does before the loop starts."""
        status, scaled_object = watched.status, watched.scaled_object
        if status.original_replicas is None:
            status = replace(status, original_replicas=self._replicas(scaled_object))
        conditions = {**status.conditions, READY: IS_READY}
        if status.conditions[PAUSED].status == "True":
            conditions[PAUSED] = replace(
                IS_PAUSED, status="False", reason="ScaledObjectUnpaused", message=_UNPAUSED.message
            )
            self._record(scaled_object, _UNPAUSED, now)
        if scaled_object.spec.fallback is None:
            conditions[FALLBACK] = NO_FALLBACK
        if status.conditions[READY].status != "True":
            self._record(scaled_object, Event(NORMAL, "ScaledObjectReady", "ScaledObject is ready for scaling"), now)
        self._record(scaled_object, Event(NORMAL, "KEDAScalersStarted", "Started scalers watch"), now)
        watched.status = replace(status, conditions=conditions)

    def _pause(self, watched: _Watched, now: int) -> None:
        status, scaled_object = watched.status, watched.scaled_object
        if status.conditions[PAUSED].status != "True":
            self._record(scaled_object, Event(NORMAL, IS_PAUSED.reason, IS_PAUSED.message), now)
        watched.status = replace(status, conditions={**status.conditions, PAUSED: IS_PAUSED})
        replicas = scaled_object.metadata.annotations.get(PAUSE_REPLICAS)
        if replicas is not None and self._replicas(scaled_object) != int(replicas):
            self._write(watched, int(replicas), now)

    def _replicas(self, scaled_object: ScaledObject) -> int | None:
        try:
            return self._scales.replicas(scaled_object)
        except ScaleError:
            return None

    def _write(self, watched: _Watched, replicas: int, now: int) -> bool:
        try:
            self._scales.scale(watched.scaled_object, replicas, now)
        except ScaleError:
            return False
        return True

    # ---- the loop

    def _plan(self, watched: _Watched, when: int) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (when, self._sequence, watched))

    def next_event(self) -> int | None:
        """When the next poll is due; None without ScaledObjects."""
        while self._due and self._due[0][2].stopped:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def advance(self, now: int) -> None:
        """Do the polls that are due."""
        while (due := self.next_event()) is not None and due <= now:
            when, _, watched = heapq.heappop(self._due)
            self._plan(watched, when + watched.scaled_object.polling_interval * SECOND)
            self._poll(watched, when)

    def _poll(self, watched: _Watched, now: int) -> None:
        self.polls += 1
        scaled_object = watched.scaled_object
        replicas, ready = self._counts(watched)
        if replicas is None:
            text = "error getting current replicas count for ScaleTarget"
            condition = replace(
                IS_READY, status="False", reason="ErrorGettingCurrentReplicas", message=text.capitalize()
            )
            watched.status = replace(watched.status, conditions={**watched.status.conditions, READY: condition})
            return
        state = PollState(
            scaled_object=scaled_object,
            triggers=watched.triggers,
            status=watched.status,
            replicas=replicas,
            ready_replicas=ready,
        )
        outside = [trigger for trigger in watched.triggers if isinstance(trigger, ExternalTrigger)]
        decision = poll(state, [self._sources(scaled_object, trigger, now) for trigger in outside], now)
        self._carry_out(watched, decision, now)
        watched.cached = {t.metric: decision.measured[t.metric] for t in outside if t.cached}

    def _counts(self, watched: _Watched) -> tuple[int | None, int]:
        """Replicas and ready pods of the target; ready pods only where a fallback may want them."""
        replicas = self._replicas(watched.scaled_object)
        if replicas is None or watched.scaled_object.spec.fallback is None:
            return replicas, 0
        try:
            return replicas, self._scales.ready_replicas(watched.scaled_object)
        except ScaleError:
            return None, 0

    def _carry_out(self, watched: _Watched, decision: Decision, now: int) -> None:
        worked = decision.scale_to is None or self._write(watched, decision.scale_to, now)
        outcome = decision.done if worked else decision.refused
        watched.status = outcome.status
        for event in outcome.events:
            self._record(watched.scaled_object, event, now)

    # ---- the external metrics API

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient.external: the value of a trigger for the HPA that was generated for it."""
        name = "" if selector is None else selector.match_labels.get(NAME_LABEL, "")
        if not name:
            raise MetricsError.unavailable("external", "scaledObject name is not specified")
        watched = self._watched.get(f"{namespace}/{name}")
        if watched is None:
            raise _rpc_error(f'error getting scalers ScaledObject.keda.sh "{name}" not found')
        trigger = _trigger_of(watched.triggers, metric)
        if trigger is None:
            raise _rpc_error(f"no matching metrics found for {metric}")
        measured = self._read(watched, trigger, now)
        if measured.value is None:
            raise _rpc_error(f"metric:{metric} encountered error")
        return [measured.value], whole_seconds(now)

    def _read(self, watched: _Watched, trigger: ExternalTrigger, now: int) -> Measured:
        known = watched.cached.get(trigger.metric) if trigger.cached else None
        if known is not None and known.value is not None:
            # A cached value counts as a successful read, even one that a fallback made.
            reading = TriggerReading(known.value / 1000)
        elif known is not None:
            reading = TriggerReading(error=known.error)
        else:
            reading = self._sources(watched.scaled_object, trigger, now)
        replicas, ready = self._counts(watched) if reading.error else (0, 0)
        if replicas is None:
            return Measured(error=reading.error)
        measured, watched.status = measure(watched.scaled_object, watched.status, trigger, reading, replicas, ready)
        return measured


_UNPAUSED: Final = Event(NORMAL, "ScaledObjectUnpaused", "pause annotation removed for ScaledObject")


def _trigger_of(triggers: Sequence[Trigger], metric: str) -> ExternalTrigger | None:
    return next((t for t in triggers if isinstance(t, ExternalTrigger) and t.metric == metric), None)


def _rpc_error(reason: str) -> MetricsError:
    """How an error of the operator reaches the HPA: through KEDA's metrics server."""
    text = f"rpc error: code = Unknown desc = error when getting metric values {reason}"
    return MetricsError.unavailable("external", text)
