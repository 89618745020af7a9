"""Pod and its parts, as far as scheduling and autoscaling read them (core/v1).

Types follow staging/src/k8s.io/api/core/v1/types.go of Kubernetes v1.37.2. Names that differ from one pod of a template
to the next and that nothing here reads (volume mount names, generated token volumes) are left out on purpose:
pods of one template then have equal specs and share what is computed for them.
"""

from __future__ import annotations

from .meta import ABSENT_LIST, ApiStruct, LabelSelector, ObjectMeta

Quantity = str | int | float
"""A quantity as it stands in JSON: a text such as "500m", or a bare number."""

ResourceMap = dict[str, Quantity]


class ResourceRequirements(ApiStruct, frozen=True, kw_only=True):
    """requests and limits of a container, a pod, or a status entry. None: the map is absent."""

    requests: ResourceMap | None = None
    limits: ResourceMap | None = None


class ContainerPort(
    ApiStruct,
    frozen=True,
    kw_only=True,
    rename={"host_ip": "hostIP", "host_port": "hostPort", "container_port": "containerPort"},
):
    """One port; only those with `host_port` > 0 matter to scheduling."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    protocol: str = ""


class VolumeMount(ApiStruct, frozen=True, kw_only=True):
    """Only the bind mount options, which a node must declare support for."""

    bind_mount_options: tuple[str, ...] = ()


class RestartRule(ApiStruct, frozen=True, kw_only=True):
    """containers[].restartPolicyRules[]: the action is what scheduling looks at."""

    action: str = ""


class Container(ApiStruct, frozen=True, kw_only=True):
    """A container or init container; an init container with restartPolicy Always is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class NodeSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One expression on node labels or fields: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ABSENT_LIST


class NodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Expressions that must all hold."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True, kw_only=True):
    """A node selector term with a weight of 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """spec.affinity.nodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """Which pods (selector, namespaces) and over which domain (topology key)."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A pod affinity term with a weight of 1 to 100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True, kw_only=True):
    """spec.affinity.podAffinity and, with the same shape, podAntiAffinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True, kw_only=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiStruct, frozen=True, kw_only=True):
    """spec.tolerations[]; an empty operator means Equal, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True, kw_only=True):
    """spec.topologySpreadConstraints[]."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """spec.schedulingGates[]."""

    name: str = ""


class PersistentVolumeClaimVolumeSource(ApiStruct, frozen=True, kw_only=True):
    """A volume that names a claim."""

    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(ApiStruct, frozen=True, kw_only=True):
    """A volume made from an image."""

    reference: str = ""


class OpaqueSource(ApiStruct, frozen=True, kw_only=True):
    """A volume source of which only the presence is read."""


class Volume(ApiStruct, frozen=True, kw_only=True):
    """A volume that scheduling may look at. Sources that no scheduling rule reads (config maps, secrets, projected
    tokens, empty directories, host paths) decode to a volume with nothing set; see `schedulable_volumes`.
    """

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    image: ImageVolumeSource | None = None
    ephemeral: OpaqueSource | None = None
    gce_persistent_disk: OpaqueSource | None = None
    aws_elastic_block_store: OpaqueSource | None = None
    iscsi: OpaqueSource | None = None
    rbd: OpaqueSource | None = None
    csi: OpaqueSource | None = None
    azure_disk: OpaqueSource | None = None
    azure_file: OpaqueSource | None = None
    cinder: OpaqueSource | None = None
    vsphere_volume: OpaqueSource | None = None
    portworx_volume: OpaqueSource | None = None


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """spec.resourceClaims[]: a reference to devices (dynamic resource allocation)."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    overhead: ResourceMap | None = None
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    restart_policy: str = ""
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None
    service_account_name: str = ""
    runtime_class_name: str | None = None


class PodCondition(ApiStruct, frozen=True, kw_only=True):
    """status.conditions[]."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    """The resources that the kubelet allocated and actuated for a container (in-place resize)."""

    name: str = ""
    allocated_resources: ResourceMap | None = None
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """status.resourceClaimStatuses[]."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a pod."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: ResourceMap | None = None
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(ApiStruct, frozen=True, kw_only=True):
    """A pod. `key` is "namespace/name"."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def priority(self) -> int:
        """spec.priority, 0 where it is absent (component-helpers/scheduling/corev1/helpers.go, PodPriority)."""
        return self.spec.priority or 0

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has finished: phase Succeeded or Failed."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_terminating(self) -> bool:
        """Whether deletion of the pod has begun."""
        return self.metadata.deletion_timestamp is not None


class PodTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The pod that a workload object makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
