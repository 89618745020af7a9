"""ScaledObject (keda.sh/v1alpha1) and what KEDA writes into its status.

Spec and metadata are as in the manifest; None is "not set", for which the properties below give the default. A field
that the spec does not have is refused. Times of the status are nanoseconds, cut to whole seconds as on the wire.

Types follow apis/keda/v1alpha1 of KEDA 2.21 (scaledobject_types.go, scaletriggers_types.go, condition_types.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscalerBehavior
from stowplan_scheduler.objects import ApiStruct, ObjectMeta

DEFAULT_POLLING_INTERVAL: Final = 30
DEFAULT_COOLDOWN_PERIOD: Final = 300
DEFAULT_MAX_REPLICAS: Final = 100

STATIC: Final = "static"
CURRENT: Final = "currentReplicas"
CURRENT_IF_HIGHER: Final = "currentReplicasIfHigher"
CURRENT_IF_LOWER: Final = "currentReplicasIfLower"

READY: Final = "Ready"
ACTIVE: Final = "Active"
FALLBACK: Final = "Fallback"
PAUSED: Final = "Paused"

NAME_LABEL: Final = "scaledobject.keda.sh/name"
EXCLUDED_LABELS: Final = "scaledobject.keda.sh/hpa-excluded-labels"
PAUSE: Final = "autoscaling.keda.sh/paused"
PAUSE_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"
PAUSE_SCALE_IN: Final = "autoscaling.keda.sh/paused-scale-in"
PAUSE_SCALE_OUT: Final = "autoscaling.keda.sh/paused-scale-out"
FORCE_ACTIVATION: Final = "autoscaling.keda.sh/force-activation"


class ScaleTarget(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """spec.scaleTargetRef."""

    name: str = ""
    api_version: str = "apps/v1"
    kind: str = "Deployment"
    env_source_container_name: str = ""

    @property
    def text(self) -> str:
        """group/version.Kind, as events show it."""
        return f"{self.api_version if '/' in self.api_version else '/' + self.api_version}.{self.kind}"


class Fallback(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """spec.fallback: how many replicas while a trigger's source fails for longer."""

    failure_threshold: int
    replicas: int
    behavior: str = STATIC


class HorizontalPodAutoscalerConfig(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """spec.advanced.horizontalPodAutoscalerConfig."""

    behavior: HorizontalPodAutoscalerBehavior | None = None
    name: str = ""


class AdvancedConfig(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """spec.advanced; a formula of scaling modifiers is refused."""

    horizontal_pod_autoscaler_config: HorizontalPodAutoscalerConfig | None = None
    restore_to_original_replica_count: bool = False
    scaling_modifiers: dict[str, Any] = {}


class ScaleTrigger(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """spec.triggers[]."""

    type: str = ""
    name: str = ""
    metadata: dict[str, str] = {}
    metric_type: str = ""
    use_cached_metrics: bool = False
    authentication_ref: dict[str, str] = {}


class ScaledObjectSpec(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """spec; periods in seconds."""

    scale_target_ref: ScaleTarget = ScaleTarget()
    polling_interval: int | None = None
    initial_cooldown_period: int | None = None
    cooldown_period: int | None = None
    idle_replica_count: int | None = None
    min_replica_count: int | None = None
    max_replica_count: int | None = None
    advanced: AdvancedConfig | None = None
    triggers: tuple[ScaleTrigger, ...] = ()
    fallback: Fallback | None = None


class ScaledObject(ApiStruct, frozen=True, kw_only=True):
    """A ScaledObject."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaledObjectSpec = ScaledObjectSpec()

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def polling_interval(self) -> int:
        """Seconds between polls."""
        return _or(self.spec.polling_interval, DEFAULT_POLLING_INTERVAL)

    @property
    def cooldown_period(self) -> int:
        """Seconds without activity before the last step down."""
        return _or(self.spec.cooldown_period, DEFAULT_COOLDOWN_PERIOD)

    @property
    def initial_cooldown_period(self) -> int:
        """Seconds after creation before the last step down of an object that never was active."""
        return _or(self.spec.initial_cooldown_period, 0)

    @property
    def min_replicas(self) -> int:
        """The least replicas; 0: down to nothing."""
        return _or(self.spec.min_replica_count, 0)

    @property
    def max_replicas(self) -> int:
        """The most replicas, of the generated HPA."""
        return _or(self.spec.max_replica_count, DEFAULT_MAX_REPLICAS)

    @property
    def hpa_min_replicas(self) -> int:
        """The least replicas of the generated HPA: 1 where KEDA goes to zero itself."""
        return max(self.min_replicas, 1)

    @property
    def hpa_name(self) -> str:
        """The name of the generated HPA."""
        config = self.spec.advanced and self.spec.advanced.horizontal_pod_autoscaler_config
        return (config and config.name) or f"keda-hpa-{self.metadata.name}"

    def flag(self, annotation: str) -> bool:
        """Whether an annotation is set and not false; what is no boolean counts as true."""
        value = self.metadata.annotations.get(annotation)
        return value is not None and value not in {"0", "f", "F", "false", "FALSE", "False"}

    @property
    def is_paused(self) -> bool:
        """Whether an annotation stops the scale loop."""
        return PAUSE_REPLICAS in self.metadata.annotations or self.flag(PAUSE)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


@dataclass(frozen=True, slots=True)
class Condition:
    """A status condition."""

    status: str = "Unknown"
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event about a ScaledObject."""

    type: str
    reason: str
    message: str


_INITIAL: Final[Mapping[str, Condition]] = {
    READY: Condition(),
    ACTIVE: Condition(),
    FALLBACK: Condition(),
    PAUSED: Condition("False"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObjectStatus:
    """What KEDA remembers of a ScaledObject. `failures`: failed reads in a row by metric, where there is a fallback."""

    created: int
    last_active: int | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=lambda: dict(_INITIAL))
    original_replicas: int | None = None
