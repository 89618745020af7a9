"""HorizontalPodAutoscaler of autoscaling/v2 and the scale of its target, as frozen objects.

Spec and metadata are as in the manifest. What the controller writes differs in two points, so that nobody parses a
text: times are nanoseconds since 1970-01-01T00:00:00Z, cut to whole seconds, and amounts in `MetricValueStatus` are
whole milli units.

Types follow staging/src/k8s.io/api/autoscaling/v2/types.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.objects import ApiStruct, LabelSelector, ObjectMeta
from stowplan_scheduler.objects.pod import Quantity

RESOURCE: Final = "Resource"
CONTAINER_RESOURCE: Final = "ContainerResource"
PODS: Final = "Pods"
OBJECT: Final = "Object"
EXTERNAL: Final = "External"

UTILIZATION: Final = "Utilization"
VALUE: Final = "Value"
AVERAGE_VALUE: Final = "AverageValue"

MAX_POLICY: Final = "Max"
MIN_POLICY: Final = "Min"
DISABLED_POLICY: Final = "Disabled"

PODS_POLICY: Final = "Pods"
PERCENT_POLICY: Final = "Percent"

SCALING_ACTIVE: Final = "ScalingActive"
ABLE_TO_SCALE: Final = "AbleToScale"
SCALING_LIMITED: Final = "ScalingLimited"
SCALED_TO_ZERO: Final = "ScaledToZero"


class CrossVersionObjectReference(ApiStruct, frozen=True, kw_only=True):
    """Names an object of any kind in the namespace of the autoscaler."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetricIdentifier(ApiStruct, frozen=True, kw_only=True):
    """A metric of an object, of pods or from outside, perhaps narrowed down by labels."""

    name: str = ""
    selector: LabelSelector | None = None


class MetricTarget(ApiStruct, frozen=True, kw_only=True):
    """What a metric is to be; average_utilization is a percentage of the request."""

    type: str = ""
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None


class ObjectMetricSource(ApiStruct, frozen=True, kw_only=True):
    """A metric of one object, such as the requests per second of an Ingress."""

    described_object: CrossVersionObjectReference = CrossVersionObjectReference()
    target: MetricTarget = MetricTarget()
    metric: MetricIdentifier = MetricIdentifier()


class PodsMetricSource(ApiStruct, frozen=True, kw_only=True):
    """A custom metric of every pod, averaged."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class ResourceMetricSource(ApiStruct, frozen=True, kw_only=True):
    """What the pods use of a resource that they request."""

    name: str = ""
    target: MetricTarget = MetricTarget()


class ContainerResourceMetricSource(ApiStruct, frozen=True, kw_only=True):
    """What one container of every pod uses of a resource."""

    name: str = ""
    target: MetricTarget = MetricTarget()
    container: str = ""


class ExternalMetricSource(ApiStruct, frozen=True, kw_only=True):
    """A metric of something outside of the cluster, such as the length of a queue."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class MetricSpec(ApiStruct, frozen=True, kw_only=True):
    """One metric; `type` names the source that is set."""

    type: str = ""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(ApiStruct, frozen=True, kw_only=True):
    """How much may change within `period_seconds`: `value` pods, or percent of the replicas at its beginning."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class HPAScalingRules(ApiStruct, frozen=True, kw_only=True):
    """Rules of one direction. None: not set, which differs from an empty list of policies."""

    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[HPAScalingPolicy, ...] | None = None
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(ApiStruct, frozen=True, kw_only=True):
    """spec.behavior."""

    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(ApiStruct, frozen=True, kw_only=True):
    """spec."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: HorizontalPodAutoscalerBehavior | None = None


class HorizontalPodAutoscalerCondition(ApiStruct, frozen=True, kw_only=True):
    """status.conditions[]."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: int = 0


class MetricValueStatus(ApiStruct, frozen=True, kw_only=True):
    """The measured amounts in milli units, the utilisation in percent."""

    value: int | None = None
    average_value: int | None = None
    average_utilization: int | None = None


class ObjectMetricStatus(ApiStruct, frozen=True, kw_only=True):
    """status.currentMetrics[].object."""

    metric: MetricIdentifier
    current: MetricValueStatus
    described_object: CrossVersionObjectReference


class PodsMetricStatus(ApiStruct, frozen=True, kw_only=True):
    """status.currentMetrics[].pods."""

    metric: MetricIdentifier
    current: MetricValueStatus


class ResourceMetricStatus(ApiStruct, frozen=True, kw_only=True):
    """status.currentMetrics[].resource."""

    name: str
    current: MetricValueStatus


class ContainerResourceMetricStatus(ApiStruct, frozen=True, kw_only=True):
    """status.currentMetrics[].containerResource."""

    name: str
    current: MetricValueStatus
    container: str


class ExternalMetricStatus(ApiStruct, frozen=True, kw_only=True):
    """status.currentMetrics[].external."""

    metric: MetricIdentifier
    current: MetricValueStatus


class MetricStatus(ApiStruct, frozen=True, kw_only=True):
    """status.currentMetrics[], in the order of spec.metrics; empty for a metric that could not be computed."""

    type: str = ""
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerStatus(ApiStruct, frozen=True, kw_only=True):
    """status."""

    observed_generation: int | None = None
    last_scale_time: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: tuple[MetricStatus, ...] = ()
    conditions: tuple[HorizontalPodAutoscalerCondition, ...] = ()


class HorizontalPodAutoscaler(ApiStruct, frozen=True, kw_only=True):
    """An autoscaler. `key` is "namespace/name"."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class Scale(ApiStruct, frozen=True, kw_only=True):
    """The scale of a workload: wanted replicas, existing replicas, and the selector of its pods as a text."""

    spec_replicas: int = 0
    status_replicas: int = 0
    selector: str = ""


class ScaleError(Exception):
    """The scale could not be read; the text is the API server's."""

    def __init__(self, text: str, *, unknown_kind: bool = False) -> None:
        """`unknown_kind`: the cluster has no such kind of target."""
        super().__init__(text)
        self.unknown_kind = unknown_kind
