"""One metric of a spec: its samples, its proposal, its status.

Follows computeStatusFor*Metric in pkg/controller/podautoscaler/horizontal.go of Kubernetes v1.37.2, with the errors of
the calculator's Get*Replicas wrapped as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_scheduler.selectors import LabelQuery

from .metrics import MetricsClient, MetricsError
from .objects import (
    CONTAINER_RESOURCE,
    EXTERNAL,
    OBJECT,
    PODS,
    RESOURCE,
    ContainerResourceMetricStatus,
    ExternalMetricStatus,
    MetricStatus,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
    ResourceMetricStatus,
    Scale,
)
from .plan import MetricPlan
from .replica_calculator import (
    CalculationError,
    ReplicaCalculator,
    external_average_replicas,
    object_average_replicas,
    total_of_series,
    total_of_series_per_pod,
    value_replicas,
)
from .selector_text import label_selector_text
from .tolerance import Tolerances

PodLister = Callable[[str, LabelQuery], Sequence[ClusterPod]]
"""Pods of a namespace that a query matches."""


class MetricFailedError(Exception):
    """A metric could not be computed; the text is what the event and the condition say."""


class Question(NamedTuple):
    """What all metrics of one sync are computed from."""

    namespace: str
    scale: Scale
    selector: LabelQuery
    tolerances: Tolerances
    pods: PodLister
    metrics: MetricsClient
    now: int

    def selected(self) -> Sequence[ClusterPod]:
        """The pods of the workload."""
        return self.pods(self.namespace, self.selector)


def propose(plan: MetricPlan, question: Question, calculator: ReplicaCalculator) -> tuple[int, MetricStatus]:
    """Replicas that the metric asks for, and its status. Raises MetricFailedError."""
    if plan.problem:
        raise MetricFailedError(plan.problem)
    if plan.kind in {RESOURCE, CONTAINER_RESOURCE}:
        return _resource(plan, question, calculator)
    if plan.kind == PODS:
        return _pods(plan, question, calculator)
    if plan.kind == OBJECT:
        return _object(plan, question)
    return _external(plan, question)


def _resource(plan: MetricPlan, question: Question, calculator: ReplicaCalculator) -> tuple[int, MetricStatus]:
    scale, resource, average = question.scale, plan.resource, plan.average
    what = "usage" if average is not None else "utilization"
    try:
        samples, _ = question.metrics.resource(
            resource, question.namespace, question.selector, plan.container or None, question.now
        )
        pods = question.selected()
        if average is not None:
            found = calculator.average_replicas(
                scale.spec_replicas, average, resource, question.tolerances, samples, pods, question.now
            )
        else:
            found = calculator.utilization_replicas(
                scale.spec_replicas,
                plan.utilization or 0,
                resource,
                plan.container,
                question.tolerances,
                samples,
                pods,
                question.now,
            )
    except MetricsError as error:
        text = f"failed to get {resource} {what}: unable to get metrics for resource {resource}: {error}"
        raise MetricFailedError(text) from error
    except CalculationError as error:
        raise MetricFailedError(f"failed to get {resource} {what}: {error}") from error
    return found.replicas, resource_status(plan, found.utilization, found.average)


def resource_status(plan: MetricPlan, utilization: int, average: int) -> MetricStatus:
    """The status of a metric of a resource."""
    percent = utilization if plan.average is None else None
    current = MetricValueStatus(average_utilization=percent, average_value=average)
    if plan.kind == CONTAINER_RESOURCE:
        status = ContainerResourceMetricStatus(name=plan.resource, container=plan.container, current=current)
        return MetricStatus(type=CONTAINER_RESOURCE, container_resource=status)
    return MetricStatus(type=RESOURCE, resource=ResourceMetricStatus(name=plan.resource, current=current))


def _pods(plan: MetricPlan, question: Question, calculator: ReplicaCalculator) -> tuple[int, MetricStatus]:
    metric = plan.metric
    try:
        samples, _ = question.metrics.pods(
            metric.name, question.namespace, question.selector, metric.selector, question.now
        )
        found = calculator.average_replicas(
            question.scale.spec_replicas,
            plan.average or 0,
            "",
            question.tolerances,
            samples,
            question.selected(),
            question.now,
        )
    except MetricsError as error:
        raise MetricFailedError(f"unable to get metric {metric.name}: {error}") from error
    except CalculationError as error:
        raise MetricFailedError(str(error)) from error
    current = MetricValueStatus(average_value=found.average)
    return found.replicas, MetricStatus(type=PODS, pods=PodsMetricStatus(metric=metric, current=current))


def _object(plan: MetricPlan, question: Question) -> tuple[int, MetricStatus]:
    metric, ref, scale = plan.metric, plan.described_object, question.scale
    prefix = "" if plan.value is not None else f"failed to get {metric.name} object metric: "
    try:
        usage, _ = question.metrics.object(metric.name, question.namespace, ref, metric.selector, question.now)
    except MetricsError as error:
        where = f"{ref.kind} {question.namespace}/{ref.name}"
        raise MetricFailedError(f"{prefix}unable to get metric {metric.name} on {where}: {error}") from error
    if plan.value is not None:
        try:
            replicas = value_replicas(scale.spec_replicas, usage, plan.value, question.tolerances, question.selected)
        except CalculationError as error:
            raise MetricFailedError(str(error)) from error
        current = MetricValueStatus(value=usage)
    else:
        replicas, average = object_average_replicas(
            scale.status_replicas, usage, plan.average or 0, question.tolerances
        )
        current = MetricValueStatus(average_value=average)
    status = ObjectMetricStatus(metric=metric, current=current, described_object=ref)
    return replicas, MetricStatus(type=OBJECT, object=status)


def _external(plan: MetricPlan, question: Question) -> tuple[int, MetricStatus]:
    metric, scale = plan.metric, question.scale
    per_pod = plan.average is not None
    prefix = (
        f"failed to get {metric.name} external metric" if per_pod else f"failed to get external metric {metric.name}"
    )
    try:
        series, _ = question.metrics.external(metric.name, question.namespace, metric.selector, question.now)
    except MetricsError as error:
        which = f"{question.namespace}/{metric.name}/{label_selector_text(metric.selector)}"
        raise MetricFailedError(f"{prefix}: unable to get external metric {which}: {error}") from error
    if per_pod:
        usage = total_of_series_per_pod(series)
        replicas, average = external_average_replicas(
            scale.status_replicas, usage, plan.average or 0, question.tolerances
        )
        current = MetricValueStatus(average_value=average)
    else:
        usage = total_of_series(series)
        try:
            replicas = value_replicas(
                scale.spec_replicas, usage, plan.value or 0, question.tolerances, question.selected
            )
        except CalculationError as error:
            raise MetricFailedError(f"{prefix}: {error}") from error
        current = MetricValueStatus(value=usage)
    return replicas, MetricStatus(type=EXTERNAL, external=ExternalMetricStatus(metric=metric, current=current))
