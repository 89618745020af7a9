"""The HPA that KEDA generates."""

from __future__ import annotations

from typing import Any

from stowplan_autoscaling.hpa.objects import (
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricTarget,
    ResourceMetricSource,
)
from stowplan_autoscaling.keda import decode_scaled_object, hpa_of, triggers_of
from stowplan_scheduler.objects import LabelSelector

CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
MEMORY = {"type": "memory", "metricType": "AverageValue", "metadata": {"value": "1Gi", "containerName": "app"}}
PROMETHEUS = {"type": "prometheus", "metadata": {"query": "q", "threshold": "2.5"}}
REDIS = {"type": "redis", "metricType": "Value", "metadata": {"listName": "jobs", "listLength": "7"}}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 60}


def generated(annotations: dict[str, str] | None = None, **spec: Any) -> HorizontalPodAutoscaler:
    meta = {"name": "w", "namespace": "jobs", "labels": {"team": "a", "x": "y"}, "annotations": annotations or {}}
    given = {"scaleTargetRef": {"name": "worker"}, "triggers": [PROMETHEUS], **spec}
    scaled_object = decode_scaled_object({"metadata": meta, "spec": given})
    return hpa_of(scaled_object, triggers_of(scaled_object))


def test_bounds_target_and_name() -> None:
    """The minimum is 1 where KEDA goes to zero itself."""
    hpa = generated()
    assert hpa.key == "jobs/keda-hpa-w"
    assert (hpa.spec.min_replicas, hpa.spec.max_replicas, hpa.spec.behavior) == (1, 100, None)
    assert hpa.spec.scale_target_ref == CrossVersionObjectReference(
        kind="Deployment", name="worker", api_version="apps/v1"
    )
    assert hpa.metadata.owner_references[0].kind == "ScaledObject"
    assert generated(minReplicaCount=4, maxReplicaCount=9).spec.min_replicas == 4


def test_metrics_are_sorted_by_their_type() -> None:
    """ContainerResource, External, Resource; external ones lead back to the ScaledObject by a label."""
    metrics = generated(triggers=[CPU, PROMETHEUS, REDIS, MEMORY]).spec.metrics
    assert [metric.type for metric in metrics] == ["ContainerResource", "External", "External", "Resource"]
    back = LabelSelector(match_labels={"scaledobject.keda.sh/name": "w"})
    assert metrics[0].container_resource == ContainerResourceMetricSource(
        name="memory", container="app", target=MetricTarget(type="AverageValue", average_value="1Gi")
    )
    assert metrics[1].external == ExternalMetricSource(
        metric=MetricIdentifier(name="s1-prometheus", selector=back),
        target=MetricTarget(type="AverageValue", average_value="2500m"),
    )
    assert metrics[2].external == ExternalMetricSource(
        metric=MetricIdentifier(name="s2-redis-jobs", selector=back), target=MetricTarget(type="Value", value="7")
    )
    assert metrics[3].resource == ResourceMetricSource(
        name="cpu", target=MetricTarget(type="Utilization", average_utilization=60)
    )


def test_labels_are_handed_on_except_those_that_are_excluded() -> None:
    """scaledobject.keda.sh/hpa-excluded-labels is a list with commas."""
    labels = generated({"scaledobject.keda.sh/hpa-excluded-labels": "x,z"}).metadata.labels
    assert labels["team"] == "a"
    assert labels["app.kubernetes.io/part-of"] == "w"
    assert labels["scaledobject.keda.sh/name"] == "w"
    assert "x" not in labels


def test_a_paused_direction_is_disabled_in_the_behavior() -> None:
    """The other rules of that direction stay."""
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"policies": [POLICY]}}}}
    hpa = generated({"autoscaling.keda.sh/paused-scale-in": "true"}, advanced=advanced)
    policy = HPAScalingPolicy(type="Pods", value=1, period_seconds=60)
    assert hpa.spec.behavior == HorizontalPodAutoscalerBehavior(
        scale_down=HPAScalingRules(policies=(policy,), select_policy="Disabled")
    )
    out = generated({"autoscaling.keda.sh/paused-scale-out": ""}).spec.behavior
    assert out == HorizontalPodAutoscalerBehavior(scale_up=HPAScalingRules(select_policy="Disabled"))
