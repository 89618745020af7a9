"""Who asks Karpenter for a place, and the batch that gathers them.

A pod that has none asks when that is known, and every ten seconds as long as it is so; so does a node that is being
emptied, for its pods. Follows pkg/controllers/provisioning/{controller,batcher}.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan_autoscaling.supply.karpenter.batcher import RETRIGGER, Batcher
from stowplan_autoscaling.supply.karpenter.pods import is_provisionable
from stowplan_autoscaling.supply.karpenter.taints import DISRUPTED

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel, Timer
    from stowplan_autoscaling.supply.karpenter.options import Options


class Asking:
    """The one of a run. `provision` is called for each batch, when it has closed."""

    def __init__(
        self, kernel: Kernel, server: ApiServer, informers: Informers, options: Options, provision: Callable[[], None]
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._informers = informers
        self._provision = provision
        self._batcher = Batcher(options)
        self._batch: Timer | None = None
        self._asking: set[str] = set()
        """Pods, by uid, and nodes that ask again after a time."""

    def ask(self, uid: str, key: str) -> None:
        """A pod waits; it asks again as long as it does."""
        self._trigger(uid)
        if uid not in self._asking:
            self._asking.add(uid)
            self._kernel.at(self._kernel.now + RETRIGGER, lambda: self._ask_again(uid, key))

    def _ask_again(self, uid: str, key: str) -> None:
        self._asking.discard(uid)
        pod: ClusterPod | None = self._informers.get("Pod", key)
        if pod is not None and pod.metadata.uid == uid and is_provisionable(pod) and not pod.is_terminal:
            self.ask(uid, key)

    def ask_for_node(self, name: str) -> None:
        """A node is being disrupted: its pods need a place, and ask for one as long as it has the taint."""
        if name not in self._asking:
            self._ask_again_for_node(name)

    def _ask_again_for_node(self, name: str) -> None:
        node: Node | None = self._server.find("Node", name)
        if node is None or all(taint.key != DISRUPTED.key for taint in node.spec.taints):
            self._asking.discard(name)
            return
        self._asking.add(name)
        self._trigger(f"Node {name}")
        self._kernel.at(self._kernel.now + RETRIGGER, lambda: self._ask_again_for_node(name))

    def _trigger(self, element: str) -> None:
        self._batcher.trigger(element, self._kernel.now)
        due = self._batcher.due
        if due is not None and (self._batch is None or self._batch.when < due):
            if self._batch is not None:
                self._batch.cancel()
            self._batch = self._kernel.at(due, self._close)

    def _close(self) -> None:
        self._batch = None
        self._batcher.close(self._kernel.now)
        self._provision()
