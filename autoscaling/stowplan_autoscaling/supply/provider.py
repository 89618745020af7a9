"""Whoever rents out machines: it takes requests, launches, loses and takes back machines, in virtual time.

    request --request--> launched --boot--> registered --initialization--> ready
       |-> out of stock        |-> never registers               notice --> interrupted

The delays are drawn per machine from streams named by the node, which carries its number within the pool: two runs that
decide alike meet the same luck. A Node registers as a kubelet registers it, not ready and tainted; that it has become
ready is what its kubelet reports, and the node lifecycle controller removes the taint. A machine that was given back
goes with its Node. One that the provider takes leaves its Node behind: that falls silent, and once it is known to be so
the cloud's node controller removes it, as MonitorNodes of k8s.io/cloud-provider v0.37.2 does
(controllers/nodelifecycle/node_lifecycle_controller.go). Names of streams: supply/boot, supply/failure, supply/spot.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from stowplan_autoscaling.cluster.controllers.node_lifecycle.conditions import ready_status
from stowplan_autoscaling.cluster.controllers.node_lifecycle.taints import NOT_READY, UNREACHABLE
from stowplan_autoscaling.cluster.kubelet.delays import log_normal
from stowplan_autoscaling.kernel import SECOND, nanoseconds
from stowplan_scheduler.tolerations import NO_SCHEDULE

from .machines import FAILED, INITIAL, INTERRUPTED, LOST, OUT_OF_STOCK, Machine
from .pools import SPOT, MachineType, Offer, Pool, node_of
from .stock_outs import is_sold_out

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.kubelet import Kubelets
    from stowplan_autoscaling.cluster.node_faults import NodeFaults
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.resources.node_pools import ProviderSpec
    from stowplan_autoscaling.streams import Streams

NODE_MONITOR_PERIOD: Final = 5 * SECOND
"""Time between two looks of the cloud's node controller at nodes that are not ready (--node-monitor-period)."""
_HOUR: Final = 3600.0
_NOT_YET: Final = frozenset({NOT_READY.key, UNREACHABLE.key})
"""Taints of a node that has not been ready: one that falls silent before that has the second instead of the first."""


class ProviderListener(Protocol):
    """Told what becomes of machines, at the moment itself."""

    def machine_changed(self, machine: Machine) -> None:
        """It was launched, or its Node exists, or it is ready, or it is being taken back."""

    def machine_failed(self, machine: Machine) -> None:
        """It could not be had; `machine.end` is OutOfStock."""

    def machine_noticed(self, machine: Machine) -> None:
        """It will be taken back after the notice."""

    def machine_ended(self, machine: Machine) -> None:
        """It is gone, and its Node with it, or soon after it (`Provider.left_behind`)."""


class Provider:
    """The one of a run. `start`: the beginning of the run on the virtual clock."""

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        streams: Streams,
        spec: ProviderSpec,
        faults: NodeFaults,
        kubelets: Kubelets,
        *,
        start: int,
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._streams = streams
        self._spec = spec
        self._faults = faults
        self._kubelets = kubelets
        self._start = start
        self._numbers: dict[str, int] = {}
        self._boot = log_normal(spec.boot.median / SECOND, spec.boot.sigma)
        self.machines: dict[str, Machine] = {}
        """Those that are there or on their way, by node."""
        self.left_behind: set[str] = set()
        """Nodes whose machines were taken: they are silent, and will be removed."""
        self.listeners: list[ProviderListener] = []
        server.observe(self._observe, "Node")

    # ---- requests ----------------------------------------------------------------------------

    def add_initial(self, pool: Pool, type: MachineType, offer: Offer) -> Machine:
        """A machine that has been there before the run, with its Node."""
        machine = self._new(pool, type, offer, INITIAL)
        machine.launched = machine.registered = machine.ready = self._kernel.now
        self._server.create("Node", node_of(pool, type, offer, machine.node, ready=True))
        self._tell(machine)
        self._plan_interruption(machine)
        return machine

    def request(self, pool: Pool, type: MachineType, offer: Offer, began: str) -> Machine:
        """Ask for a machine."""
        machine = self._new(pool, type, offer, began)
        self._kernel.later(self._kernel.now + self._spec.request, lambda: self._launch(machine))
        return machine

    def terminate(self, node: str, reason: str) -> None:
        """Take a machine back. Nothing happens for one that is on its way out, or was never there."""
        machine = self.machines.get(node)
        if machine is None or machine.deleting is not None:
            return
        machine.deleting = self._kernel.now
        machine.end = machine.end or reason
        if machine.launched is None:
            self._end(machine)
            return
        self._tell(machine)
        self._kernel.later(self._kernel.now + self._spec.shutdown, lambda: self._end(machine))

    def is_in_stock(self, pool: str, type: str, zone: str, capacity_type: str) -> bool:
        """Whether such a machine can be had now."""
        since = self._kernel.now - self._start
        return not is_sold_out(self._spec.stock_outs, since, pool, type, zone, capacity_type)

    def times_of(self, node: str) -> tuple[int, int] | None:
        """When a node was asked for and took pods; None for one that is no machine, or was there from the start."""
        machine = self.machines.get(node)
        if machine is None or machine.ready is None or machine.began == INITIAL:
            return None
        return machine.requested, machine.ready

    def pods_on(self, node: str) -> list[str]:
        """Keys of the pods that the kubelet of a machine looks after."""
        return self._kubelets.pods_on(node)

    def _new(self, pool: Pool, type: MachineType, offer: Offer, began: str) -> Machine:
        number = self._numbers[pool.name] = self._numbers.get(pool.name, 0) + 1
        machine = Machine(pool, type, offer, number, self._kernel.now, began)
        self.machines[machine.node] = machine
        return machine

    # ---- what becomes of them ----------------------------------------------------------------

    def _launch(self, machine: Machine) -> None:
        if machine.ended is not None:
            return
        offer = machine.offer
        if not self.is_in_stock(machine.pool.name, machine.type.name, offer.zone, offer.capacity_type):
            machine.end, machine.ended = OUT_OF_STOCK, self._kernel.now
            del self.machines[machine.node]
            for listener in self.listeners:
                listener.machine_failed(machine)
            return
        machine.launched = self._kernel.now
        self._tell(machine)
        self._plan_interruption(machine)
        if self._streams.uniform("supply/failure", machine.node) >= self._spec.failures:
            self._kernel.later(self._kernel.now + self._boot_time(machine), lambda: self._register(machine))

    def _boot_time(self, machine: Machine) -> int:
        limits = self._spec.boot
        time = max(self._boot.of(self._streams.uniform("supply/boot", machine.node)), limits.minimum)
        return time if limits.maximum is None else min(time, limits.maximum)

    def _register(self, machine: Machine) -> None:
        if machine.deleting is not None or machine.ended is not None:
            return
        machine.registered = self._kernel.now
        node = node_of(machine.pool, machine.type, machine.offer, machine.node, ready=False)
        self._server.create("Node", node)
        self._tell(machine)
        self._kernel.later(self._kernel.now + self._spec.initialization, lambda: self._report_ready(machine))

    def _report_ready(self, machine: Machine) -> None:
        """The kubelet says that it is ready; whoever put startup taints there takes them away."""
        node: Node | None = self._server.find("Node", machine.node)
        if node is None or machine.ended is not None:
            return
        startup = machine.pool.startup_taints
        if startup:
            taints = tuple(taint for taint in node.spec.taints if taint not in startup)
            self._server.update("Node", replace(node, spec=replace(node.spec, taints=taints)))
        self._faults.report(machine.node, ready=True)

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        """A machine is ready when its Node takes pods: the lifecycle controller has taken the taint away."""
        node: Node = old if new is None else new
        machine = self.machines.get(node.metadata.name)
        if machine is None:
            if node.metadata.name in self.left_behind:
                self._clear_up(new, node.metadata.name)
            return
        if new is None:
            # A Node that somebody else has removed leaves a machine behind that is of no use.
            if machine.ended is None:
                self.terminate(machine.node, LOST)
        elif machine.ready is None and machine.registered is not None and _takes_pods(node):
            machine.ready = self._kernel.now
            self._tell(machine)

    def _end(self, machine: Machine) -> None:
        if machine.ended is not None:
            return
        machine.ended = self._kernel.now
        machine.end = machine.end or FAILED
        del self.machines[machine.node]
        node: Node | None = None if machine.registered is None else self._server.find("Node", machine.node)
        if node is not None and machine.deleting is None:
            self.left_behind.add(machine.node)
        for listener in self.listeners:
            listener.machine_ended(machine)
        if node is None:
            return
        self._kubelets.stop_node(machine.node)
        if machine.node in self.left_behind:
            self._faults.fail_node(machine.node, for_good=True)
            self._clear_up(node, machine.node)
        else:
            self._server.remove("Node", machine.node)

    def _clear_up(self, node: Node | None, name: str) -> None:
        """Remove a Node without a machine at the next look, if it says that it is not ready, or says nothing."""
        if node is None:
            self.left_behind.discard(name)
        elif ready_status(node) != "True":
            since = (self._kernel.now - self._start) % NODE_MONITOR_PERIOD
            self._kernel.later(self._kernel.now + NODE_MONITOR_PERIOD - since, lambda: self._remove(name))

    def _remove(self, name: str) -> None:
        if name in self.left_behind:
            self._server.remove("Node", name)

    def _tell(self, machine: Machine) -> None:
        for listener in self.listeners:
            listener.machine_changed(machine)

    # ---- spot --------------------------------------------------------------------------------

    def _plan_interruption(self, machine: Machine) -> None:
        """Interruptions come without memory: the time until the first is exponential."""
        rate = self._spec.spot.interruptions_per_hour
        if machine.offer.capacity_type != SPOT or not rate:
            return
        u = self._streams.uniform("supply/spot", machine.node)
        notice = self._kernel.now + nanoseconds(-math.log1p(-u) * _HOUR / rate)
        self._kernel.later(notice, lambda: self._notice(machine))

    def _notice(self, machine: Machine) -> None:
        if machine.ended is not None or machine.deleting is not None:
            return
        machine.end = INTERRUPTED
        for listener in self.listeners:
            listener.machine_noticed(machine)
        self._kernel.later(self._kernel.now + self._spec.spot.notice, lambda: self._end(machine))


def _takes_pods(node: Node) -> bool:
    """Whether NoSchedule of a node that is not ready has gone.

    NoExecute goes up to 5 s later, but pods tolerate it for 300 s unless they say otherwise, and have come by then.
    """
    return not any(taint.effect == NO_SCHEDULE and taint.key in _NOT_YET for taint in node.spec.taints)
