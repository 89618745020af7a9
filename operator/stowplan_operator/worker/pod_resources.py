"""/metrics/resources: what each pod of the cluster asks for, and what it may use.

Follows pkg/scheduler/metrics/resources/resources.go of Kubernetes v1.37.2, to the last digit of each number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stowplan_scheduler.objects import Pod
from stowplan_scheduler.quantity import NANOS
from stowplan_scheduler.resources import (
    Requests,
    is_attachable_volume_resource,
    is_hugepage_resource,
    pod_limits,
    pod_requests,
)

from .exposition import exposition
from .metric_table import RESOURCES
from .series import LabelValues, state_family

_REQUEST, _LIMIT = RESOURCES
_UNITS: Final[Mapping[str, str]] = {
    "cpu": "cores",
    "memory": "bytes",
    "storage": "bytes",
    "ephemeral-storage": "bytes",
}

_SCALES: Final = ((NANOS, 1.0), (10**6, 1e-3), (10**3, 1e-6), (1, 1e-9))
"""Nano units in one unit of a quantity's scale, and what upstream multiplies by (Quantity.AsApproximateFloat64)."""


def pod_resources(pods: Iterable[Pod]) -> bytes:
    """The page for these pods, without those on nodes that have finished and without amounts of 0.

    Raises QuantityError.
    """
    requests: list[tuple[LabelValues, float]] = []
    limits: list[tuple[LabelValues, float]] = []
    for pod in pods:
        if pod.spec.node_name and pod.is_terminal:
            continue
        requests.extend(_samples(pod, pod_requests(pod, use_status=False, pod_level=True)))
        limits.extend(_samples(pod, pod_limits(pod)))
    return exposition((state_family(_REQUEST, requests), state_family(_LIMIT, limits)))


def _samples(pod: Pod, amounts: Requests) -> Iterable[tuple[LabelValues, float]]:
    meta, spec = pod.metadata, pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    for name, nanos in amounts.items():
        if nanos:
            labels = (meta.namespace, meta.name, spec.node_name, spec.scheduler_name, priority, name, _unit(name))
            yield labels, _number(nanos)


def _unit(name: str) -> str:
    unit = _UNITS.get(name)
    if unit is None:
        unit = "bytes" if is_hugepage_resource(name) else "integer" if is_attachable_volume_resource(name) else ""
    return unit


def _number(nanos: int) -> float:
    """9m is 9 * 0.001 = 0.009000000000000001, as upstream has it: not 9 / 1000."""
    unit, factor = next(scale for scale in _SCALES if nanos % scale[0] == 0)
    return (nanos // unit) * factor
