"""Since when a workload has been asked for more than its replicas are meant for: where waiting for pods begins.

Meant for: the target of the HPA, times the replicas, times one plus the tolerance. Known for cpu targets, and for
sources that measure rates or lengths against an average per pod; for all others waiting begins with the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from stowplan_autoscaling.demand import WorkQueue
from stowplan_scheduler.quantity import parse_quantity

if TYPE_CHECKING:
    from stowplan_autoscaling.demand import Fleet
    from stowplan_autoscaling.demand.fleet_rows import Part
    from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, MetricSpec, MetricTarget
    from stowplan_autoscaling.resources.metrics import MetricSource

    from .groups import Group
    from .pods import Workload

Amount = Callable[[], float]
"""What is asked for now, in pods."""


class Pressure:
    """One workload with an autoscaler."""

    __slots__ = ("_amounts", "cores", "since", "tolerance")

    def __init__(self, amounts: list[Amount], tolerance: float, cores: float | None = None) -> None:
        self._amounts = amounts
        self.tolerance = tolerance
        self.cores = cores
        """What a pod is meant for, if the cores that pods want are all there is to look at."""
        self.since: int | None = None
        """None while there is none."""

    def look(self, replicas: int, now: int) -> None:
        """Take in the demand of now."""
        most = max((amount() for amount in self._amounts), default=0.0)
        self.note(now, is_asked=most > replicas * (1 + self.tolerance))

    def note(self, now: int, *, is_asked: bool) -> None:
        """Whether more is asked for now."""
        if not is_asked:
            self.since = None
        elif self.since is None:
            self.since = now


class CpuPressures:
    """All workloads with a service of their own of which only cores count: one comparison for all of them."""

    def __init__(self, fleet: Fleet, members: list[tuple[int, Workload, Pressure]]) -> None:
        """`members` by the numbers of their services in the fleet."""
        self._fleet = fleet
        self._workloads = [workload for _, workload, _ in members]
        self._pressures = [pressure for _, _, pressure in members]
        self._of = np.full(len(fleet), -1)
        self._of[[number for number, _, _ in members]] = np.arange(len(members))
        self._cores = np.array([pressure.cores for pressure in self._pressures], np.float64)
        self._factor = 1 + np.array([pressure.tolerance for pressure in self._pressures], np.float64)
        self._is_asked = np.array([pressure.since is not None for pressure in self._pressures], np.bool_)

    def look(self, part: Part, now: int) -> None:
        """Take in the demand of now, of these services."""
        found = self._of[part.numbers]
        mine = found >= 0
        if not mine.any():
            return
        which = found[mine]
        wanted = self._fleet.wanted_by[part.numbers][mine]
        replicas = np.array([self._workloads[number].replicas or 0 for number in which.tolist()], np.float64)
        is_asked = wanted / self._cores[which] > replicas * self._factor[which]
        for position in np.flatnonzero(is_asked != self._is_asked[which]).tolist():
            self._pressures[which[position]].note(now, is_asked=bool(is_asked[position]))
        self._is_asked[which] = is_asked


def pressure_of(
    hpa: HorizontalPodAutoscaler,
    group: Group | None,
    sources: tuple[MetricSource, ...],
    request: float,
    tolerance: float,
) -> Pressure:
    """The pressure on the target of an HPA. `request`: cores that a pod of it requests."""
    amounts: list[Amount] = []
    metrics = hpa.spec.metrics
    cores = _cores(metrics[0], request) if group is not None and group.service and len(metrics) == 1 else None
    if group is not None:
        for metric in hpa.spec.metrics:
            amount = _amount(metric, group, sources, request)
            if amount is not None:
                amounts.append(amount)
    return Pressure(amounts, tolerance, cores)


def _cores(metric: MetricSpec, request: float) -> float | None:
    """What a pod is meant for by a target of cpu, in cores; None for others."""
    if metric.resource is None or metric.resource.name != "cpu":
        return None
    target = metric.resource.target
    each = request * (target.average_utilization or 0) / 100 if target.average_value is None else _per_pod(target)
    return each or None


def _amount(metric: MetricSpec, group: Group, sources: tuple[MetricSource, ...], request: float) -> Amount | None:
    if metric.resource is not None:
        cores = _cores(metric, request)
        return None if cores is None else lambda: group.wanted / cores
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
