"""The other kinds that scheduling rules read: namespaces, priority classes, services, owners, disruption budgets.

Types follow staging/src/k8s.io/api (core/v1, apps/v1, batch/v1, policy/v1, scheduling/v1) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from .meta import ApiStruct, LabelSelector, ObjectMeta
from .pod import PodTemplateSpec

IntOrString = int | str


class Namespace(ApiStruct, frozen=True, kw_only=True):
    """A namespace: its labels decide about namespace selectors."""

    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(ApiStruct, frozen=True, kw_only=True):
    """A named priority; at most one should be the global default."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a service."""

    selector: dict[str, str] = {}


class Service(ApiStruct, frozen=True, kw_only=True):
    """A service: its selector feeds the default spread constraints."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a replication controller; the selector is a plain label map."""

    replicas: int | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationController(ApiStruct, frozen=True, kw_only=True):
    """A replication controller."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a ReplicaSet, Deployment, StatefulSet or DaemonSet, as far as all of them agree."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(ApiStruct, frozen=True, kw_only=True):
    """A replica set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class Deployment(ApiStruct, frozen=True, kw_only=True):
    """A deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSetSpec(WorkloadSpec, frozen=True, kw_only=True):
    """spec of a stateful set; the claim templates make volumes."""

    volume_claim_templates: tuple[Namespace, ...] = ()


class StatefulSet(ApiStruct, frozen=True, kw_only=True):
    """A stateful set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSet(ApiStruct, frozen=True, kw_only=True):
    """A daemon set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class JobSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a job."""

    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    suspend: bool | None = None
    completion_mode: str | None = None


class Job(ApiStruct, frozen=True, kw_only=True):
    """A job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a disruption budget."""

    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a disruption budget; `disrupted_pods` maps pod names to the time of their eviction."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(ApiStruct, frozen=True, kw_only=True):
    """A disruption budget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class DeviceClassSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a device class: the extended resource that its devices may serve."""

    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    """A device class (dynamic resource allocation)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a resource slice: whose devices they are. The devices themselves are not read."""

    driver: str = ""
    node_name: str | None = None


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    """A resource slice (dynamic resource allocation): it matters that there is one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()
