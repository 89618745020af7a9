"""A spec, compiled: targets in milli units, windows in nanoseconds, texts that depend on the spec alone.

The controller compiles a spec once and again when it changes. Texts follow computeStatusFor*Metric in
pkg/controller/podautoscaler/horizontal.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.objects.pod import Quantity
from stowplan_scheduler.quantity import milli_value, parse_quantity
from stowplan_scheduler.selectors import LabelQuery, SelectorError

from .objects import (
    AVERAGE_VALUE,
    CONTAINER_RESOURCE,
    EXTERNAL,
    OBJECT,
    PODS,
    RESOURCE,
    VALUE,
    CrossVersionObjectReference,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
)
from .rate_limits import RatePolicies
from .selector_text import label_selector_text
from .tolerance import Tolerances, tolerances_of

FAILED_REASONS: Final = {
    RESOURCE: "FailedGetResourceMetric",
    CONTAINER_RESOURCE: "FailedGetContainerResourceMetric",
    PODS: "FailedGetPodsMetric",
    OBJECT: "FailedGetObjectMetric",
    EXTERNAL: "FailedGetExternalMetric",
}


_NO_METRIC: Final = MetricIdentifier()
_NO_OBJECT: Final = CrossVersionObjectReference()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPlan:
    """One metric of a spec. Of the three targets at most one is set, amounts in milli units, utilisation in percent.

    `name`: how reasons name the metric. `described`: how the error of a failed metric begins. `problem`: what is wrong
    with the spec itself, "" if nothing.
    """

    kind: str
    resource: str = ""
    container: str = ""
    metric: MetricIdentifier = _NO_METRIC
    described_object: CrossVersionObjectReference = _NO_OBJECT
    utilization: int | None = None
    average: int | None = None
    value: int | None = None
    name: str
    described: str
    problem: str = ""

    @property
    def failed_reason(self) -> str:
        """The reason of the condition and the event if the metric fails."""
        return FAILED_REASONS[self.kind]


class HPAPlan:
    """What the controller needs of a spec. `up` and `down` are None without `behavior`."""

    __slots__ = ("down", "from_outside", "least", "metrics", "most", "reference", "spec", "tolerances", "up")

    def __init__(self, spec: HorizontalPodAutoscalerSpec, namespace: str, tolerance: float) -> None:
        """`tolerance`: the controller's flag."""
        self.spec = spec
        self.least = 1 if spec.min_replicas is None else spec.min_replicas
        self.most = spec.max_replicas
        self.metrics = tuple(_metric_plan(metric) for metric in spec.metrics)
        self.tolerances: Tolerances = tolerances_of(spec.behavior, tolerance)
        self.from_outside = any(metric.type in {OBJECT, EXTERNAL} for metric in spec.metrics)
        self.reference = f"{spec.scale_target_ref.kind}/{namespace}/{spec.scale_target_ref.name}"
        self.up: RatePolicies | None = None
        self.down: RatePolicies | None = None
        behavior = spec.behavior
        if behavior is not None and behavior.scale_up is not None and behavior.scale_down is not None:
            self.up, self.down = RatePolicies(behavior.scale_up), RatePolicies(behavior.scale_down)


def _milli(amount: Quantity | None) -> int | None:
    return None if amount is None else milli_value(parse_quantity(amount))


def _metric_plan(spec: MetricSpec) -> MetricPlan:
    if spec.resource is not None and spec.type == RESOURCE:
        return _resource_plan(RESOURCE, spec.resource.name, "", spec.resource.target)
    if spec.container_resource is not None and spec.type == CONTAINER_RESOURCE:
        source = spec.container_resource
        return _resource_plan(CONTAINER_RESOURCE, source.name, source.container, source.target)
    if spec.pods is not None and spec.type == PODS:
        metric = spec.pods.metric
        return MetricPlan(
            kind=PODS,
            metric=metric,
            average=_milli(spec.pods.target.average_value),
            name=f"pods metric {metric.name}",
            described="failed to get pods metric value",
            problem=_selector_problem(metric.selector),
        )
    if spec.object is not None and spec.type == OBJECT:
        return _object_plan(spec)
    if spec.external is not None and spec.type == EXTERNAL:
        return _external_plan(spec.external.metric, spec.external.target)
    raise ValueError(f"metric of the type {spec.type!r} without its source: validation refuses such a spec")


def _resource_plan(kind: str, resource: str, container: str, target: MetricTarget) -> MetricPlan:
    average = _milli(target.average_value)
    of_container = "container " if kind == CONTAINER_RESOURCE else ""
    name = f"{resource} {of_container}resource utilization (percentage of request)"
    return MetricPlan(
        kind=kind,
        resource=resource,
        container=container,
        average=average,
        utilization=target.average_utilization if average is None else None,
        name=name if average is None else f"{resource} resource",
        described=f"failed to get {container or resource} {'container' if container else 'resource'} metric value",
    )


def _object_plan(spec: MetricSpec) -> MetricPlan:
    source = spec.object
    if source is None:
        raise ValueError("an Object metric without its source")
    target, metric = source.target, source.metric
    of_value = target.type == VALUE and target.value is not None
    of_average = target.type == AVERAGE_VALUE and target.average_value is not None
    problem = _selector_problem(metric.selector)
    if not problem and not of_value and not of_average:
        problem = "invalid object metric source: neither a value target nor an average value target was set"
    kind, text = source.described_object.kind, label_selector_text(metric.selector)
    return MetricPlan(
        kind=OBJECT,
        metric=metric,
        described_object=source.described_object,
        value=_milli(target.value) if of_value else None,
        average=_milli(target.average_value) if of_average else None,
        name=f"{kind} metric {metric.name}" if of_value else f"external metric {metric.name}({text})",
        described="failed to get object metric value",
        problem=problem,
    )


def _external_plan(metric: MetricIdentifier, target: MetricTarget) -> MetricPlan:
    average = _milli(target.average_value)
    problem = _selector_problem(metric.selector)
    if problem:
        inner = f"{metric.name} external metric" if average is not None else f"external metric {metric.name}"
        problem = f"failed to get {inner}: {problem}"
    return MetricPlan(
        kind=EXTERNAL,
        metric=metric,
        average=average,
        value=_milli(target.value) if average is None else None,
        name=f"external metric {metric.name}({label_selector_text(metric.selector)})",
        described=f"failed to get {metric.name} external metric value",
        problem=problem,
    )


def _selector_problem(selector: LabelSelector | None) -> str:
    try:
        LabelQuery.of(selector)
    except SelectorError as error:
        return str(error)
    return ""
