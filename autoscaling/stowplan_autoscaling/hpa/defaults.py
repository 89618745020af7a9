"""What the API server fills in where an autoscaler says nothing.

Follows pkg/apis/autoscaling/v2/defaults.go of Kubernetes v1.37.2. The window of scale-downs stays unset: it is a flag
of the controller.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from stowplan_scheduler.objects import DEFAULT_NAMESPACE

from .objects import (
    MAX_POLICY,
    PERCENT_POLICY,
    PODS_POLICY,
    RESOURCE,
    UTILIZATION,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)

DEFAULT_METRICS: Final = (
    MetricSpec(
        type=RESOURCE,
        resource=ResourceMetricSource(name="cpu", target=MetricTarget(type=UTILIZATION, average_utilization=80)),
    ),
)

DEFAULT_SCALE_UP: Final = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy=MAX_POLICY,
    policies=(
        HPAScalingPolicy(type=PODS_POLICY, value=4, period_seconds=15),
        HPAScalingPolicy(type=PERCENT_POLICY, value=100, period_seconds=15),
    ),
)

DEFAULT_SCALE_DOWN: Final = HPAScalingRules(
    select_policy=MAX_POLICY,
    policies=(HPAScalingPolicy(type=PERCENT_POLICY, value=100, period_seconds=15),),
)


_HPA = TypeVar("_HPA", bound=HorizontalPodAutoscaler)


def default_hpa(hpa: _HPA) -> _HPA:
    """The autoscaler with its defaults, in the namespace "default" if it names none."""
    metadata = hpa.metadata
    if not metadata.namespace:
        metadata = replace(metadata, namespace=DEFAULT_NAMESPACE)
    return replace(hpa, metadata=metadata, spec=default_spec(hpa.spec))


def default_spec(spec: HorizontalPodAutoscalerSpec) -> HorizontalPodAutoscalerSpec:
    """The spec with its defaults."""
    behavior = spec.behavior
    if behavior is not None:
        behavior = HorizontalPodAutoscalerBehavior(
            scale_up=_merged(behavior.scale_up, DEFAULT_SCALE_UP),
            scale_down=_merged(behavior.scale_down, DEFAULT_SCALE_DOWN),
        )
    return replace(
        spec,
        min_replicas=1 if spec.min_replicas is None else spec.min_replicas,
        metrics=spec.metrics or DEFAULT_METRICS,
        behavior=behavior,
    )


def _merged(rules: HPAScalingRules | None, default: HPAScalingRules) -> HPAScalingRules:
    """Field by field: a list of policies that is given replaces the default one as a whole."""
    if rules is None:
        return default
    window, select = rules.stabilization_window_seconds, rules.select_policy
    return HPAScalingRules(
        stabilization_window_seconds=default.stabilization_window_seconds if window is None else window,
        select_policy=default.select_policy if select is None else select,
        policies=default.policies if rules.policies is None else rules.policies,
        tolerance=rules.tolerance,
    )
