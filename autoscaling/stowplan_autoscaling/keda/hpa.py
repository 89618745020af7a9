"""The HPA that KEDA generates from a ScaledObject.

Its minimum is 1 where KEDA itself goes to zero; external metrics carry the label that leads KEDA's metrics server back
to the ScaledObject.

Follows controllers/keda/hpa.go of KEDA 2.21.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from stowplan_autoscaling.hpa.objects import (
    AVERAGE_VALUE,
    CONTAINER_RESOURCE,
    DISABLED_POLICY,
    EXTERNAL,
    RESOURCE,
    UTILIZATION,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from stowplan_scheduler.objects import LabelSelector, ObjectMeta, OwnerReference

from .objects import EXCLUDED_LABELS, NAME_LABEL, PAUSE_SCALE_IN, PAUSE_SCALE_OUT, ScaledObject
from .triggers import ResourceTrigger, Trigger, milli

VERSION: Final = "2.21.0"


def hpa_of(scaled_object: ScaledObject, triggers: Sequence[Trigger]) -> HorizontalPodAutoscaler:
    """The HPA for a ScaledObject that is not paused."""
    reference = scaled_object.spec.scale_target_ref
    metrics = sorted((_metric(scaled_object, trigger) for trigger in triggers), key=lambda metric: metric.type)
    return HorizontalPodAutoscaler(
        metadata=_metadata(scaled_object),
        spec=HorizontalPodAutoscalerSpec(
            scale_target_ref=CrossVersionObjectReference(
                kind=reference.kind, name=reference.name, api_version=reference.api_version
            ),
            min_replicas=scaled_object.hpa_min_replicas,
            max_replicas=scaled_object.max_replicas,
            metrics=tuple(metrics),
            behavior=_behavior(scaled_object),
        ),
    )


def _metadata(scaled_object: ScaledObject) -> ObjectMeta:
    meta = scaled_object.metadata
    excluded = meta.annotations.get(EXCLUDED_LABELS, "").split(",")
    labels = {
        "app.kubernetes.io/name": scaled_object.hpa_name,
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/part-of": meta.name,
        "app.kubernetes.io/managed-by": "keda-operator",
    }
    own = {**meta.labels, NAME_LABEL: meta.name}
    owner = OwnerReference(
        api_version="keda.sh/v1alpha1", kind="ScaledObject", name=meta.name, uid=meta.uid, controller=True
    )
    return ObjectMeta(
        name=scaled_object.hpa_name,
        namespace=meta.namespace,
        labels=labels | {key: text for key, text in own.items() if key not in excluded},
        annotations=meta.annotations,
        owner_references=(owner,),
    )


def _metric(scaled_object: ScaledObject, trigger: Trigger) -> MetricSpec:
    if isinstance(trigger, ResourceTrigger):
        return _resource_metric(trigger)
    amount = _amount(milli(trigger.target))
    by_replica = trigger.metric_type == AVERAGE_VALUE
    return MetricSpec(
        type=EXTERNAL,
        external=ExternalMetricSource(
            metric=MetricIdentifier(
                name=trigger.metric, selector=LabelSelector(match_labels={NAME_LABEL: scaled_object.metadata.name})
            ),
            target=MetricTarget(
                type=trigger.metric_type,
                average_value=amount if by_replica else None,
                value=None if by_replica else amount,
            ),
        ),
    )


def _resource_metric(trigger: ResourceTrigger) -> MetricSpec:
    percent = trigger.metric_type == UTILIZATION
    target = MetricTarget(
        type=trigger.metric_type,
        average_utilization=int(trigger.value) if percent else None,
        average_value=None if percent else trigger.value,
    )
    if trigger.container:
        source = ContainerResourceMetricSource(name=trigger.resource, target=target, container=trigger.container)
        return MetricSpec(type=CONTAINER_RESOURCE, container_resource=source)
    return MetricSpec(type=RESOURCE, resource=ResourceMetricSource(name=trigger.resource, target=target))


def _amount(amount: int) -> str:
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def _behavior(scaled_object: ScaledObject) -> HorizontalPodAutoscalerBehavior | None:
    config = scaled_object.spec.advanced and scaled_object.spec.advanced.horizontal_pod_autoscaler_config
    behavior = config.behavior if config else None
    if scaled_object.flag(PAUSE_SCALE_IN):
        behavior = behavior or HorizontalPodAutoscalerBehavior()
        behavior = replace(behavior, scale_down=_disabled(behavior.scale_down))
    if scaled_object.flag(PAUSE_SCALE_OUT):
        behavior = behavior or HorizontalPodAutoscalerBehavior()
        behavior = replace(behavior, scale_up=_disabled(behavior.scale_up))
    return behavior


def _disabled(rules: HPAScalingRules | None) -> HPAScalingRules:
    return replace(rules or HPAScalingRules(), select_policy=DISABLED_POLICY)
