"""Want of memory: containers over their limit, kills by the kernel, and evictions by kubelets.

Every 10 s, as the kubelet's eviction manager does, the nodes are looked at on which something may have run out: those
with a pod that used more than `NEAR` of its limit at the last look, and those whose pods used more than `NEAR` of what
there is. All others cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError
from stowplan_autoscaling.contention import (
    HARD_THRESHOLD,
    UNLIMITED,
    available_memory,
    eviction_message,
    eviction_victims,
    kernel_victims,
    over_limit,
    under_pressure,
)
from stowplan_autoscaling.contention.memory import (
    CLEANUP_TIMEOUT,
    EVICTED,
    MONITORING_INTERVAL,
    PRESSURE_TRANSITION,
)
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import NodeCondition

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.kubelet import Kubelets
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod

    from .load_engine import LoadEngine
    from .pods import PodBook
    from .roster import Booleans, Ints
    from .world import World

NEAR: Final = 0.8
_PRESSURE: Final = "MemoryPressure"
_INTERVAL: Final = round(MONITORING_INTERVAL * SECOND)


class MemoryWatch:
    """The one of a run."""

    def __init__(self, world: World, book: PodBook, loads: LoadEngine, kubelets: Kubelets) -> None:
        self._world = world
        self._book = book
        self._loads = loads
        self._kubelets = kubelets
        self._checks = 0
        self._has_limits = False
        self._limits_as_of = -1
        """The version of the roster that this was found out for."""
        self._short_at: dict[int, int] = {}
        """By node under memory pressure: when it was short of memory last."""
        self._evicting: dict[int, tuple[str, int]] = {}
        """By node: the pod that is on its way out, and until when that is waited for."""

    def start(self) -> None:
        """Look every 10 s."""
        self._plan()

    def _plan(self) -> None:
        self._checks += 1
        kernel = self._world.kernel
        kernel.later(self._world.start + self._checks * _INTERVAL, self._check)

    def _check(self) -> None:
        self._plan()
        if self._short_at or self._may_be_short():
            self._loads.look()
            self._kill()
            self._evict()

    def _may_be_short(self) -> bool:
        """By the last look, and by the limits: whether anything is near its bound."""
        roster = self._loads.roster
        rows = roster.rows
        if not rows.size:
            return False
        used = roster.memory[rows]
        if self._limits_as_of != roster.version:
            self._limits_as_of = roster.version
            self._has_limits = bool((roster.memory_limit[rows] != UNLIMITED).any())
        if self._has_limits:
            limit = roster.memory_limit[rows]
            if bool(((limit != UNLIMITED) & (used > NEAR * limit)).any()):
                return True
        nodes = self._loads.nodes
        together = np.bincount(roster.node[rows], weights=used, minlength=len(nodes.names))
        return bool((together > NEAR * nodes.allocatable).any())

    # ---- kills -------------------------------------------------------------------------------

    def _kill(self) -> None:
        roster, nodes = self._loads.roster, self._loads.nodes
        rows = roster.rows
        used = np.rint(roster.memory[rows]).astype(np.int64)
        over = over_limit(used, roster.memory_limit[rows])
        for row in rows[over].tolist():
            self._oom(roster.keys[row], "Memory cgroup out of memory: its limit")
        rows, used, node = self._living()
        victims = kernel_victims(
            node=node,
            used=used,
            oom_score=roster.oom_score[rows],
            capacity=nodes.memory,
            allocatable=nodes.allocatable,
        )
        for each in victims.values():
            for position in each:
                self._oom(roster.keys[int(rows[position])], "Out of memory on the node")

    def _living(self) -> tuple[Ints, Ints, Ints]:
        """Rows, use and node of the pods that hold memory; what was killed just now holds none."""
        roster = self._loads.roster
        rows = roster.rows
        used = np.rint(roster.memory[rows]).astype(np.int64)
        return rows, used, roster.node[rows]

    def _oom(self, key: str, why: str) -> None:
        life = self._book.lives.get(key)
        if life is None or not self._kubelets.kill(key):
            return
        name = "" if life.workload is None else life.workload.name
        self._world.recorder.count("oom_kills", name)
        self._world.event("OOMKilling", f"Pod {key}", why, source="kernel", kind="Warning")
        rows = self._loads.roster
        for row in rows.rows.tolist():
            if rows.keys[row] == key:
                rows.memory[row] = 0.0

    # ---- evictions ---------------------------------------------------------------------------

    def _evict(self) -> None:
        roster, nodes = self._loads.roster, self._loads.nodes
        rows, used, node = self._living()
        available = available_memory(node=node, used=used, capacity=nodes.memory, allocatable=nodes.allocatable)
        short = under_pressure(available) & nodes.works
        self._report(short)
        short &= ~self._waits(len(nodes.names))
        if not short.any():
            return
        victims = eviction_victims(
            node=node,
            nodes=short,
            used=used,
            request=roster.memory_request[rows],
            priority=roster.priority[rows],
            critical=roster.critical[rows],
        )
        for number, position in victims.items():
            self._evict_pod(number, roster.keys[int(rows[position])], int(used[position]), int(available[number]))

    def _report(self, short: Booleans) -> None:
        """The node's condition, as its kubelet posts it: True while it is short, and for 5 min after."""
        now = self._world.kernel.now
        for node in np.flatnonzero(short).tolist():
            if node not in self._short_at:
                self._set_pressure(node, "True")
            self._short_at[node] = now
        for node, since in list(self._short_at.items()):
            if now - since >= PRESSURE_TRANSITION * SECOND:
                del self._short_at[node]
                self._set_pressure(node, "False")

    def _set_pressure(self, number: int, status: str) -> None:
        node: Node | None = self._world.server.find("Node", self._loads.nodes.names[number])
        if node is not None:
            others = tuple(each for each in node.status.conditions if each.type != _PRESSURE)
            conditions = (*others, NodeCondition(type=_PRESSURE, status=status))
            self._world.server.update_status("Node", replace(node, status=replace(node.status, conditions=conditions)))

    def _waits(self, count: int) -> Booleans:
        """Nodes that have evicted a pod which is not gone yet; they wait half a minute at most."""
        found = np.zeros(count, np.bool_)
        for node, (key, until) in list(self._evicting.items()):
            if key in self._book.lives and self._world.kernel.now < until and self._kubelets.running(key):
                found[node] = True
            else:
                del self._evicting[node]
        return found

    def _evict_pod(self, node: int, key: str, used: int, available: int) -> None:
        life = self._book.lives.get(key)
        if life is None:
            return
        try:
            pod: ClusterPod = self._world.server.get("Pod", key)
        except ApiError:
            return
        message = eviction_message(
            max(available, 0), [(pod.spec.containers[0].name, used, life.memory)], threshold=HARD_THRESHOLD
        )
        if not self._kubelets.evict(key, EVICTED, message=message):
            return
        life.end = EVICTED
        self._evicting[node] = key, self._world.kernel.now + round(CLEANUP_TIMEOUT * SECOND)
        name = "" if life.workload is None else life.workload.name
        self._world.recorder.count("evictions", name)
