"""The cluster as the scheduler sees it, built from plain lists of objects.

Follows NodeInfo (framework/types.go), the node tree and the image states (backend/cache) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stowplan_scheduler.objects import (
    DeviceClass,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from stowplan_scheduler.resources import Resource, node_requested, non_zero_requested

Port = tuple[str, str, int]
"""IP, protocol, number."""

ANY_IP = "0.0.0.0"
_REGIONS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def host_ports(pod: Pod) -> list[Port]:
    """The host ports of the containers and sidecars of a pod."""
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    ports = [port for container in (*sidecars, *pod.spec.containers) for port in container.ports]
    return [(p.host_ip or ANY_IP, p.protocol or "TCP", p.host_port) for p in ports if p.host_port > 0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedPod:
    """A pod with what it takes on a node. `non_zero` is (milli cpu, bytes) with the defaults for missing requests."""

    pod: Pod
    requested: Resource
    non_zero: tuple[int, int]
    ports: tuple[Port, ...]


def placed(pod: Pod) -> PlacedPod:
    """What a pod takes."""
    return PlacedPod(
        pod=pod, requested=node_requested(pod), non_zero=non_zero_requested(pod), ports=tuple(host_ports(pod))
    )


@dataclass(slots=True, kw_only=True)
class NodeState:
    """A node, its pods, and its used ports.

    Ports are a set as upstream: taking a pod away frees its ports even if another pod of the node has the same.
    """

    node: Node
    allocatable: Resource
    images: dict[str, tuple[int, int]]  # name -> (bytes, number of nodes that have it)
    pods: list[PlacedPod]
    ports: set[Port]

    def copy(self) -> NodeState:
        """An independent copy for a what-if."""
        return replace(self, pods=list(self.pods), ports=set(self.ports))

    def add(self, added: PlacedPod) -> None:
        """Add a pod at the end of the list."""
        self.pods.append(added)
        self.ports.update(added.ports)

    def remove(self, removed: PlacedPod) -> None:
        """Take a pod away; the last one takes its place."""
        at = next(i for i, other in enumerate(self.pods) if other.pod.key == removed.pod.key)
        self.pods[at] = self.pods[-1]
        self.pods.pop()
        self.ports.difference_update(removed.ports)

    def requested(self, resource: str) -> int:
        """What the pods request of one resource."""
        return sum(each.requested.get(resource) for each in self.pods)

    def non_zero_requested(self, resource: str) -> int:
        """The same with defaults for missing requests, for cpu and memory."""
        if resource == "cpu":
            return sum(each.non_zero[0] for each in self.pods)
        if resource == "memory":
            return sum(each.non_zero[1] for each in self.pods)
        return self.requested(resource)


class ReferenceCluster:
    """All objects that a decision may look at. `nodes` is in snapshot order."""

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        *,
        namespaces: Iterable[Namespace] = (),
        services: Sequence[Service] = (),
        replication_controllers: Sequence[ReplicationController] = (),
        replica_sets: Sequence[ReplicaSet] = (),
        stateful_sets: Sequence[StatefulSet] = (),
        pdbs: Sequence[PodDisruptionBudget] = (),
        device_classes: Iterable[DeviceClass] = (),
    ) -> None:
        in_order_of_creation = list(nodes)
        self.namespaces = {namespace.metadata.name: namespace.metadata.labels for namespace in namespaces}
        self.services = services
        self.replication_controllers = replication_controllers
        self.replica_sets = replica_sets
        self.stateful_sets = stateful_sets
        self.pdbs = pdbs
        self.device_resources = _device_resources(device_classes)
        images = image_states(in_order_of_creation)
        self.nodes = [_empty_node(node, images) for node in tree_order(in_order_of_creation)]
        self._by_name = {state.node.metadata.name: state for state in self.nodes}
        self.pending: list[Pod] = []
        for pod in pods:
            self._place(pod)

    def node(self, name: str) -> NodeState | None:
        """A node by name."""
        return self._by_name.get(name)

    def _place(self, pod: Pod) -> None:
        if pod.is_terminal:
            return
        if not pod.spec.node_name:
            self.pending.append(pod)
        elif pod.spec.node_name in self._by_name:
            self._by_name[pod.spec.node_name].add(placed(pod))


def _device_resources(classes: Iterable[DeviceClass]) -> frozenset[str]:
    """The extended resources that devices may serve: the named ones and one per class."""
    names = set()
    for device_class in classes:
        names.add(f"deviceclass.resource.kubernetes.io/{device_class.metadata.name}")
        if device_class.spec.extended_resource_name:
            names.add(device_class.spec.extended_resource_name)
    return frozenset(names)


def _empty_node(node: Node, images: dict[str, tuple[int, int]]) -> NodeState:
    own = {name: images[name] for image in node.status.images for name in image.names}
    allocatable = Resource.from_map(node.status.allocatable)
    return NodeState(node=node, allocatable=allocatable, images=own, pods=[], ports=set())


def image_states(nodes: Iterable[Node]) -> dict[str, tuple[int, int]]:
    """Image name -> (bytes as the first node reported them, number of nodes)."""
    sizes: dict[str, int] = {}
    holders: dict[str, set[str]] = {}
    for node in nodes:
        for image in node.status.images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
                holders.setdefault(name, set()).add(node.metadata.name)
    return {name: (size, len(holders[name])) for name, size in sizes.items()}


def _first_label(node: Node, keys: Sequence[str]) -> str:
    for key in keys:
        if key in node.metadata.labels:
            return node.metadata.labels[key]
    return ""


def tree_order(nodes: Iterable[Node]) -> list[Node]:
    """The nodes of each zone in turn: zones in the order of their first node, nodes in the order of creation."""
    zones: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        zones.setdefault((_first_label(node, _REGIONS), _first_label(node, _ZONES)), []).append(node)
    order: list[Node] = []
    round_number = 0
    while any(round_number < len(members) for members in zones.values()):
        order += [members[round_number] for members in zones.values() if round_number < len(members)]
        round_number += 1
    return order
