"""How many replicas one metric asks for.

Amounts are int64 milli units, ratios are float64 in upstream's order of operations, replica counts are int32: equal to
the last bit, overflows included. Follows pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go
of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from stowplan_autoscaling.cluster.pods import RUNNING, ClusterPod

from .fixed_width import (
    MAX_INT32,
    MAX_INT64,
    ceiling,
    divide,
    float_to_int32,
    float_to_int64,
    truncated_division,
    wrap32,
    wrap64,
)
from .metrics import PodMetric
from .pod_groups import PodGroups, ReadinessRules, group_pods, without
from .requests import MissingRequestError, RequestCache
from .tolerance import Tolerances

NO_PODS: Final = "no pods returned by selector while calculating replica count"
NO_SAMPLES: Final = "did not receive metrics for targeted pods (pods might be unready)"
NO_MATCH: Final = "no metrics returned matched known pods"


class CalculationError(Exception):
    """No number of replicas follows from what was measured."""


class Usage(NamedTuple):
    """Usage in relation to the target, in percent of the request (utilisation targets only), and per pod."""

    ratio: float
    utilization: int
    average: int


class Proposal(NamedTuple):
    """What a metric asks for, and what was measured at first, before anything was assumed for other pods."""

    replicas: int
    utilization: int
    average: int


_Measure = Callable[[Mapping[str, int]], Usage]
_Fallback = Callable[[str], int]


class ReplicaCalculator:
    """Pods and samples in, replicas out; remembers nothing but the requests of templates."""

    def __init__(self, rules: ReadinessRules) -> None:
        self.rules = rules
        self.requests = RequestCache()

    def utilization_replicas(
        self,
        current: int,
        target: int,
        resource: str,
        container: str,
        tolerances: Tolerances,
        samples: Mapping[str, PodMetric],
        pods: Sequence[ClusterPod],
        now: int,
    ) -> Proposal:
        """For a target in percent of the request (GetResourceReplicas). Raises CalculationError."""
        groups, values = self._grouped(samples, pods, resource, now)
        try:
            requests = self.requests.requests(pods, resource, container)
        except MissingRequestError as error:
            raise CalculationError(str(error)) from error

        def measure(amounts: Mapping[str, int]) -> Usage:
            return utilization_usage(amounts, requests, target)

        def missing(name: str) -> int:
            return truncated_division(wrap64(requests[name] * max(100, target)), 100)

        return _proposal(current, groups, values, tolerances, measure, missing)

    def average_replicas(
        self,
        current: int,
        target: int,
        resource: str,
        tolerances: Tolerances,
        samples: Mapping[str, PodMetric],
        pods: Sequence[ClusterPod],
        now: int,
    ) -> Proposal:
        """For a target per pod; `resource` is "" for a custom metric (calcPlainMetricReplicas).

        Raises CalculationError.
        """
        groups, values = self._grouped(samples, pods, resource, now)

        def measure(amounts: Mapping[str, int]) -> Usage:
            return average_usage(amounts, target)

        return _proposal(current, groups, values, tolerances, measure, lambda _: target)

    def _grouped(
        self, samples: Mapping[str, PodMetric], pods: Sequence[ClusterPod], resource: str, now: int
    ) -> tuple[PodGroups, dict[str, int]]:
        if not pods:
            raise CalculationError(NO_PODS)
        groups = group_pods(pods, samples, resource, self.rules, now)
        values = without(samples, groups)
        if not values:
            raise CalculationError(NO_SAMPLES)
        return groups, values


def utilization_usage(amounts: Mapping[str, int], requests: Mapping[str, int], target: int) -> Usage:
    """Usage in percent of the requests, cut to a whole number before it meets the target.

    Samples of unknown pods do not count. Raises CalculationError.
    """
    used = requested = count = 0
    for name, amount in amounts.items():
        request = requests.get(name)
        if request is not None:
            used += amount
            requested += request
            count += 1
    used, requested = wrap64(used), wrap64(requested)
    if requested == 0:
        raise CalculationError(NO_MATCH)
    utilization = wrap32(truncated_division(wrap64(used * 100), requested))
    return Usage(utilization / target, utilization, truncated_division(used, count))


def average_usage(amounts: Mapping[str, int], target: int) -> Usage:
    """Usage per sample, those of unknown pods included."""
    average = truncated_division(wrap64(sum(amounts.values())), len(amounts))
    return Usage(divide(float(average), float(target)), 0, average)


def _proposal(
    current: int,
    groups: PodGroups,
    values: dict[str, int],
    tolerances: Tolerances,
    measure: _Measure,
    missing: _Fallback,
) -> Proposal:
    usage = measure(values)
    ratio = usage.ratio
    up_with_unready = bool(groups.unready) and ratio > 1.0
    if not up_with_unready and not groups.missing:
        replicas = current if tolerances.is_within(ratio) else scaled(ratio, groups.ready)
        return Proposal(replicas, usage.utilization, usage.average)
    # What is unknown is assumed to be such that it dampens the change.
    if ratio < 1.0:
        for name in groups.missing:
            values[name] = missing(name)
    elif ratio > 1.0:
        values.update(dict.fromkeys(groups.missing, 0))
    if up_with_unready:
        values.update(dict.fromkeys(groups.unready, 0))
    replicas = dampened(current, ratio, measure(values).ratio, len(values), tolerances)
    return Proposal(replicas, usage.utilization, usage.average)


def scaled(ratio: float, pods: int) -> int:
    """ratio * pods, rounded up."""
    return float_to_int32(ceiling(ratio * float(pods)))


def dampened(current: int, ratio: float, assumed: float, pods: int, tolerances: Tolerances) -> int:
    """Replicas by the ratio under assumptions, unless these would turn the direction of the change."""
    if tolerances.is_within(assumed) or (ratio < 1.0 < assumed) or (assumed < 1.0 < ratio):
        return current
    replicas = scaled(assumed, pods)
    if (assumed < 1.0 and replicas > current) or (assumed > 1.0 and replicas < current):
        return current
    return replicas


# ---- object and external metrics -----------------------------------------------------------------------------------


def value_replicas(
    current: int, usage: int, target: int, tolerances: Tolerances, pods: Callable[[], Sequence[ClusterPod]]
) -> int:
    """For a target of the whole metric (getUsageRatioReplicaCount). Raises CalculationError.

    From 0 replicas there is neither tolerance nor a number of ready pods to multiply with.
    """
    ratio = divide(float(usage), float(target))
    if current == 0:
        return float_to_int32(ceiling(ratio))
    if tolerances.is_within(ratio):
        return current
    found = pods()
    if not found:
        raise CalculationError(f"unable to calculate ready pods: {NO_PODS}")
    ready = sum(1 for pod in found if pod.status.phase == RUNNING and pod.is_ready)
    replicas = ratio * float(ready)
    return MAX_INT32 if replicas > MAX_INT32 else float_to_int32(ceiling(replicas))


def object_average_replicas(status_replicas: int, usage: int, target: int, tolerances: Tolerances) -> tuple[int, int]:
    """For a target per pod of an object metric: replicas and usage per existing pod."""
    replicas = status_replicas
    if not tolerances.is_within(divide(float(usage), float(target) * float(replicas))):
        replicas = float_to_int32(ceiling(divide(float(usage), float(target))))
    return replicas, float_to_int64(ceiling(divide(float(usage), float(status_replicas))))


def external_average_replicas(status_replicas: int, usage: int, target: int, tolerances: Tolerances) -> tuple[int, int]:
    """For a target per pod of an external metric: as for an object metric, but without overflows."""
    replicas = status_replicas
    if not tolerances.is_within(divide(float(usage), float(target) * float(replicas))):
        wanted = ceiling(divide(float(usage), float(target)))
        replicas = MAX_INT32 if wanted > MAX_INT32 else float_to_int32(wanted)
    if float(usage) >= float(MAX_INT64):
        return replicas, MAX_INT64
    return replicas, float_to_int64(ceiling(divide(float(usage), float(status_replicas))))


def total_of_series(values: Sequence[int]) -> int:
    """The sum of the series of an external metric, at most the largest int64 (Value targets)."""
    total = 0
    for value in values:
        if value > 0 and total > MAX_INT64 - value:
            return MAX_INT64
        total = wrap64(total + value)
    return total


def total_of_series_per_pod(values: Sequence[int]) -> int:
    """The same for AverageValue targets, where any negative sum is taken for an overflow."""
    total = 0
    for value in values:
        total = wrap64(total + value)
        if total < 0:
            return MAX_INT64
    return total
