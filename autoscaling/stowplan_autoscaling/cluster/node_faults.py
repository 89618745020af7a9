"""Nodes that fall silent and come back, and the heartbeats of all others.

    faults = NodeFaults(kernel, server, streams)
    faults.fail_node("n7")

A kubelet renews its lease every 10 s and posts the status of its node every 10 s if that has changed, each at a phase
of its own. Nobody plans an event for that: when a lease was renewed last is worked out when somebody asks, so nodes
that work cost nothing. Periods: pkg/kubelet/kubelet.go (nodeLeaseRenewIntervalFraction of 40 s) and
pkg/kubelet/apis/config/v1beta1/defaults.go (nodeStatusUpdateFrequency) of Kubernetes v1.37.2; the jitter of 4 % on
lease renewals is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import Node, NodeCondition

from .errors import NotFoundError

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.streams import Streams

    from .api_server import ApiServer

LEASE_PERIOD: Final = 10 * SECOND
STATUS_PERIOD: Final = 10 * SECOND
READY: Final = "Ready"

Listener = Callable[[str, bool], None]
"""Told (node, whether its kubelet can be heard)."""


class _Silence:
    """The last time in which a node was not heard."""

    __slots__ = ("begin", "conditions", "end", "posted")

    def __init__(self, begin: int, conditions: tuple[NodeCondition, ...]) -> None:
        self.begin = begin
        self.end: int | None = None
        self.conditions = conditions
        """What its kubelet had reported before."""
        self.posted = 0
        """When it posted its status after that."""


class NodeFaults:
    """The faults of one run."""

    def __init__(self, kernel: Kernel, server: ApiServer, streams: Streams) -> None:
        self._kernel = kernel
        self._server = server
        self._streams = streams
        self._silences: dict[str, _Silence] = {}
        self._gone: set[str] = set()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have somebody told when a node falls silent or is heard again."""
        self._listeners.append(listener)

    # ---- what goes wrong ---------------------------------------------------------------------

    def fail_node(self, name: str, *, for_good: bool = False) -> None:
        """The node's kubelet is heard no more, and never will be `for_good`: it has no machine. Raises NotFoundError.

        A node without a machine can neither fail nor recover once more: for both it is as if it were not there.
        """
        node = self._with_machine(name)
        if for_good:
            self._gone.add(name)
        if self.is_alive(name):
            self._silences[name] = _Silence(self._kernel.now, node.status.conditions)
            self._tell(name, alive=False)

    def recover_node(self, name: str) -> None:
        """It is heard again; it posts its status at its next update. Raises NotFoundError."""
        self._with_machine(name)
        silence = self._silences.get(name)
        if silence is not None and silence.end is None:
            silence.end = self._kernel.now
            self._kernel.later(self._next_status(name), lambda: self._post_status(name, silence))
            self._tell(name, alive=True)

    def _with_machine(self, name: str) -> Node:
        node: Node = self._server.get("Node", name)
        if name in self._gone:
            raise NotFoundError(f'nodes "{name}" has no machine any more')
        return node

    def cordon(self, name: str) -> None:
        """Make a node unschedulable. Raises NotFoundError."""
        self._set_unschedulable(name, unschedulable=True)

    def uncordon(self, name: str) -> None:
        """Make a node schedulable again. Raises NotFoundError."""
        self._set_unschedulable(name, unschedulable=False)

    def report(self, name: str, *, ready: bool, reason: str = "") -> None:
        """Have the kubelet itself report its node as ready or not; a silent one does when it is heard again.

        Raises NotFoundError.
        """
        node: Node = self._server.get("Node", name)
        silence = self._silences.get(name)
        if silence is not None and not silence.posted:
            silence.conditions = _with_ready(silence.conditions, ready=ready, reason=reason)
            return
        self._put_conditions(node, _with_ready(node.status.conditions, ready=ready, reason=reason))

    def _set_unschedulable(self, name: str, *, unschedulable: bool) -> None:
        node: Node = self._server.get("Node", name)
        if node.spec.unschedulable != unschedulable:
            self._server.update("Node", replace(node, spec=replace(node.spec, unschedulable=unschedulable)))

    def _tell(self, name: str, *, alive: bool) -> None:
        for listener in self._listeners:
            listener(name, alive)

    # ---- heartbeats --------------------------------------------------------------------------

    def is_alive(self, name: str) -> bool:
        """Whether the node's kubelet can be heard."""
        silence = self._silences.get(name)
        return silence is None or silence.end is not None

    def is_heard(self, name: str) -> bool:
        """Whether the node is alive and has been heard since it was last silent."""
        silence = self._silences.get(name)
        if silence is None:
            return True
        return silence.end is not None and self.last_heartbeat(name, 0) >= silence.end

    def last_heartbeat(self, name: str, created: int) -> int:
        """When the node renewed its lease or posted its status last; at the earliest when it was created."""
        last = self._last_tick(name, self._kernel.now)
        silence = self._silences.get(name)
        if silence is None:
            return max(last, created)
        if silence.begin < last and (silence.end is None or last < silence.end):
            last = self._last_tick(name, silence.begin)
        return max(last, created, silence.posted)

    def _last_tick(self, name: str, now: int) -> int:
        phase = round(self._streams.uniform("kubelet/lease-phase", name) * LEASE_PERIOD)
        return now - (now - phase) % LEASE_PERIOD

    def _next_status(self, name: str) -> int:
        phase = round(self._streams.uniform("kubelet/status-phase", name) * STATUS_PERIOD)
        now = self._kernel.now
        return now + (phase - now) % STATUS_PERIOD

    def _post_status(self, name: str, silence: _Silence) -> None:
        node: Node | None = self._server.find("Node", name)
        if node is not None and self._silences.get(name) is silence:
            silence.posted = self._kernel.now
            self._put_conditions(node, silence.conditions or (NodeCondition(type=READY, status="True"),))

    def _put_conditions(self, node: Node, conditions: tuple[NodeCondition, ...]) -> None:
        self._server.update_status("Node", replace(node, status=replace(node.status, conditions=conditions)))


def _with_ready(conditions: tuple[NodeCondition, ...], *, ready: bool, reason: str) -> tuple[NodeCondition, ...]:
    default = ("KubeletReady", "True") if ready else ("KubeletNotReady", "False")
    condition = NodeCondition(type=READY, status=default[1], reason=reason or default[0])
    return (*(each for each in conditions if each.type != READY), condition)
