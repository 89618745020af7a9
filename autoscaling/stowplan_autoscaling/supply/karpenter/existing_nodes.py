"""The nodes that exist, as one scheduling round sees them; a pod goes to the first node that takes it.

Most pods look at nothing but the node. Rooms only shrink during a round, so a node that had none for such a pod has
none for the next of its kind, and pods of a kind that follow one another fill up one node after the other.

Follows pkg/controllers/provisioning/scheduling/existingnode.go and addToExistingNode of scheduler.go, Karpenter core
v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from stowplan_scheduler.objects import Pod

from .host_ports import PortUse
from .instance_types import Mask
from .leftover import Leftover
from .requirements import Algebra, Requirements
from .shapes import Footing, Shape
from .snapshot import Snapshot
from .state_nodes import StateNode
from .taints import TaintMemo
from .topology import ShapeRules, Topology


class _Cursor:
    """The rows that took pods of a kind before the round; those before `at` do not any more."""

    __slots__ = ("at", "rows")

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self.at = 0


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
        self._gone = frozenset(gone)
        self._settling_at = None if snapshot.table.settled is None else settling_at
        self._open: Mask | None = None
        self._settled: Mask | None = None
        self._left = Leftover(snapshot.table)
        self._cursors: dict[tuple[Footing, bool], _Cursor] = {}
        self._requirements: dict[int, Requirements] = {}
        self._are_own = True
        """Whether nothing is required of any row but its labels."""
        self._ports: dict[int, PortUse] = {}
        self._dead: dict[Shape, Mask] = {}

    @property
    def minds_candidates(self) -> bool:
        """Whether it makes a difference that a pod is a candidate's."""
        return self._settling_at is not None

    def node(self, row: int) -> StateNode:
        """The node of a row."""
        return self._snapshot.active[row]

    # ---- pods that look at nothing but the node ----------------------------------------------------------------------

    def fill(self, pods: Sequence[Pod], shape: Shape, rules: ShapeRules, *, is_candidate: bool) -> int:
        """Put pods that are alike on the nodes that take them. Returns how many of them found a place, from the front.

        None of them where more than the node matters. `is_candidate` as for `place`; it is the same for all.
        """
        footing = self._footing(shape, rules)
        if footing is None:
            return 0
        cursor = self._cursor(footing, is_candidate=is_candidate)
        if cursor.at == len(cursor.rows):
            return 0
        taken, cursor.at = self._left.pack(cursor.rows, cursor.at, self._gone, footing.demand, len(pods))
        placed = 0
        for row, count in taken:
            self.pods.setdefault(row, []).extend(pods[placed : placed + count])
            placed += count
        return placed

    def _footing(self, shape: Shape, rules: ShapeRules) -> Footing | None:
        """What a pod of the shape asks of nodes, if nothing else about them matters in this round."""
        footing = shape.footing
        if footing is None or not rules.are_none:
            return None
        return footing if self._are_own or not len(footing.requirements) else None

    def _cursor(self, footing: Footing, *, is_candidate: bool) -> _Cursor:
        settling_at = self._settling_at if is_candidate else None
        key = (footing, settling_at is not None)
        known = self._cursors.get(key)
        if known is None:
            snapshot = self._snapshot
            rows = (
                snapshot.table.takers(footing)
                if settling_at is None
                else snapshot.table.settled_takers(footing, settling_at)
            )
            known = self._cursors[key] = _Cursor(rows)
        return known

    # ---- any pod -----------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, shape: Shape, topology: Topology, rules: ShapeRules, *, is_candidate: bool) -> bool:
        """Put the pod on the first node that takes it. `is_candidate`: consolidation would remove the node it is on."""
        if not self._size:
            return False
        if self._footing(shape, rules) is not None:
            return bool(self.fill((pod,), shape, rules, is_candidate=is_candidate))
        mask = self._open_rows().copy()
        for column, amount in shape.demand:
            mask &= self._left.column(column) >= amount
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

    def _open_rows(self) -> Mask:
        """The rows to choose from; they are worked out with those that have settled."""
        if self._open is None:
            snapshot = self._snapshot
            self._open = snapshot.table.sound.copy()
            self._open[list(self._gone)] = False
            if self._settling_at is not None and snapshot.table.settled is not None:
                self._settled = snapshot.table.settled <= self._settling_at
        return self._open

    def _fits(
        self, row: int, pod: Pod, shape: Shape, topology: Topology, rules: ShapeRules,
        seen: dict[Requirements, Requirements | None],
    ) -> Requirements | None:  # fmt: skip
        snapshot = self._snapshot
        own = self._requirements.get(row) or snapshot.table.requirements[row]
        merged = self._algebra.on_node(own, shape.requirements)
        if merged is None:
            # A label that nobody mentions may still be mentioned: by a pod that goes to the node and does without it.
            if not own.intersects(shape.requirements):
                self._bury(shape, row)
            return None
        tolerated = self._taint_memo.tolerated(snapshot.table.taints[row], shape.tolerations)
        if not tolerated or not (shape.host is None or shape.host.has(snapshot.table.places.hosts[row])):
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
        self._left.take(row, shape.demand)
        self._requirements[row] = requirements
        self._are_own = self._are_own and requirements == self._snapshot.table.requirements[row]
        topology.record(shape, self._snapshot.table.taints[row], requirements, self._snapshot.table.places.hosts[row])
        if shape.ports:
            self._port_use(row).add(pod.key, shape.ports)
