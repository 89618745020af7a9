"""/metrics/resources: what each pod of the cluster asks for, and what it may use.

Follows pkg/scheduler/metrics/resources/resources.go of Kubernetes v1.37.2, to the last digit of each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
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

from .exposition import go_float, header, quoted
from .metric_table import RESOURCES, Metric

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
    shown = [pod for pod in pods if not (pod.spec.node_name and pod.is_terminal)]
    # By the values of the labels in the order of their names, as Go's library sorts; no two pods share a name.
    shown.sort(key=lambda pod: (pod.metadata.namespace, pod.spec.node_name, pod.metadata.name))
    pages = (_page(_LIMIT, shown, pod_limits), _page(_REQUEST, shown, _requests))
    return "".join(pages).encode()


def _requests(pod: Pod) -> Requests:
    return pod_requests(pod, use_status=False, pod_level=True)


def _page(metric: Metric, pods: Sequence[Pod], amounts_of: Callable[[Pod], Requests]) -> str:
    """One metric; "" without samples. A large cluster has a million lines, so each is put together in one go."""
    lines = []
    for pod in pods:
        amounts = amounts_of(pod)
        if not amounts:
            continue
        meta, spec = pod.metadata, pod.spec
        before = (
            f'{metric.name}{{namespace="{meta.namespace}",node="{spec.node_name}",pod="{meta.name}",'
            f'priority="{"" if spec.priority is None else spec.priority}",resource="'
        )
        # The API server holds all names to an alphabet without quotation marks, except for this one.
        between = f'",scheduler="{quoted(spec.scheduler_name)}",unit="'
        for name in sorted(amounts):
            if amounts[name]:
                lines.append(f'{before}{name}{between}{_unit(name)}"}} {go_float(_number(amounts[name]))}\n')
    return header(metric.name, metric.kind, metric.help_text) + "".join(lines) if lines else ""


@lru_cache(maxsize=1024)
def _unit(name: str) -> str:
    unit = _UNITS.get(name)
    if unit is None:
        unit = "bytes" if is_hugepage_resource(name) else "integer" if is_attachable_volume_resource(name) else ""
    return unit


@lru_cache(maxsize=4096)
def _number(nanos: int) -> float:
    """9m is 9 * 0.001 = 0.009000000000000001, as upstream has it: not 9 / 1000."""
    unit, factor = next(scale for scale in _SCALES if nanos % scale[0] == 0)
    return (nanos // unit) * factor
