"""Builders of API objects for tests: `pod("p").req(cpu="250m").labels(app="x").build()`.

A builder is mutable and returns itself; `build` makes the frozen object, a pod with the API server's defaults. Keyword
names of labels and resources stand for Kubernetes' names through LABELS and RESOURCES.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from stowplan_scheduler.defaulting import default_pod
from stowplan_scheduler.objects import (
    ABSENT_LIST,
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    ImageVolumeSource,
    LabelSelector,
    LabelSelectorRequirement,
    Namespace,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    Quantity,
    ReplicaSet,
    ResourceMap,
    ResourceRequirements,
    Service,
    ServiceSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
    WorkloadSpec,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

LABELS = {"hostname": HOSTNAME, "zone": ZONE, "region": REGION}
RESOURCES = {"ephemeral_storage": "ephemeral-storage", "gpu": "example.com/gpu", "hugepages": "hugepages-2Mi"}


def _named(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


def amounts(**values: Quantity) -> ResourceMap:
    """cpu="1", memory="1Gi", ephemeral_storage=..., gpu=... as a map of Kubernetes' names."""
    return _named(RESOURCES, values)


def selector(*expressions: tuple[str, str, Iterable[str]], **labels: str) -> LabelSelector:
    """A label selector: labels that must be equal, and expressions (key, operator, values)."""
    parsed = tuple(
        LabelSelectorRequirement(key=k, operator=op, values=tuple(vs) or ABSENT_LIST) for k, op, vs in expressions
    )
    return LabelSelector(match_labels=_named(LABELS, labels), match_expressions=parsed)


def node_term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    """A node selector term with one expression on labels."""
    expression = NodeSelectorRequirement(key=LABELS.get(key, key), operator=operator, values=values or ABSENT_LIST)
    return NodeSelectorTerm(match_expressions=(expression,))


def name_term(*names: str, operator: str = "In") -> NodeSelectorTerm:
    """A node selector term on the node's name."""
    field = NodeSelectorRequirement(key="metadata.name", operator=operator, values=names or ABSENT_LIST)
    return NodeSelectorTerm(match_fields=(field,))


class PodBuilder:
    """Builds a pod with one container, to which `container` and `init` add more."""

    def __init__(self, name: str, namespace: str = "default") -> None:
        self._meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
        self._spec: dict[str, Any] = {"priority": 0}
        self._status: dict[str, Any] = {}
        self._containers = [Container(name="c0", image="app")]
        self._init: list[Container] = []
        self._required: list[NodeSelectorTerm] | None = None
        self._preferred: list[PreferredSchedulingTerm] = []
        self._pod_terms: dict[bool, list[PodAffinityTerm]] = {False: [], True: []}
        self._weighted_pod_terms: dict[bool, list[WeightedPodAffinityTerm]] = {False: [], True: []}

    # ---- metadata and status

    def namespace(self, namespace: str) -> Self:
        self._meta |= {"namespace": namespace, "uid": f"{namespace}/{self._meta['name']}"}
        return self

    def labels(self, **labels: str) -> Self:
        self._meta["labels"] = {**self._meta.get("labels", {}), **_named(LABELS, labels)}
        return self

    def owner(self, kind: str, name: str, api_version: str = "apps/v1") -> Self:
        """The controller."""
        reference = OwnerReference(api_version=api_version, kind=kind, name=name, uid=name, controller=True)
        self._meta["owner_references"] = (reference,)
        return self

    def created(self, timestamp: str) -> Self:
        self._meta["creation_timestamp"] = timestamp
        return self

    def deleting(self, timestamp: str = "2000-01-01T00:00:00Z") -> Self:
        self._meta["deletion_timestamp"] = timestamp
        return self

    def on(self, node: str, started: str | None = "1999-12-01T00:00:00Z") -> Self:
        """Bound to a node and running."""
        self._spec["node_name"] = node
        self._status |= {"phase": "Running", "start_time": started}
        return self

    def wants_node(self, node: str) -> Self:
        """spec.nodeName of a pod that is still to be placed."""
        self._spec["node_name"] = node
        return self

    def phase(self, phase: str) -> Self:
        self._status["phase"] = phase
        return self

    def nominated(self, node: str) -> Self:
        self._status["nominated_node_name"] = node
        return self

    # ---- containers

    def req(self, **values: Quantity) -> Self:
        """The requests of the first container."""
        return self._resources("requests", amounts(**values))

    def limits(self, **values: Quantity) -> Self:
        """The limits of the first container."""
        return self._resources("limits", amounts(**values))

    def _resources(self, kind: str, values: ResourceMap) -> Self:
        old = getattr(self._containers[0].resources, kind) or {}
        resources = replace(self._containers[0].resources, **{kind: {**old, **values}})
        self._containers[0] = replace(self._containers[0], resources=resources)
        return self

    def image(self, image: str) -> Self:
        self._containers[0] = replace(self._containers[0], image=image)
        return self

    def port(self, host_port: int, protocol: str = "TCP", ip: str = "") -> Self:
        """A host port of the first container."""
        added = ContainerPort(container_port=host_port, host_port=host_port, protocol=protocol, host_ip=ip)
        self._containers[0] = replace(self._containers[0], ports=(*self._containers[0].ports, added))
        return self

    def container(self, image: str = "app", **requests: Quantity) -> Self:
        """One more container."""
        self._containers.append(_container(f"c{len(self._containers)}", image, requests))
        return self

    def init(self, image: str = "app", *, sidecar: bool = False, **requests: Quantity) -> Self:
        """One more init container."""
        made = _container(f"i{len(self._init)}", image, requests)
        self._init.append(replace(made, restart_policy="Always") if sidecar else made)
        return self

    def image_volume(self, reference: str) -> Self:
        volume = Volume(name=reference, image=ImageVolumeSource(reference=reference))
        self._spec["volumes"] = (*self._spec.get("volumes", ()), volume)
        return self

    def overhead(self, **values: Quantity) -> Self:
        self._spec["overhead"] = amounts(**values)
        return self

    def pod_level(self, **requests: Quantity) -> Self:
        """Requests of the pod as a whole."""
        self._spec["resources"] = ResourceRequirements(requests=amounts(**requests))
        return self

    # ---- where it may run

    def priority(self, priority: int, policy: str | None = None) -> Self:
        self._spec |= {"priority": priority, "preemption_policy": policy}
        return self

    def scheduler(self, name: str) -> Self:
        self._spec["scheduler_name"] = name
        return self

    def gated(self, *gates: str) -> Self:
        self._spec["scheduling_gates"] = tuple(PodSchedulingGate(name=gate) for gate in gates)
        return self

    def tolerate(self, key: str = "", value: str = "", *, operator: str = "", effect: str = "") -> Self:
        """One more toleration; without a value it tolerates every value of the key."""
        operator = operator or ("Equal" if value else "Exists")
        toleration = Toleration(key=key, value=value, operator=operator, effect=effect)
        self._spec["tolerations"] = (*self._spec.get("tolerations", ()), toleration)
        return self

    def node_selector(self, **labels: str) -> Self:
        self._spec["node_selector"] = _named(LABELS, labels)
        return self

    def require_node(self, *terms: NodeSelectorTerm) -> Self:
        """Required node affinity: one of the terms must hold."""
        self._required = [*(self._required or ()), *terms]
        return self

    def prefer_node(self, weight: int, term: NodeSelectorTerm) -> Self:
        """Preferred node affinity."""
        self._preferred.append(PreferredSchedulingTerm(weight=weight, preference=term))
        return self

    def affinity(
        self,
        key: str,
        pods: LabelSelector | None,
        *,
        weight: int | None = None,
        anti: bool = False,
        namespaces: Iterable[str] = (),
        namespace_selector: LabelSelector | None = None,
    ) -> Self:
        """An affinity term between pods; with a weight it is a preference."""
        term = PodAffinityTerm(
            topology_key=LABELS.get(key, key),
            label_selector=pods,
            namespaces=tuple(namespaces),
            namespace_selector=namespace_selector,
        )
        if weight is None:
            self._pod_terms[anti].append(term)
        else:
            self._weighted_pod_terms[anti].append(WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term))
        return self

    def anti_affinity(self, key: str, pods: LabelSelector | None, *, weight: int | None = None, **more: Any) -> Self:
        """An anti-affinity term."""
        return self.affinity(key, pods, weight=weight, anti=True, **more)

    def spread(
        self,
        key: str,
        pods: LabelSelector | None,
        *,
        max_skew: int = 1,
        soft: bool = False,
        min_domains: int | None = None,
        affinity_policy: str | None = None,
        taints_policy: str | None = None,
        match_label_keys: Iterable[str] = (),
    ) -> Self:
        """One more spread constraint."""
        constraint = TopologySpreadConstraint(
            topology_key=LABELS.get(key, key),
            label_selector=pods,
            max_skew=max_skew,
            when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
            min_domains=min_domains,
            node_affinity_policy=affinity_policy,
            node_taints_policy=taints_policy,
            match_label_keys=tuple(match_label_keys),
        )
        self._spec["topology_spread_constraints"] = (*self._spec.get("topology_spread_constraints", ()), constraint)
        return self

    # ---- result

    def raw(self) -> Pod:
        """The pod as a manifest would have it, without defaults."""
        spec = PodSpec(
            containers=tuple(self._containers),
            init_containers=tuple(self._init),
            affinity=self._affinity(),
            **self._spec,
        )
        return Pod(metadata=ObjectMeta(**self._meta), spec=spec, status=PodStatus(**self._status))

    def build(self) -> Pod:
        """The pod as a scheduler sees it."""
        return default_pod(self.raw())

    def _affinity(self) -> Affinity | None:
        required = None if self._required is None else NodeSelector(node_selector_terms=tuple(self._required))
        node_affinity = None
        if required is not None or self._preferred:
            node_affinity = NodeAffinity(
                required_during_scheduling_ignored_during_execution=required,
                preferred_during_scheduling_ignored_during_execution=tuple(self._preferred),
            )
        together, apart = self._pod_affinity(anti=False), self._pod_affinity(anti=True)
        if node_affinity is None and together is None and apart is None:
            return None
        return Affinity(node_affinity=node_affinity, pod_affinity=together, pod_anti_affinity=apart)

    def _pod_affinity(self, *, anti: bool) -> PodAffinity | None:
        if not self._pod_terms[anti] and not self._weighted_pod_terms[anti]:
            return None
        return PodAffinity(
            required_during_scheduling_ignored_during_execution=tuple(self._pod_terms[anti]),
            preferred_during_scheduling_ignored_during_execution=tuple(self._weighted_pod_terms[anti]),
        )


def _container(name: str, image: str, requests: Mapping[str, Quantity]) -> Container:
    return Container(name=name, image=image, resources=ResourceRequirements(requests=amounts(**requests)))


class NodeBuilder:
    """Builds a node with 4 cores, 16 GiB, room for 110 pods and its host name as a label."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._labels = {HOSTNAME: name}
        self._allocatable = amounts(cpu="4", memory="16Gi", pods="110")
        self._taints: list[Taint] = []
        self._images: list[ContainerImage] = []
        self._features: tuple[str, ...] = ()
        self._unschedulable = False

    def capacity(self, **values: Quantity) -> Self:
        """Replaces the allocatable amounts that are named."""
        self._allocatable |= amounts(**values)
        return self

    def without(self, resource: str) -> Self:
        """A resource that the node does not report."""
        self._allocatable.pop(RESOURCES.get(resource, resource), None)
        return self

    def label(self, key: str, value: str) -> Self:
        self._labels[LABELS.get(key, key)] = value
        return self

    def labels(self, **labels: str) -> Self:
        self._labels |= _named(LABELS, labels)
        return self

    def zone(self, zone: str) -> Self:
        return self.label(ZONE, zone)

    def no_label(self, key: str) -> Self:
        self._labels.pop(LABELS.get(key, key), None)
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        self._taints.append(Taint(key=key, value=value, effect=effect))
        return self

    def unschedulable(self) -> Self:
        self._unschedulable = True
        return self

    def image(self, *names: str, size: int) -> Self:
        """An image under all its names, in bytes."""
        self._images.append(ContainerImage(names=names, size_bytes=size))
        return self

    def features(self, *names: str) -> Self:
        self._features = names
        return self

    def build(self) -> Node:
        """The node."""
        status = NodeStatus(
            capacity=dict(self._allocatable),
            allocatable=dict(self._allocatable),
            images=tuple(self._images),
            declared_features=self._features,
        )
        spec = NodeSpec(unschedulable=self._unschedulable, taints=tuple(self._taints))
        meta = ObjectMeta(name=self._name, uid=self._name, labels=dict(self._labels))
        return Node(metadata=meta, spec=spec, status=status)


def pod(name: str, namespace: str = "default") -> PodBuilder:
    """Begin a pod."""
    return PodBuilder(name, namespace)


def node(name: str) -> NodeBuilder:
    """Begin a node."""
    return NodeBuilder(name)


def namespace(name: str, **labels: str) -> Namespace:
    """A namespace."""
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def service(name: str, namespace: str = "default", **labels: str) -> Service:
    """A service that selects pods by labels."""
    return Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector=labels))


def replica_set(name: str, pods: LabelSelector | None, namespace: str = "default", replicas: int = 1) -> ReplicaSet:
    """A replica set."""
    return ReplicaSet(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=WorkloadSpec(replicas=replicas, selector=pods)
    )


def budget(
    name: str,
    pods: LabelSelector | None,
    allowed: int,
    namespace: str = "default",
    disrupted: Iterable[str] = (),
) -> PodDisruptionBudget:
    """A disruption budget with what it allows right now, and the pods that are already being disrupted."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=pods),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2000-01-01T00:00:00Z")
        ),
    )


def manifest(obj: msgspec.Struct) -> dict[str, Any]:
    """An object as the JSON of a manifest."""
    made = msgspec.to_builtins(obj)
    if not isinstance(made, dict):
        raise TypeError(f"{type(obj).__name__} is not an object of the API")
    return made
