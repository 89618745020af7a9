"""Triggers: what a scaler makes of its metadata. The name of the metric, its target, and when it counts as active.

Only the scalers below are known; what their metadata says about addresses and credentials is not read. A cpu or memory
trigger has no say in activation: the HPA alone looks at it.

Follows pkg/scalers/{prometheus,rabbitmq,kafka,aws_sqs_queue,redis,cpu_memory}_scaler.go and scaler.go of KEDA 2.21.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from stowplan_autoscaling.hpa.objects import AVERAGE_VALUE, UTILIZATION, VALUE
from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_scheduler.quantity import QuantityError, parse_quantity

from .objects import ScaledObject, ScaleTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTrigger:
    """A trigger whose value comes from outside of the cluster's resource metrics."""

    index: int
    type: str
    name: str
    metric: str
    """The name of the external metric: s<index>-<what the scaler calls it>."""
    target: float
    """Per replica (AverageValue) or altogether (Value)."""
    activation: float
    """Active above it."""
    metric_type: str = AVERAGE_VALUE
    cached: bool = False
    """The HPA gets the value of the last poll instead of a fresh one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTrigger:
    """A cpu or memory trigger; `container`: of one container only."""

    index: int
    resource: str
    metric_type: str
    value: str
    container: str = ""


Trigger = ExternalTrigger | ResourceTrigger


@dataclass(frozen=True, slots=True)
class _Scaler:
    """How a scaler reads its metadata."""

    label: Callable[[Mapping[str, str]], str]
    needs: tuple[str, ...]
    target: tuple[str, ...]  # the first that is there
    activation: str
    default: float | None = None  # of the target; None: must be given
    whole: bool = True  # whether amounts are integers


_SCALERS: Final[Mapping[str, _Scaler]] = {
    "prometheus": _Scaler(lambda _: "prometheus", ("query",), ("threshold",), "activationThreshold", whole=False),
    "rabbitmq": _Scaler(
        lambda m: f"rabbitmq-{quote_plus(m['queueName'])}",
        ("queueName",),
        ("value", "queueLength"),
        "activationValue",
        whole=False,
    ),
    "kafka": _Scaler(
        lambda m: f"kafka-{m['topic']}" if m.get("topic") else f"kafka-{m['consumerGroup']}-topics",
        ("consumerGroup",),
        ("lagThreshold",),
        "activationLagThreshold",
        10,
    ),
    "aws-sqs-queue": _Scaler(
        lambda m: f"aws-sqs-{m['queueURL'].rstrip('/').rpartition('/')[2]}",
        ("queueURL",),
        ("queueLength",),
        "activationQueueLength",
        5,
    ),
    "redis": _Scaler(lambda m: f"redis-{m['listName']}", ("listName",), ("listLength",), "activationListLength", 5),
}
_RESOURCES: Final = ("cpu", "memory")
_DASHES: Final = str.maketrans(dict.fromkeys("/.:%()", "-"))


def triggers_of(scaled_object: ScaledObject) -> tuple[Trigger, ...]:
    """The triggers as their scalers read them. Raises FieldError."""
    return tuple(
        _resource(trigger, index) if trigger.type in _RESOURCES else _external(trigger, index)
        for index, trigger in enumerate(scaled_object.spec.triggers)
    )


def _external(trigger: ScaleTrigger, index: int) -> ExternalTrigger:
    path = f"spec.triggers[{index}]"
    scaler = _SCALERS.get(trigger.type)
    if scaler is None:
        known = ", ".join((*sorted(_SCALERS), *_RESOURCES))
        raise FieldError(f"{path}.type", f"{shown(trigger.type)}: must be one of {known}")
    if trigger.metric_type not in {"", AVERAGE_VALUE, VALUE}:
        raise FieldError(f"{path}.metricType", f"{shown(trigger.metric_type)}: must be AverageValue or Value")
    metadata = trigger.metadata
    for name in scaler.needs:
        if not metadata.get(name):
            raise FieldError(f"{path}.metadata.{name}", "is required")
    _check_mode(trigger, path)
    target = next((name for name in scaler.target if metadata.get(name)), scaler.target[0])
    return ExternalTrigger(
        index=index,
        type=trigger.type,
        name=trigger.name,
        metric=f"s{index}-{scaler.label(metadata).translate(_DASHES)}",
        target=_number(metadata, target, scaler, path, scaler.default),
        activation=_number(metadata, scaler.activation, scaler, path, 0),
        metric_type=trigger.metric_type or AVERAGE_VALUE,
        cached=trigger.use_cached_metrics,
    )


def _check_mode(trigger: ScaleTrigger, path: str) -> None:
    """RabbitMQ's other modes judge activity by several numbers, of which a trigger's source here gives one."""
    mode = trigger.metadata.get("mode", "QueueLength")
    if trigger.type == "rabbitmq" and mode != "QueueLength":
        raise FieldError(f"{path}.metadata.mode", f"{shown(mode)}: only QueueLength is modelled")


def _number(metadata: Mapping[str, str], name: str, scaler: _Scaler, path: str, default: float | None) -> float:
    text = metadata.get(name, "")
    if not text:
        if default is None:
            raise FieldError(f"{path}.metadata.{name}", "is required")
        return default
    try:
        value = int(text) if scaler.whole else float(text)
    except ValueError:
        kind = "an integer" if scaler.whole else "a number"
        raise FieldError(f"{path}.metadata.{name}", f"{shown(text)}: must be {kind}") from None
    if not math.isfinite(value):
        raise FieldError(f"{path}.metadata.{name}", f"{shown(text)}: must be finite")
    if name in scaler.target and value <= 0:
        raise FieldError(f"{path}.metadata.{name}", f"{shown(text)}: must be greater than 0")
    return value


def _resource(trigger: ScaleTrigger, index: int) -> ResourceTrigger:
    path = f"spec.triggers[{index}]"
    if trigger.metric_type not in {UTILIZATION, AVERAGE_VALUE}:
        raise FieldError(f"{path}.metricType", f"{shown(trigger.metric_type)}: must be Utilization or AverageValue")
    value = trigger.metadata.get("value", "")
    if trigger.metric_type == UTILIZATION:
        if not value.isdecimal() or int(value) == 0:
            raise FieldError(f"{path}.metadata.value", f"{shown(value)}: must be a percentage, such as 60")
    else:
        try:
            parse_quantity(value)
        except QuantityError as error:
            raise FieldError(f"{path}.metadata.value", f"{shown(value)}: {error}") from None
    return ResourceTrigger(
        index=index,
        resource=trigger.type,
        metric_type=trigger.metric_type,
        value=value,
        container=trigger.metadata.get("containerName", ""),
    )


def milli(value: float) -> int:
    """A trigger's value in milli units; what is negative or no number counts as 0 (quantityFromFloat64)."""
    if not math.isfinite(value) or value < 0:
        return 0
    return int(f"{value:.3f}".replace(".", ""))
