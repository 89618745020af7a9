"""Since when a workload has been asked for more than its replicas are meant for: where waiting for pods begins.

Meant for: the target of the HPA, times the replicas, times one plus the tolerance. Known for cpu targets, and for
sources that measure rates or lengths against an average per pod; for all others waiting begins with the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan_autoscaling.demand import WorkQueue
from stowplan_scheduler.quantity import parse_quantity

if TYPE_CHECKING:
    from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, MetricSpec, MetricTarget
    from stowplan_autoscaling.resources.metrics import MetricSource

    from .groups import Group

Amount = Callable[[], float]
"""What is asked for now, in pods."""


class Pressure:
    """One workload with an autoscaler."""

    __slots__ = ("_amounts", "_tolerance", "since")

    def __init__(self, amounts: list[Amount], tolerance: float) -> None:
        self._amounts = amounts
        self._tolerance = tolerance
        self.since: int | None = None
        """None while there is none."""

    def look(self, replicas: int, now: int) -> None:
        """Take in the demand of now."""
        most = max((amount() for amount in self._amounts), default=0.0)
        if most > replicas * (1 + self._tolerance):
            if self.since is None:
                self.since = now
        else:
            self.since = None


def pressure_of(
    hpa: HorizontalPodAutoscaler,
    group: Group | None,
    sources: tuple[MetricSource, ...],
    request: float,
    tolerance: float,
) -> Pressure:
    """The pressure on the target of an HPA. `request`: cores that a pod of it requests."""
    amounts: list[Amount] = []
    if group is not None:
        for metric in hpa.spec.metrics:
            amount = _amount(metric, group, sources, request)
            if amount is not None:
                amounts.append(amount)
    return Pressure(amounts, tolerance)


def _amount(metric: MetricSpec, group: Group, sources: tuple[MetricSource, ...], request: float) -> Amount | None:
    if metric.resource is not None:
        if metric.resource.name != "cpu":
            return None
        target = metric.resource.target
        each = request * (target.average_utilization or 0) / 100 if target.average_value is None else _per_pod(target)
        return (lambda: group.wanted / each) if each else None
    found = metric.pods or metric.external or metric.object
    if found is None:
        return None
    each = _per_pod(found.target)
    source = next((one for one in sources if one.name == found.metric.name and one.type == metric.type), None)
    entry = None if source is None else next((e for e in group.entries if e.demand.name == source.demand), None)
    if source is None or entry is None or not each:
        return None
    model = entry.model
    if source.value == "Rate":
        return lambda: model.load.at(model.now) / each
    if source.value == "QueueLength" and isinstance(model, WorkQueue):
        return lambda: model.length / each
    return None


def _per_pod(target: MetricTarget) -> float:
    return 0.0 if target.average_value is None else parse_quantity(target.average_value) / 1e9
