"""The nodes that exist, as one scheduling round sees them; a pod goes to the first node that takes it.

Follows pkg/controllers/provisioning/scheduling/existingnode.go and addToExistingNode of scheduler.go, Karpenter core
v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stowplan_scheduler.objects import Pod

from .host_ports import PortUse
from .instance_types import Column, Mask
from .requirements import Algebra, Requirements
from .shapes import Shape
from .snapshot import Snapshot
from .state_nodes import StateNode
from .taints import TaintMemo
from .topology import ShapeRules, Topology


class ExistingNodes:
    """The rows of a snapshot but for some that are `gone`, and what the round has put on them.

    `pods` are those that the round placed, by row. With `settling_at` a time, pods of candidates do not go to nodes
    that have not settled by then.
    """

    def __init__(
        self, snapshot: Snapshot, gone: Iterable[int], algebra: Algebra, taints: TaintMemo, settling_at: int | None
    ) -> None:
        self.pods: dict[int, list[Pod]] = {}
        self._snapshot = snapshot
        self._algebra = algebra
        self._taint_memo = taints
        self._size = len(snapshot.active)
        self._open: Mask = snapshot.sound.copy()
        self._open[list(gone)] = False
        self._settled: Mask | None = None
        if settling_at is not None and snapshot.settled is not None:
            self._settled = snapshot.settled <= settling_at
        self._columns: dict[int, Column] = {}
        self._requirements: dict[int, Requirements] = {}
        self._ports: dict[int, PortUse] = {}
        self._dead: dict[Shape, Mask] = {}

    def node(self, row: int) -> StateNode:
        """The node of a row."""
        return self._snapshot.active[row]

    def _column(self, column: int) -> Column:
        known = self._columns.get(column)
        return self._snapshot.column(column) if known is None else known

    def place(self, pod: Pod, shape: Shape, topology: Topology, rules: ShapeRules, *, is_candidate: bool) -> bool:
        """Put the pod on the first node that takes it. `is_candidate`: consolidation would remove the node it is on."""
        if not self._size:
            return False
        mask = self._open.copy()
        for column, amount in shape.demand:
            mask &= self._column(column) >= amount
        dead = self._dead.get(shape)
        if dead is not None:
            mask &= ~dead
        if is_candidate and self._settled is not None:
            mask &= self._settled
        if rules.hosts:
            allowed = topology.open_hosts(rules, shape, 0, self._size)
            if allowed is not None:
                mask &= allowed
        seen: dict[Requirements, Requirements | None] = {}
        for row in np.flatnonzero(mask).tolist():
            found = self._fits(row, pod, shape, topology, rules, seen)
            if found is not None:
                self._add(row, pod, shape, topology, found)
                return True
        return False

    def _fits(
        self, row: int, pod: Pod, shape: Shape, topology: Topology, rules: ShapeRules,
        seen: dict[Requirements, Requirements | None],
    ) -> Requirements | None:  # fmt: skip
        snapshot = self._snapshot
        own = self._requirements.get(row) or snapshot.requirements[row]
        merged = self._algebra.on_node(own, shape.requirements)
        if merged is None:
            # A label that nobody mentions may still be mentioned: by a pod that goes to the node and does without it.
            if not own.intersects(shape.requirements):
                self._bury(shape, row)
            return None
        tolerated = self._taint_memo.tolerated(snapshot.taints[row], shape.tolerations)
        if not tolerated or not (shape.host is None or shape.host.has(snapshot.hosts[row])):
            self._bury(shape, row)
            return None
        if shape.ports and self._port_use(row).conflicts(pod.key, shape.ports):
            return None
        if not rules.others:
            return merged
        if merged not in seen:
            narrowed = topology.narrowed(rules, shape, merged, is_machine=False)
            seen[merged] = None if narrowed is None else self._algebra.shared(narrowed)
        return seen[merged]

    def _bury(self, shape: Shape, row: int) -> None:
        """The node will not take pods of the shape in this round."""
        dead = self._dead.get(shape)
        if dead is None:
            dead = self._dead[shape] = np.zeros(self._size, dtype=np.bool_)
        dead[row] = True

    def _port_use(self, row: int) -> PortUse:
        known = self._ports.get(row)
        if known is None:
            known = self._ports[row] = self.node(row).ports.copy()
        return known

    def _add(self, row: int, pod: Pod, shape: Shape, topology: Topology, requirements: Requirements) -> None:
        self.pods.setdefault(row, []).append(pod)
        for column, amount in shape.demand:
            known = self._columns.get(column)
            if known is None:
                known = self._columns[column] = self._snapshot.column(column).copy()
            known[row] -= amount
        self._requirements[row] = requirements
        topology.record(shape, self._snapshot.taints[row], requirements, self._snapshot.hosts[row])
        if shape.ports:
            self._port_use(row).add(pod.key, shape.ports)
