"""Deployment and ReplicaSet (apps/v1, staging/src/k8s.io/api/apps/v1/types.go of Kubernetes v1.37.2)."""

from __future__ import annotations

from stowplan_scheduler.objects import ObjectMeta, PodTemplateSpec
from stowplan_scheduler.objects import ReplicaSet as SchedulerReplicaSet
from stowplan_scheduler.objects.cluster import IntOrString, WorkloadSpec
from stowplan_scheduler.objects.meta import ApiStruct, LabelSelector

ROLLING_UPDATE = "RollingUpdate"
RECREATE = "Recreate"


class Condition(ApiStruct, frozen=True, kw_only=True):
    """A status condition of a workload; times in nanoseconds."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: int = 0
    last_transition_time: int = 0


class RollingUpdateDeployment(ApiStruct, frozen=True, kw_only=True):
    """spec.strategy.rollingUpdate; the defaults are the API server's."""

    max_surge: IntOrString = "25%"
    max_unavailable: IntOrString = "25%"


class DeploymentStrategy(ApiStruct, frozen=True, kw_only=True):
    """spec.strategy."""

    type: str = ROLLING_UPDATE
    rolling_update: RollingUpdateDeployment = RollingUpdateDeployment()


class DeploymentSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a deployment; the defaults are the API server's."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = 10
    paused: bool = False
    progress_deadline_seconds: int | None = 600


class DeploymentStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(ApiStruct, frozen=True, kw_only=True):
    """A deployment. `created`: nanoseconds since 1970."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()
    version: int = 0
    created: int = 0


class ReplicaSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    """spec of a replica set; `replicas` is always set."""

    replicas: int = 1
    min_ready_seconds: int = 0


class ReplicaSetStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a replica set."""

    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(SchedulerReplicaSet, frozen=True, kw_only=True):
    """A replica set. `created`: nanoseconds since 1970."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
    version: int = 0
    created: int = 0
