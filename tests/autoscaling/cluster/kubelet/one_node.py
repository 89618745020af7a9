"""A cluster of nodes with kubelets for tests: the test binds pods and reads what is reported, second by second."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.kubelet import ApplicationModel, ImageCatalog, KubeletConfig, Kubelets, fixed
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import PENDING, ClusterPod
from stowplan_autoscaling.kernel import SECOND, Kernel, nanoseconds
from stowplan_autoscaling.streams import Streams
from stowplan_scheduler.objects import (
    Container,
    NodeStatus,
    ObjectMeta,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)

START = 946_684_800 * SECOND
"""2000-01-01T00:00:00Z."""

PLAIN: dict[str, Any] = {"sandbox": fixed(1), "registry_request": fixed(0), "pull_spread": fixed(1), "pull_rate": 1e6}
"""Round numbers: 1 s for a sandbox, 1 MB/s for every pull, no time for the registry's answer."""


def container(name: str = "c", image: str = "shop:1", **fields: Any) -> Container:
    """A container that asks for nothing."""
    return Container(name=name, image=image, **fields)


class Cluster:
    """Nodes `n0`, `n1`, ... with kubelets; `log[pod]` lists (seconds, phase, ready, restarts) of each status."""

    def __init__(
        self,
        application: ApplicationModel | None = None,
        *,
        nodes: int = 1,
        catalog: ImageCatalog | None = None,
        seed: int = 1,
        allocatable: dict[str, Any] | None = None,
        capacity: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.kernel = Kernel(START)
        self.feed = ChangeFeed(self.kernel)
        self.server = ApiServer(self.kernel, self.feed)
        self.server.stamp = lambda now: now
        self.log: dict[str, list[tuple[float, str, str, int]]] = {}
        self.server.observers.append(self._observe)
        self.events: list[tuple[float, str, str]] = []
        self.application = application or ApplicationModel()
        self.config = KubeletConfig(**{**PLAIN, **settings})
        self.kubelets = Kubelets(
            self.kernel,
            self.server,
            Streams(seed),
            config=self.config,
            catalog=catalog or ImageCatalog(),
            application=lambda _: self.application,
            record=lambda _kind, _key, _type, reason, message: self.events.append((self.now, reason, message)),
        )
        room = allocatable or {"cpu": "8", "memory": "32Gi", "pods": "110"}
        for i in range(nodes):
            status = NodeStatus(allocatable=room, capacity=capacity or room)
            self.server.create("Node", Node(metadata=ObjectMeta(name=f"n{i}"), status=status))

    def start(self) -> Cluster:
        """Let the kubelets watch."""
        self.kubelets.start(self.feed)
        return self

    @property
    def now(self) -> float:
        """Seconds since the start; the nanoseconds that deliveries take are cut off."""
        return round(self.kernel.elapsed, 5)

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind != "Pod" or old is None:
            return
        lines = self.log.setdefault(old.metadata.name, [])
        if new is None:
            lines.append((self.now, "gone", "", old.restarts))
        elif new.started is not None and new.deleted == old.deleted:
            lines.append((self.now, new.status.phase, new.ready, new.restarts))

    def bind(self, name: str = "web", *containers: Container, node: str = "n0", **spec: Any) -> str:
        """Create and bind a pod now; returns its key."""
        made = self.server.create(
            "Pod",
            ClusterPod(
                metadata=ObjectMeta(name=name, namespace="d"),
                spec=PodSpec(containers=containers or (container(),), **spec),
                status=PodStatus(phase=PENDING),
            ),
        )
        self.server.bind(made.key, node)
        return str(made.key)

    def run(self, until: float) -> None:
        """Run up to a time in seconds since the start."""
        self.kernel.run(START + nanoseconds(until))

    def pod(self, key: str) -> ClusterPod:
        """The stored pod."""
        found: ClusterPod = self.server.get("Pod", key)
        return found

    def last(self, name: str) -> tuple[float, str, str, int]:
        """The last line of a pod's log."""
        return self.log[name][-1]

    def reasons(self) -> list[str]:
        """Reasons of the events so far."""
        return [reason for _, reason, _ in self.events]


def asking(name: str = "c", **requests: str) -> Container:
    """A container with requests."""
    return replace(container(name), resources=ResourceRequirements(requests=dict(requests)))
