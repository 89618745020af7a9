"""One node as its kubelet knows it: room, images, pods, and when it looks at its containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND, nanoseconds
from stowplan_scheduler.objects import ContainerImage
from stowplan_scheduler.resources import Resource

from .admission import NodeBudget
from .images import NodeImages

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.streams import Streams

    from .config import ImageCatalog, KubeletConfig
    from .pod_worker import PodWorker

SYNC_TICK: Final = SECOND
"""Time between two looks at the pods that are due for a sync (kubelet.go, syncLoop)."""

STATUS_PERIOD: Final = 10 * SECOND
"""Time between two updates of the node's status (kubelet: nodeStatusUpdateFrequency)."""


class NodeState:
    """One node with a kubelet."""

    __slots__ = (
        "_kernel",
        "_object",
        "_relist_phase",
        "_report_planned",
        "_server",
        "_status_phase",
        "_sync_phase",
        "budget",
        "config",
        "images",
        "name",
        "pleg_period",
        "sync_period",
        "workers",
    )

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        streams: Streams,
        config: KubeletConfig,
        catalog: ImageCatalog,
        node: Node,
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._object = node
        self._report_planned = False
        self.name = node.metadata.name
        self.config = config
        self.pleg_period = nanoseconds(config.pleg_relist)
        self.sync_period = nanoseconds(config.sync_period)
        self._relist_phase = round(streams.uniform("kubelet/relist-phase", self.name) * self.pleg_period)
        self._sync_phase = round(streams.uniform("kubelet/sync-phase", self.name) * SYNC_TICK)
        self._status_phase = round(streams.uniform("kubelet/status-phase", self.name) * STATUS_PERIOD)
        self.budget = NodeBudget(node, config.max_pods)
        self.workers: dict[str, PodWorker] = {}
        """Pods that the kubelet looks after, by key."""
        disk = Resource.from_map(node.status.capacity).ephemeral_storage or None
        changed = self._images_changed if config.reports_images else _nothing
        self.images = NodeImages(kernel, streams, self.name, config, catalog, disk, changed)
        for image in node.status.images:
            for name in image.names[:1]:
                self.images.hold(name, image.size_bytes)

    def update(self, node: Node) -> None:
        """The node changed."""
        old, self._object = self._object, node
        if node.status.allocatable != old.status.allocatable or node.spec.taints != old.spec.taints:
            self.budget.update(node)

    def next_relist(self, at: int) -> int:
        """When the kubelet looks at its containers next, not before that time."""
        return at + (self._relist_phase - at) % self.pleg_period

    def next_sync_tick(self, at: int) -> int:
        """When it looks for pods that are due next."""
        return at + (self._sync_phase - at) % SYNC_TICK

    def stop(self) -> None:
        """Machine and kubelet are no more: nothing of what was planned happens."""
        self.images.is_stopped = True
        for worker in self.workers.values():
            worker.freeze()
        self.workers.clear()

    # ---- status ------------------------------------------------------------------------------

    def _images_changed(self) -> None:
        if not self._report_planned:
            self._report_planned = True
            now = self._kernel.now
            self._kernel.later(now + (self._status_phase - now) % STATUS_PERIOD, self._report_images)

    def _report_images(self) -> None:
        """List the images in the node's status."""
        self._report_planned = False
        node: Node | None = self._server.find("Node", self.name)
        if node is None or self.images.is_stopped:
            return
        images = tuple(ContainerImage(names=(image.name,), size_bytes=image.size) for image in self.images.reported())
        self._server.put("Node", replace(node, status=replace(node.status, images=images)))


def _nothing() -> None:
    """Nobody is told."""
