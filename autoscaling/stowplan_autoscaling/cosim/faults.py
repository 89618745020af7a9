"""Plays spec.faults: nodes and zones that fall silent, and nodes that are cordoned, each with its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.resources.fault_checks import fault_nodes
from stowplan_autoscaling.supply.pools import POOL_LABEL, ZONE_LABEL

from .pods import DONE

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.kubelet import Kubelets
    from stowplan_autoscaling.cluster.node_faults import NodeFaults
    from stowplan_autoscaling.resources.faults import Fault

    from .load_engine import LoadEngine
    from .pods import PodBook
    from .world import World

NODE_LOST: Final = "NodeLost"


class FaultPlayer:
    """The one of a run. A node that is silent is so for everybody: kubelet, metrics, and the pods on it."""

    def __init__(
        self,
        world: World,
        book: PodBook,
        faults: NodeFaults,
        kubelets: Kubelets,
        loads: LoadEngine,
    ) -> None:
        self._world = world
        self._book = book
        self._faults = faults
        self._kubelets = kubelets
        self._loads = loads
        self._silent: dict[str, int] = {}
        self._cordoned: dict[str, int] = {}

    def start(self) -> None:
        """Plan all of them."""
        kernel = self._world.kernel
        for fault in self._world.spec.faults:
            kernel.later(self._world.start + fault.at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]

    def _begin(self, fault: Fault) -> None:
        names = self._nodes(fault)
        if fault.duration is not None:
            end = self._world.start + fault.at + fault.duration
            self._world.kernel.later(end, lambda: self._end(fault, names))
        for name in names:
            try:
                self._cordon(name) if fault.cordon is not None else self._silence(name)
            except NotFoundError:
                self._world.event("FaultSkipped", f"Node {name}", "the node is gone", kind="Warning")

    def _nodes(self, fault: Fault) -> list[str]:
        """Those that the fault is about; machines of pools are those that are there now."""
        names = fault_nodes(fault, self._world.spec, self._world.simulation.objects)
        nodes = self._world.server.all("Node").items()
        part = fault.node_lost or fault.cordon
        if fault.zone_lost is not None:
            zone = fault.zone_lost.zone
            come = [
                name
                for name, node in nodes
                if POOL_LABEL in node.metadata.labels and node.metadata.labels.get(ZONE_LABEL) == zone
            ]
            return [*names, *(name for name in come if name not in names)]
        if part is not None and part.node_pool:
            return [name for name, node in nodes if node.metadata.labels.get(POOL_LABEL) == part.node_pool][
                : part.count
            ]
        return names

    def _end(self, fault: Fault, names: list[str]) -> None:
        for name in names:
            try:
                self._uncordon(name) if fault.cordon is not None else self._recover(name)
            except NotFoundError:
                self._world.event("FaultSkipped", f"Node {name}", "the node is gone", kind="Warning")

    # ---- silence -----------------------------------------------------------------------------

    def _silence(self, name: str) -> None:
        """A node that two faults have silenced is heard again when both are over."""
        self._silent[name] = self._silent.get(name, 0) + 1
        if self._silent[name] > 1:
            return
        self._faults.fail_node(name)
        self._loads.look()
        for key in self._kubelets.pods_on(name):
            life = self._book.lives.get(key)
            if life is not None and life.state != DONE:
                life.end = life.end or NODE_LOST
        self._kubelets.stop_node(name)
        self._loads.node_works(name, works=False)
        self._world.recorder.count("nodes_lost")
        self._world.event("NodeLost", f"Node {name}", "The node falls silent", kind="Warning")

    def _recover(self, name: str) -> None:
        self._silent[name] -= 1
        if self._silent[name]:
            return
        self._faults.recover_node(name)
        for life in self._book.lives.values():
            if life.node == name and life.end == NODE_LOST and self._world.server.get("Pod", life.key).deleted is None:
                life.end = ""
        self._kubelets.start_node(name)
        self._loads.node_works(name, works=True)
        self._world.event("NodeRecovered", f"Node {name}", "The node is heard again")

    # ---- cordons -----------------------------------------------------------------------------

    def _cordon(self, name: str) -> None:
        self._cordoned[name] = self._cordoned.get(name, 0) + 1
        self._faults.cordon(name)
        self._world.event("NodeCordoned", f"Node {name}", "The node is unschedulable from now on")

    def _uncordon(self, name: str) -> None:
        self._cordoned[name] -= 1
        if not self._cordoned[name]:
            self._faults.uncordon(name)
            self._world.event("NodeUncordoned", f"Node {name}", "The node is schedulable again")
