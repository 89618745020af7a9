"""Small clusters for tests of Cluster Autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupState, Instance, NodeGroup
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.options import HOUR, AutoscalingOptions, GroupOptions
from stowplan_autoscaling.supply.cluster_autoscaler.static_autoscaler import StaticAutoscaler
from stowplan_scheduler.objects import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
    ResourceRequirements,
    Taint,
    TopologySpreadConstraint,
)
from stowplan_scheduler.objects.pod import ResourceMap

T0 = 1_800_000_000 * SECOND
"""When autoscalers of tests start."""

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def make_node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    *,
    pods: str = "110",
    ready: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
) -> Node:
    amounts: ResourceMap = {"cpu": cpu, "memory": memory, "pods": pods}
    condition = NodeCondition(type="Ready", status="True" if ready else "False")
    return Node(
        metadata=ObjectMeta(name=name, labels={HOST: name, **(labels or {})}, annotations=dict(annotations or {})),
        spec=NodeSpec(taints=tuple(taints), unschedulable=unschedulable),
        status=NodeStatus(capacity=amounts, allocatable=amounts, conditions=(condition,)),
    )


def make_pod(
    name: str,
    cpu: str = "1",
    memory: str = "1Gi",
    *,
    app: str = "web",
    node: str = "",
    kind: str = "ReplicaSet",
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    priority: int | None = None,
    host_port: int = 0,
    spread: str = "",
    affinity: Affinity | None = None,
    selector: Mapping[str, str] | None = None,
    phase: str = "",
) -> Pod:
    owners: tuple[OwnerReference, ...] = ()
    if kind:
        version = "batch/v1" if kind == "Job" else "apps/v1"
        owners = (OwnerReference(api_version=version, kind=kind, name=app, uid=f"{kind}-{app}", controller=True),)
    requests: ResourceMap = {"cpu": cpu, "memory": memory}
    ports = (ContainerPort(host_port=host_port, container_port=host_port),) if host_port else ()
    constraints: tuple[TopologySpreadConstraint, ...] = ()
    if spread:
        query = LabelSelector(match_labels={"app": app})
        constraints = (
            TopologySpreadConstraint(
                max_skew=1, topology_key=spread, when_unsatisfiable="DoNotSchedule", label_selector=query
            ),
        )
    container = Container(name="c", resources=ResourceRequirements(requests=requests), ports=ports)
    pod = Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            labels={"app": app},
            annotations=dict(annotations or {}),
            owner_references=owners,
        ),
        spec=PodSpec(
            containers=(container,),
            node_name=node,
            node_selector=dict(selector or {}),
            priority=priority,
            affinity=affinity,
            topology_spread_constraints=constraints,
            restart_policy="Always",
        ),
    )
    return pod if not phase else _in_phase(pod, phase)


def _in_phase(pod: Pod, phase: str) -> Pod:
    from msgspec.structs import replace

    return replace(pod, status=replace(pod.status, phase=phase))


def make_budget(name: str, app: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def make_group(
    id: str = "ng",
    *,
    least: int = 0,
    most: int = 10,
    cpu: str = "4",
    memory: str = "16Gi",
    price: float | None = None,
    labels: Mapping[str, str] | None = None,
    options: GroupOptions | None = None,
) -> NodeGroup:
    template = make_node(f"{id}-template", cpu, memory, labels=labels)
    return NodeGroup(
        id=id,
        min_size=least,
        max_size=most,
        template=template,
        price=price,
        options=options or GroupOptions(),
    )


class Cluster:
    """An observation that is filled by hand, and an autoscaler on it."""

    def __init__(self, groups: Iterable[NodeGroup] = (), flags: Mapping[str, str] | None = None) -> None:
        self.observation = Observation()
        self.groups = list(groups) or [make_group()]
        self.options = AutoscalingOptions.from_flags(flags or {})
        self._number = 0
        self.nodes_of: dict[str, list[str]] = {group.id: [] for group in self.groups}
        for group in self.groups:
            self.set_target(group.id)
        self.autoscaler = StaticAutoscaler(self.options, self.groups, self.observation, now=T0)

    def set_target(self, group: str, target: int | None = None, extra: Iterable[Instance] = ()) -> None:
        """The group's target, by default as many as it has nodes; `extra`: instances without node."""
        names = self.nodes_of[group]
        instances = (*(Instance(name) for name in names), *extra)
        self.observation.set_group(group, GroupState(len(names) if target is None else target, instances))

    def add_node(self, node: Node, group: str = "ng", age: int = 2 * HOUR) -> None:
        """A node; the group's target follows."""
        name = node.metadata.name
        if name not in self.nodes_of[group]:
            self.nodes_of[group].append(name)
        self.observation.set_node(node, group=group, created=T0 - age)
        self.set_target(group)

    def add_pods(self, *pods: Pod, age: int = MINUTE, local: Iterable[str] = (), deleted: int | None = None) -> None:
        """Pods with their owners."""
        for pod in pods:
            self._number += 1
            self.observation.set_pod(
                pod,
                number=self._number,
                created=T0 - age,
                deleted=deleted,
                unschedulable=not pod.spec.node_name,
                local_volumes=local,
            )
            for owner in pod.metadata.owner_references:
                self.observation.set_owner(owner.kind, f"{pod.metadata.namespace}/{owner.name}", 10)
