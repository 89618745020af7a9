"""DaemonSet (apps/v1, staging/src/k8s.io/api/apps/v1/types.go of Kubernetes v1.37.2)."""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.objects import DaemonSet as SchedulerDaemonSet
from stowplan_scheduler.objects import ObjectMeta
from stowplan_scheduler.objects.cluster import IntOrString, WorkloadSpec
from stowplan_scheduler.objects.meta import ApiStruct

from .apps import ROLLING_UPDATE, Condition

ON_DELETE: Final = "OnDelete"


class RollingUpdateDaemonSet(ApiStruct, frozen=True, kw_only=True):
    """spec.updateStrategy.rollingUpdate; the defaults are the API server's."""

    max_unavailable: IntOrString = 1
    max_surge: IntOrString = 0


class DaemonSetUpdateStrategy(ApiStruct, frozen=True, kw_only=True):
    """spec.updateStrategy."""

    type: str = ROLLING_UPDATE
    rolling_update: RollingUpdateDaemonSet = RollingUpdateDaemonSet()


class DaemonSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    """spec of a daemon set; `replicas` is not used."""

    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a daemon set; the numbers are nodes."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int = 0
    conditions: tuple[Condition, ...] = ()


class DaemonSet(SchedulerDaemonSet, frozen=True, kw_only=True):
    """A daemon set. `created`: nanoseconds since 1970."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()
    version: int = 0
    created: int = 0
