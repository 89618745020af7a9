"""What KEDA refuses in a ScaledObject, and what is not modelled: one error that names the field.

Follows apis/keda/v1alpha1 of KEDA 2.21: the schema's markers in scaledobject_types.go, CheckReplicaCountBoundsAreValid,
CheckFallbackValid, ValidateTriggers, and the webhook's rule on cpu and memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stowplan_autoscaling.inputs.decode import explain, without_nulls
from stowplan_autoscaling.inputs.errors import FieldError, shown

from .objects import (
    CURRENT,
    CURRENT_IF_HIGHER,
    CURRENT_IF_LOWER,
    PAUSE_REPLICAS,
    STATIC,
    Fallback,
    ScaledObject,
    ScaledObjectSpec,
)
from .triggers import ExternalTrigger, Trigger, triggers_of

_LEAST: Final = {
    "pollingInterval": 1,
    "initialCooldownPeriod": 0,
    "cooldownPeriod": 0,
    "idleReplicaCount": 0,
    "minReplicaCount": 0,
    "maxReplicaCount": 1,
}
_BEHAVIORS: Final = (STATIC, CURRENT, CURRENT_IF_HIGHER, CURRENT_IF_LOWER)
_UNCACHED: Final = ("cpu", "memory", "cron")
_LABEL_LENGTH: Final = 63


def decode_scaled_object(manifest: Mapping[str, Any]) -> ScaledObject:
    """A ScaledObject from its manifest, checked. Raises FieldError."""
    value = without_nulls(dict(manifest))
    try:
        scaled_object = msgspec.convert(value, ScaledObject)
    except msgspec.ValidationError as error:
        raise explain(error, value) from None
    check_scaled_object(scaled_object)
    return scaled_object


def check_scaled_object(scaled_object: ScaledObject) -> tuple[Trigger, ...]:
    """Its triggers. Raises FieldError for the first thing that KEDA would refuse or that is not modelled."""
    spec = scaled_object.spec
    if not spec.scale_target_ref.name:
        raise FieldError("spec.scaleTargetRef.name", "is required")
    _check_names(scaled_object)
    _check_numbers(spec)
    _check_bounds(scaled_object)
    if spec.advanced is not None and spec.advanced.scaling_modifiers:
        raise FieldError("spec.advanced.scalingModifiers", "formulas are not modelled")
    _check_paused_replicas(scaled_object)
    _check_trigger_list(spec)
    triggers = triggers_of(scaled_object)
    if spec.fallback is not None:
        _check_fallback(spec.fallback, triggers)
    outside = any(isinstance(trigger, ExternalTrigger) for trigger in triggers)
    if not outside and scaled_object.min_replicas == 0:
        raise FieldError(
            "spec.minReplicaCount", "must be at least 1: with cpu and memory triggers only, nothing wakes it from zero"
        )
    return triggers


def _check_names(scaled_object: ScaledObject) -> None:
    name = scaled_object.metadata.name
    if not name:
        raise FieldError("metadata.name", "is required")
    if len(name) > _LABEL_LENGTH:
        raise FieldError("metadata.name", f"{len(name)} characters: must be no more than {_LABEL_LENGTH}")
    if len(scaled_object.hpa_name) > _LABEL_LENGTH:
        raise FieldError(
            "spec.advanced.horizontalPodAutoscalerConfig.name",
            f"{shown(scaled_object.hpa_name)}: must be no more than {_LABEL_LENGTH} characters; "
            "it is derived from metadata.name where it is not set",
        )


def _check_numbers(spec: ScaledObjectSpec) -> None:
    given = {
        "pollingInterval": spec.polling_interval,
        "initialCooldownPeriod": spec.initial_cooldown_period,
        "cooldownPeriod": spec.cooldown_period,
        "idleReplicaCount": spec.idle_replica_count,
        "minReplicaCount": spec.min_replica_count,
        "maxReplicaCount": spec.max_replica_count,
    }
    for name, value in given.items():
        if value is not None and value < _LEAST[name]:
            raise FieldError(f"spec.{name}", f"{value}: must be at least {_LEAST[name]}")
        if value is not None and value >= 2**31:
            raise FieldError(f"spec.{name}", f"{value}: must be less than {2**31}")


def _check_bounds(scaled_object: ScaledObject) -> None:
    spec = scaled_object.spec
    least = 0 if spec.min_replica_count is None else scaled_object.hpa_min_replicas
    if least > scaled_object.max_replicas:
        raise FieldError(
            "spec.minReplicaCount", f"{least}: must not be greater than maxReplicaCount {scaled_object.max_replicas}"
        )
    if spec.idle_replica_count is not None and spec.idle_replica_count >= least:
        raise FieldError(
            "spec.idleReplicaCount", f"{spec.idle_replica_count}: must be less than minReplicaCount {least}"
        )


def _check_paused_replicas(scaled_object: ScaledObject) -> None:
    text = scaled_object.metadata.annotations.get(PAUSE_REPLICAS)
    if text is not None and not text.isdecimal():
        raise FieldError(f"metadata.annotations[{PAUSE_REPLICAS}]", f"{shown(text)}: must be a number of replicas")


def _check_trigger_list(spec: ScaledObjectSpec) -> None:
    if not spec.triggers:
        raise FieldError("spec.triggers", "must have at least one trigger")
    names: set[str] = set()
    for index, trigger in enumerate(spec.triggers):
        if trigger.use_cached_metrics and trigger.type in _UNCACHED:
            raise FieldError(f"spec.triggers[{index}].useCachedMetrics", f"not supported by {shown(trigger.type)}")
        if trigger.name in names:
            raise FieldError(f"spec.triggers[{index}].name", f"{shown(trigger.name)}: must be unique")
        names |= {trigger.name} - {""}


def _check_fallback(fallback: Fallback, triggers: tuple[Trigger, ...]) -> None:
    if fallback.failure_threshold < 0:
        raise FieldError("spec.fallback.failureThreshold", f"{fallback.failure_threshold}: must not be negative")
    if fallback.replicas < 0:
        raise FieldError("spec.fallback.replicas", f"{fallback.replicas}: must not be negative")
    if fallback.behavior not in _BEHAVIORS:
        raise FieldError(
            "spec.fallback.behavior", f"{shown(fallback.behavior)}: must be one of {', '.join(_BEHAVIORS)}"
        )
    if not any(isinstance(trigger, ExternalTrigger) for trigger in triggers):
        raise FieldError("spec.fallback", "needs a trigger that is neither cpu nor memory")
