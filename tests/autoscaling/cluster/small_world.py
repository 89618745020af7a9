"""A small virtual cluster for tests of single controllers, without scheduler and kubelet: the test plays both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.informers import Informers
from stowplan_autoscaling.cluster.objects.apps import ReplicaSet, ReplicaSetSpec
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import PENDING, RUNNING, ClusterPod
from stowplan_autoscaling.cluster.work_queue import TokenBucket
from stowplan_autoscaling.kernel import SECOND, Kernel
from stowplan_scheduler.objects import (
    Container,
    LabelSelector,
    NodeSpec,
    ObjectMeta,
    OwnerReference,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
)

START = 946_684_800 * SECOND
"""2000-01-01T00:00:00Z."""

KINDS = ("Pod", "Node", "ReplicaSet", "Deployment", "StatefulSet", "PodDisruptionBudget", "ResourceQuota")


class World:
    """Kernel, server, feed and informers; `events` collects (seconds, kind, key, reason, message)."""

    def __init__(self, *, latency: int = 0, admit: Callable[[str, Any], Any] | None = None) -> None:
        self.kernel = Kernel(START)
        self.feed = ChangeFeed(self.kernel)
        self.server = ApiServer(self.kernel, self.feed, admit=admit or (lambda _, obj: obj))
        self.informers = Informers(KINDS, latency)
        self.events: list[tuple[float, str, str, str, str]] = []

    def client(self, *, limited: bool = False) -> Client:
        """A client that records its events."""
        limit = TokenBucket(20, 30) if limited else None
        return Client(self.kernel, self.server, limit=limit, record=self._record)

    def _record(self, kind: str, key: str, _: str, reason: str, message: str) -> None:
        self.events.append((self.kernel.elapsed, kind, key, reason, message))

    def reasons(self, kind: str) -> list[str]:
        """The reasons of the events about objects of a kind."""
        return [event[3] for event in self.events if event[1] == kind]

    def start(self, *more: Callable[[], None]) -> None:
        """Start the informers, and what is to start with them."""
        self.informers.start(self.server, self.feed)
        for each in more:
            each()
        self.run(0.001)

    def run(self, seconds: float) -> None:
        """Let time pass up to so many seconds since the start."""
        self.kernel.run(START + round(seconds * SECOND))

    def pod(self, name: str) -> ClusterPod:
        """A stored pod of the namespace default."""
        found: ClusterPod = self.server.get("Pod", f"default/{name}")
        return found

    def change(self, name: str, **fields: Any) -> ClusterPod:
        """Change fields of a stored pod."""
        changed: ClusterPod = self.server.put("Pod", replace(self.pod(name), **fields))
        return changed

    def make_ready(self, name: str, *, ready: bool = True) -> ClusterPod:
        """Make a pod Running and Ready, or unready."""
        return self.change(
            name,
            status=replace(self.pod(name).status, phase=RUNNING),
            ready="True" if ready else "False",
            ready_since=self.server.stamp(self.kernel.now),
        )

    def pods(self, count: int, *, owner: OwnerReference | None = None, ready: int = 0, prefix: str = "web") -> None:
        """Create pods `prefix`-0, ... on one node with the label app=`prefix`; the first `ready` of them are Ready."""
        for number in range(count):
            pod = make_pod(f"{prefix}-{number}", labels={"app": prefix}, owner=owner, node="n1")
            is_ready = number < ready
            self.server.create(
                "Pod",
                replace(
                    pod, status=PodStatus(phase=RUNNING if is_ready else PENDING), ready="True" if is_ready else "False"
                ),
            )

    def replica_set(self, replicas: int, name: str = "web") -> OwnerReference:
        """Create a ReplicaSet that nobody acts on; returns the reference for its pods."""
        stored = self.server.create(
            "ReplicaSet",
            ReplicaSet(
                metadata=ObjectMeta(name=name, namespace="default"),
                spec=ReplicaSetSpec(replicas=replicas, selector=LabelSelector(match_labels={"app": name})),
            ),
        )
        return OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=name, uid=stored.metadata.uid, controller=True
        )


def make_pod(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    owner: OwnerReference | None = None,
    node: str = "",
    requests: dict[str, str | int | float] | None = None,
    limits: dict[str, str | int | float] | None = None,
    tolerations: Iterable[Toleration] = (),
    namespace: str = "default",
) -> ClusterPod:
    """A pod with one container."""
    return ClusterPod(
        metadata=ObjectMeta(
            name=name, namespace=namespace, labels=labels or {}, owner_references=(owner,) if owner else ()
        ),
        spec=PodSpec(
            containers=(Container(name="main", resources=ResourceRequirements(requests=requests, limits=limits)),),
            node_name=node,
            tolerations=tuple(tolerations),
        ),
        status=PodStatus(phase=PENDING),
        owner_uid=owner.uid if owner else "",
    )


def make_node(name: str, *, zone: str = "", taints: Iterable[Taint] = (), labels: dict[str, str] | None = None) -> Node:
    """A node, in a zone if one is named."""
    zones = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": zone} if zone else {}
    return Node(metadata=ObjectMeta(name=name, labels={**zones, **(labels or {})}), spec=NodeSpec(taints=tuple(taints)))
