"""What stands in for a trigger's value while its source fails: numbers that make the HPA want so many replicas.

Reads are counted wherever they happen, in polls and in the HPA's questions: a source that fails is past the threshold
sooner than the polls alone would say.

Follows pkg/fallback/fallback.go of KEDA 2.21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from stowplan_autoscaling.hpa.objects import VALUE

from .objects import (
    CURRENT,
    CURRENT_IF_HIGHER,
    CURRENT_IF_LOWER,
    FALLBACK,
    Condition,
    Fallback,
    ScaledObject,
    ScaledObjectStatus,
)
from .triggers import ExternalTrigger, milli

NO_FALLBACK: Final = Condition("False", "NoFallbackFound", "No fallbacks are active on this scaled object")
FALLING_BACK: Final = Condition("True", "FallbackExists", "At least one trigger is falling back on this scaled object")


@dataclass(frozen=True, slots=True)
class TriggerReading:
    """What the source of a trigger answered: a value, or why there is none."""

    value: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A reading after the fallback: a value in milli units, or an error."""

    value: int | None = None
    error: str = ""
    fallback: bool = False
    active: bool = False
    """The value is above the activation threshold, or a fallback is on."""


def measure(
    scaled_object: ScaledObject,
    status: ScaledObjectStatus,
    trigger: ExternalTrigger,
    reading: TriggerReading,
    replicas: int,
    ready_replicas: int,
) -> tuple[Measured, ScaledObjectStatus]:
    """What a reading counts as, and the status with the failure counted or forgiven.

    `replicas` are those of the target's spec, `ready_replicas` its running and ready pods.
    """
    fallback = scaled_object.spec.fallback
    if not reading.error:
        known = Measured(value=milli(reading.value), active=reading.value > trigger.activation)
        return known, status if fallback is None else _counted(status, trigger.metric, 0, fallback)
    if fallback is None:
        return Measured(error=reading.error), status
    failures = status.failures.get(trigger.metric, 0) + 1
    status = _counted(status, trigger.metric, failures, fallback)
    if failures <= fallback.failure_threshold:
        return Measured(error=reading.error), status
    wanted = float(_replicas(fallback, replicas))
    if trigger.metric_type == VALUE:
        if ready_replicas == 0:
            return Measured(error="error performing fallback"), status
        wanted /= ready_replicas
    target = milli(trigger.target) / 1000
    return Measured(value=int(target * 1000 * wanted), fallback=True, active=True), status


def _replicas(fallback: Fallback, current: int) -> int:
    match fallback.behavior:
        case behavior if behavior == CURRENT:
            return current
        case behavior if behavior == CURRENT_IF_HIGHER:
            return max(current, fallback.replicas)
        case behavior if behavior == CURRENT_IF_LOWER:
            return min(current, fallback.replicas)
        case _:
            return fallback.replicas


def _counted(status: ScaledObjectStatus, metric: str, failures: int, fallback: Fallback) -> ScaledObjectStatus:
    counts: Mapping[str, int] = {**status.failures, metric: failures}
    falling = any(count > fallback.failure_threshold for count in counts.values())
    conditions = {**status.conditions, FALLBACK: FALLING_BACK if falling else NO_FALLBACK}
    return replace(status, failures=counts, conditions=conditions)
