"""One poll: from what the triggers say to a scale of the target, without doing anything.

KEDA decides between nothing and something; the HPA that it generated does the rest. A poll can only wake the target
(from zero, or from the idle count to the minimum), put it to sleep (to zero or the idle count, straight from however
many there are: no policy or window of the HPA applies), or lift it to the minimum.

Two things that the documentation does not say, and that are so: an active target with a failing trigger does not move
the time of last activity; and a fallback of 0 replicas does not protect from sleep.

Follows RequestScale in pkg/scaling/executor/scale_scaledobjects.go and getScaledObjectState in
pkg/scaling/scale_handler.go of KEDA 2.21 (2.19 and 2.20 decide the same).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stowplan_autoscaling.kernel import SECOND, whole_seconds

from .fallback import Measured, TriggerReading, measure
from .objects import (
    ACTIVE,
    FALLBACK,
    FORCE_ACTIVATION,
    PAUSE_SCALE_IN,
    PAUSE_SCALE_OUT,
    PAUSED,
    READY,
    Condition,
    Event,
    ScaledObject,
    ScaledObjectStatus,
)
from .triggers import ExternalTrigger, Trigger

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

IS_READY: Final = Condition("True", "ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling")
TRIGGER_ERROR: Final = Condition("False", "TriggerError", "Triggers defined in ScaledObject are not working correctly")
PARTIAL_ERROR: Final = Condition(
    "Unknown", "PartialTriggerError", "Some triggers defined in ScaledObject are not working correctly"
)
IS_ACTIVE: Final = Condition("True", "ScalerActive", "Scaling is performed because triggers are active")
IS_FORCED: Final = Condition(
    "True", "ScalerActive", "Scaling is performed because activation is being forced by annotation"
)
NOT_ACTIVE: Final = Condition("False", "ScalerNotActive", "Scaling is not performed because triggers are not active")
COOLING: Final = Condition("False", "ScalerCooldown", "Scaler cooling down because triggers are not active")
IS_PAUSED: Final = Condition("True", "ScaledObjectPaused", "ScaledObject is paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class PollState:
    """What a poll knows besides the triggers' readings."""

    scaled_object: ScaledObject
    triggers: tuple[Trigger, ...]
    status: ScaledObjectStatus
    replicas: int
    """spec.replicas of the target."""
    ready_replicas: int = 0
    """Its running and ready pods (for a fallback of a Value metric)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Status and events once the target has been scaled, or has not."""

    status: ScaledObjectStatus
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a poll decides. Where `scale_to` is set, `refused` holds if the target's scale cannot be written."""

    scale_to: int | None
    done: Outcome
    refused: Outcome
    active: bool
    error: bool
    measured: Mapping[str, Measured] = field(default_factory=dict)
    """By metric; the HPA gets these for triggers with useCachedMetrics."""


def poll(state: PollState, readings: Sequence[TriggerReading], now: int) -> Decision:
    """Decide. `readings`: one per external trigger, in their order; `now` in nanoseconds."""
    status, measured = state.status, dict[str, Measured]()
    outside = [trigger for trigger in state.triggers if isinstance(trigger, ExternalTrigger)]
    for trigger, reading in zip(outside, readings, strict=True):
        measured[trigger.metric], status = measure(
            state.scaled_object, status, trigger, reading, state.replicas, state.ready_replicas
        )
    events = [
        Event(WARNING, "KEDAScalerFailed", measured[trigger.metric].error)
        for trigger in outside
        if measured[trigger.metric].error
    ]
    events += _fallback_events(state.status, measured.values())
    error = any(m.error for m in measured.values())
    active_metrics = [metric for metric, m in measured.items() if m.active]
    # Nothing but cpu and memory: always active, for nothing else could wake the target.
    active = bool(active_metrics) or not outside
    scaled = replace(state, status=_with(status, READY, IS_READY))
    verdict = _scale(scaled, active, error, active_metrics, now)
    before = tuple(events)
    return Decision(
        scale_to=verdict.scale_to,
        done=Outcome(status=verdict.done.status, events=before + verdict.done.events),
        refused=Outcome(status=verdict.refused.status, events=before + verdict.refused.events),
        active=active,
        error=error,
        measured=measured,
    )


def _fallback_events(before: ScaledObjectStatus, measured: Iterable[Measured]) -> list[Event]:
    was_on = before.conditions[FALLBACK].status == "True"
    is_on = any(m.fallback for m in measured)
    if is_on and not was_on:
        return [Event(NORMAL, "ScaledObjectFallbackActivated", "ScaledObject fallback is active")]
    if was_on and not is_on:
        return [Event(NORMAL, "ScaledObjectFallbackDeactivated", "ScaledObject fallback is no longer active")]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    scale_to: int | None = None
    done: Outcome
    refused: Outcome


def _stay(status: ScaledObjectStatus) -> _Verdict:
    outcome = Outcome(status=status)
    return _Verdict(done=outcome, refused=outcome)


def _scale(state: PollState, active: bool, error: bool, metrics: Sequence[str], now: int) -> _Verdict:
    """RequestScale."""
    scaled_object, status = state.scaled_object, state.status
    if scaled_object.is_paused:
        return _stay(_with(status, PAUSED, IS_PAUSED))
    forced = scaled_object.flag(FORCE_ACTIVATION)
    if not active and not forced:
        return _scale_inactive(replace(state, status=_with(status, ACTIVE, NOT_ACTIVE)), error, now)
    state = replace(state, status=_with(status, ACTIVE, IS_FORCED if forced else IS_ACTIVE))
    idles = scaled_object.spec.idle_replica_count is not None
    if state.replicas == 0 or (idles and state.replicas < scaled_object.min_replicas):
        return _wake(state, forced, metrics, now)
    if error:
        return _stay(_with(state.status, READY, PARTIAL_ERROR))
    return _stay(replace(state.status, last_active=whole_seconds(now)))


def _scale_inactive(state: PollState, error: bool, now: int) -> _Verdict:
    scaled_object, status = state.scaled_object, state.status
    spec, least = scaled_object.spec, scaled_object.min_replicas
    idle, fallback = spec.idle_replica_count, spec.fallback
    if error and fallback is not None and fallback.replicas != 0:
        # Not to zero: the HPA would be off there, and could not scale to the fallback's replicas.
        return _stay(status)
    if error and fallback is None:
        return _stay(_with(status, READY, TRIGGER_ERROR))
    if (idle is not None and state.replicas > idle) or (state.replicas > 0 and least == 0):
        return _sleep(state, now)
    if idle is None and state.replicas < least:
        outcome = Outcome(status=status)
        return _Verdict(scale_to=least, done=outcome, refused=outcome)
    return _stay(status)


def _wake(state: PollState, forced: bool, metrics: Sequence[str], now: int) -> _Verdict:
    """scaleFromZeroOrIdle."""
    if state.scaled_object.flag(PAUSE_SCALE_OUT):
        return _stay(state.status)
    replicas = state.scaled_object.hpa_min_replicas
    change = f"{_target(state)} from {state.replicas} to {replicas}"
    cause = "caused by forced activation annotation" if forced else f"triggered by {';'.join(metrics)}"
    return _Verdict(
        scale_to=replicas,
        done=Outcome(
            status=replace(state.status, last_active=whole_seconds(now)),
            events=(Event(NORMAL, "KEDAScaleTargetActivated", f"Scaled {change}, {cause}"),),
        ),
        refused=Outcome(
            status=state.status,
            events=(Event(WARNING, "KEDAScaleTargetActivationFailed", f"Failed to scale {change}"),),
        ),
    )


def _sleep(state: PollState, now: int) -> _Verdict:
    """scaleToZeroOrIdle."""
    scaled_object, status = state.scaled_object, state.status
    if scaled_object.flag(PAUSE_SCALE_IN):
        return _stay(status)
    if status.last_active is None:
        # Never active, or scaled by somebody else: the cool-down does not count.
        rested = status.created + scaled_object.initial_cooldown_period * SECOND < now
    else:
        rested = status.last_active + scaled_object.cooldown_period * SECOND < now
    if not rested:
        return _stay(_with(status, ACTIVE, COOLING))
    idle = scaled_object.spec.idle_replica_count
    replicas = scaled_object.min_replicas if idle is None else idle
    change = f"{_target(state)} from {state.replicas} to {replicas}"
    return _Verdict(
        scale_to=replicas,
        done=Outcome(status=status, events=(Event(NORMAL, "KEDAScaleTargetDeactivated", f"Deactivated {change}"),)),
        refused=Outcome(
            status=status,
            events=(Event(WARNING, "KEDAScaleTargetDeactivationFailed", f"Failed to deactivate {change}"),),
        ),
    )


def _with(status: ScaledObjectStatus, kind: str, condition: Condition) -> ScaledObjectStatus:
    return replace(status, conditions={**status.conditions, kind: condition})


def _target(state: PollState) -> str:
    reference = state.scaled_object.spec.scale_target_ref
    return f"{reference.text} {state.scaled_object.metadata.namespace}/{reference.name}"
