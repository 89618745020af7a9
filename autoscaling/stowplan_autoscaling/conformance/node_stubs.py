"""Nodes that fail: heartbeats, reports and silences of kubelets, and the controllers that watch over nodes.

Plays what tests/conformance/controllers/internal/clustersim/nodes.go plays, at the same moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.controllers.node_lifecycle import NodeLifecycleController
from stowplan_autoscaling.cluster.controllers.taint_eviction import Deletion, TaintEvictionController
from stowplan_autoscaling.cluster.node_faults import LEASE_PERIOD, READY, NodeFaults
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import FALSE, TRUE, UNKNOWN, ClusterPod
from stowplan_autoscaling.kernel import MICROSECOND, MILLISECOND, SECOND, Action, Kernel
from stowplan_autoscaling.streams import Streams
from stowplan_scheduler.defaulting import add_default_tolerations
from stowplan_scheduler.objects import NodeCondition

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.informers import Informers

    from .cluster_world import PodLife
    from .meter import Meter

FIRST_LEASE: Final = 1_700 * MILLISECOND
"""From the creation of a node to its first lease."""

MONITOR_PERIOD: Final = 5 * SECOND + MICROSECOND
"""The checks of the node lifecycle controller drift, so that none falls on a taint pass."""


class NodeStubs:
    """The kubelets of one scenario as far as they answer for their nodes. Without its fields it does nothing."""

    def __init__(
        self,
        scenario: Mapping[str, Any],
        kernel: Kernel,
        server: ApiServer,
        lives: Mapping[str, PodLife],
        meter: Meter,
        note: Callable[..., None],
    ) -> None:
        """`lives`: pods by name, in order of creation. `note(type, **fields)` records an event."""
        self._has_lifecycle = bool(scenario.get("nodeLifecycle"))
        self._evicts = self._has_lifecycle or bool(scenario.get("taintEviction"))
        self._kernel = kernel
        self._server = server
        self._lives = lives
        self._meter = meter
        self._note = note
        self._heartbeats = Heartbeats(kernel, server)
        self._waiting: dict[str, list[Action]] = {}
        """What the kubelets of silent nodes did, by node."""
        self._lifecycle: NodeLifecycleController | None = None

    # ---- controllers -------------------------------------------------------------------------

    def add_lifecycle(self, informers: Informers, client: Client) -> None:
        """Make the node lifecycle controller, if it is asked for."""
        if self._has_lifecycle:
            self._lifecycle = NodeLifecycleController(
                self._kernel, informers, client, self._heartbeats, workers=1, period=MONITOR_PERIOD
            )

    def add_eviction(self, informers: Informers, client: Client) -> None:
        """Make the taint eviction controller, if it is asked for."""
        if self._evicts:
            OrderlyEviction(self._kernel, informers, client, self._place)

    def start(self) -> None:
        """Begin the checks."""
        if self._lifecycle is not None:
            self._lifecycle.start()

    def _place(self, key: str) -> tuple[str, int]:
        life = self._lives.get(key.rpartition("/")[2])
        return ("", 0) if life is None else (life.deployment, life.index)

    # ---- API server --------------------------------------------------------------------------

    def admit_node(self, node: Node) -> Node:
        """The kubelet reports its node as ready when it registers it."""
        return _reported(node, ready=True) if self._has_lifecycle else node

    def admit_pod(self, pod: ClusterPod) -> ClusterPod:
        """The DefaultTolerationSeconds plugin."""
        return replace(pod, spec=add_default_tolerations(pod).spec) if self._evicts else pod

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node was written."""
        if old is None and new is not None:
            self._heartbeats.made[new.metadata.name] = self._kernel.now
        elif new is None and old is not None:
            self._waiting.pop(old.metadata.name, None)
        elif old is not None and new is not None and self._evicts and _taints(old) != _taints(new):
            self._note("taints", node=new.metadata.name, message=_taints(new))

    # ---- kubelets ----------------------------------------------------------------------------

    def is_heard(self, node: str, action: Action) -> bool:
        """Whether what a kubelet does shows; if not, `action` runs when its silence ends."""
        waiting = self._waiting.get(node)
        if waiting is None:
            return True
        waiting.append(action)
        return False

    def step(self, step: Mapping[str, Any]) -> bool:
        """Take a step of the script; returns whether it was for this class."""
        operation, name, on = step["op"], step.get("name", ""), bool(step.get("on"))
        if operation == "nodeReady":
            self._report(name, ready=on)
        elif operation == "nodeSilent" and on:
            self._fall_silent(name)
        elif operation == "nodeSilent":
            self._speak(name)
        return operation in {"nodeReady", "nodeSilent"}

    def _fall_silent(self, name: str) -> None:
        if self._server.find("Node", name) is None or name in self._waiting:
            return
        self._waiting[name] = []
        self._heartbeats.fail_node(name)
        for life in self._lives.values():
            if life.node == name:
                self._meter.lose(life)

    def _speak(self, name: str) -> None:
        """A lease, the node's readiness, the pods', and then what they did meanwhile."""
        waiting = self._waiting.pop(name, [])
        if self._server.find("Node", name) is not None:
            self._heartbeats.recover_node(name)
        for life in self._lives.values():
            if life.node == name and life.is_running:
                self._meter.start(life)
        self._report(name, ready=True)
        for action in waiting:
            action()

    def _report(self, name: str, *, ready: bool) -> None:
        node: Node | None = self._server.find("Node", name)
        if node is not None:
            self._heartbeats.posted[name] = self._kernel.now
            self._server.put("Node", _reported(node, ready=ready))
        if ready:
            for pod_name in [pod for pod, life in self._lives.items() if life.node == name and life.ready]:
                self._report_pod(pod_name)

    def _report_pod(self, name: str) -> None:
        pod: ClusterPod = self._server.get("Pod", f"default/{name}")
        if pod.ready in {FALSE, UNKNOWN}:
            pod = replace(pod, ready=TRUE, ready_since=self._server.stamp(self._kernel.now))
        self._server.put("Pod", pod)


class Heartbeats(NodeFaults):
    """Leases at fixed times after the creation of a node (`made`); reports and ends of silence (`posted`) count too."""

    def __init__(self, kernel: Kernel, server: ApiServer) -> None:
        super().__init__(kernel, server, Streams(0))
        self.made: dict[str, int] = {}
        self.posted: dict[str, int] = {}

    def last_heartbeat(self, name: str, created: int) -> int:
        """When the node was heard last."""
        return max(super().last_heartbeat(name, created), self.posted.get(name, 0))

    def recover_node(self, name: str) -> None:
        """It is heard again, at once."""
        self.posted[name] = self._kernel.now
        super().recover_node(name)

    def _last_tick(self, name: str, now: int) -> int:
        first = self.made[name] + FIRST_LEASE
        return self.made[name] if now < first else now - (now - first) % LEASE_PERIOD

    def _post_status(self, name: str, silence: Any) -> None:
        """The report has been made already."""


class OrderlyEviction(TaintEvictionController):
    """Of several deletions that are due at once, the one that comes first by `place` is done first, and all of them
    after what the other controllers write at that instant.
    """

    def __init__(
        self, kernel: Kernel, informers: Informers, client: Client, place: Callable[[str], tuple[str, int]]
    ) -> None:
        super().__init__(kernel, informers, client)
        self._place = place
        self._due: list[tuple[str, Deletion]] = []

    def _begin(self, key: str, deletion: Deletion) -> None:
        deletion.timer = None
        self._due.append((key, deletion))
        if len(self._due) == 1:
            self._kernel.at(self._kernel.now, self._let_pass)

    def _let_pass(self) -> None:
        """At the end of the line of what is due now: go behind those who have come there meanwhile."""
        self._kernel.at(self._kernel.now, self._delete_due)

    def _delete_due(self) -> None:
        due, self._due = self._due, []
        for key, deletion in sorted(due, key=lambda each: (*self._place(each[0]), each[0])):
            super()._begin(key, deletion)


def _reported(node: Node, *, ready: bool) -> Node:
    """The node after a report of its kubelet: one that is ready says nothing of what was unknown before."""
    kept = tuple(
        each for each in node.status.conditions if each.type != READY and not (ready and each.status == UNKNOWN)
    )
    condition = NodeCondition(type=READY, status=TRUE if ready else FALSE)
    return replace(node, status=replace(node.status, conditions=(*kept, condition)))


def _taints(node: Node) -> str:
    return ",".join(sorted(f"{taint.key}:{taint.effect}" for taint in node.spec.taints))
