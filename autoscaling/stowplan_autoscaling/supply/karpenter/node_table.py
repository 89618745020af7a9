"""The active nodes as rows and what is left on them as columns, for as long as they stay the same.

A table is never changed; the next one takes over the columns of the last and puts the rows that changed right, as long
as the same nodes stand in the same order. What was found out about the rows for one kind of pod is kept with the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.objects import Taint

from .amounts import Axis, Demand, offered
from .instance_types import Column, Mask
from .node_rows import NodeRow
from .requirements import Algebra, Requirements
from .room import Room
from .shapes import Footing
from .taints import TaintMemo

Times = NDArray[np.int64]

_NEVER: Final = -(2**63)
_LAST: Final = 2**63 - 1


class Places:
    """Where nodes stand: `hosts` by row, `rows` by name, `rows_of_host` by host name."""

    def __init__(self, nodes: Sequence[NodeRow]) -> None:
        self.hosts = [node.host for node in nodes]
        self.rows = {node.name: row for row, node in enumerate(nodes)}
        self.rows_of_host: dict[str, list[int]] = {}
        for row, host in enumerate(self.hosts):
            self.rows_of_host.setdefault(host, []).append(row)


class NodeTable:
    """Rows of nodes. `settled`: when each has settled, or long ago where that does not apply; None: for none.

    `sound`: nothing on the row is below 0. `places` and `columns`: what is known already.
    """

    def __init__(
        self, nodes: Sequence[NodeRow], axis: Axis, algebra: Algebra, taints: TaintMemo, places: Places | None = None,
        columns: dict[int, Column] | None = None,
    ) -> None:  # fmt: skip
        self._nodes = nodes
        self._axis = axis
        self._algebra = algebra
        self._taint_memo = taints
        self.places = places or Places(nodes)
        self._columns = columns or {}
        self.nodes = [node.node for node in nodes]
        self.requirements: list[Requirements] = [node.requirements for node in nodes]
        self.taints: list[tuple[Taint, ...]] = [node.taints for node in nodes]
        self.sound: Mask = np.array([node.is_sound for node in nodes], dtype=np.bool_)
        settled = [node.settled_at for node in nodes]
        self.settled: Times | None = None
        if any(when is not None for when in settled):
            self.settled = np.array([_NEVER if when is None else when for when in settled], dtype=np.int64)
        self._lists: dict[int, list[int]] = {}
        self._fitting: dict[Demand, Mask] = {}
        self._pod_counts: dict[Demand, Column] = {}
        self._takers: dict[Footing, list[int]] = {}
        self._settled_takers: dict[Footing, list[int]] = {}
        self.room = Room(self, self.sound)
        self._settled_room = self.room
        self._settled_until = _NEVER
        """Before this moment, no other node will have settled."""

    def renewed(self, nodes: Sequence[NodeRow]) -> NodeTable:
        """The table of other rows: the same if they are, with what is known of those that have not changed."""
        changed = _changes(self._nodes, nodes)
        if changed is None:
            return NodeTable(nodes, self._axis, self._algebra, self._taint_memo)
        if not changed:
            return self
        columns = {
            column: self._put_right(column, amounts, nodes, changed) for column, amounts in self._columns.items()
        }
        return NodeTable(nodes, self._axis, self._algebra, self._taint_memo, self.places, columns)

    def _put_right(self, column: int, amounts: Column, nodes: Sequence[NodeRow], changed: Sequence[int]) -> Column:
        name = self._axis.name(column)
        known = amounts.copy()
        for row in changed:
            known[row] = offered(name, nodes[row].remaining.get(name, 0))
        known.setflags(write=False)
        return known

    # ---- what is left ------------------------------------------------------------------------------------------------

    def column(self, column: int) -> Column:
        """What is left of a resource on each row; not to be changed."""
        known = self._columns.get(column)
        if known is None:
            name = self._axis.name(column)
            known = np.array([offered(name, node.remaining.get(name, 0)) for node in self._nodes], dtype=np.int64)
            known.setflags(write=False)
            self._columns[column] = known
        return known

    def listed(self, column: int) -> list[int]:
        """The same as a list; not to be changed."""
        known = self._lists.get(column)
        if known is None:
            known = self._lists[column] = self.column(column).tolist()
        return known

    def fitting(self, demand: Demand) -> Mask:
        """The rows with room for a pod that demands this; not to be changed."""
        known = self._fitting.get(demand)
        if known is None:
            known = self.sound.copy()
            for column, amount in demand:
                known &= self.column(column) >= amount
            known.setflags(write=False)
            self._fitting[demand] = known
        return known

    def counts(self, demand: Demand) -> Column:
        """How many pods that demand this each row has room for; not to be changed."""
        known = self._pod_counts.get(demand)
        if known is None:
            known = np.full(len(self._nodes), _LAST, dtype=np.int64)
            for column, amount in demand:
                known = np.minimum(known, self.column(column) // amount)
            known = np.where(self.sound, known.clip(min=0), 0)
            known.setflags(write=False)
            self._pod_counts[demand] = known
        return known

    # ---- who takes what ----------------------------------------------------------------------------------------------

    def takers(self, footing: Footing) -> list[int]:
        """The rows that would take a pod with this footing, in order; not to be changed."""
        known = self._takers.get(footing)
        if known is None:
            joined, tolerated = self._algebra.on_node, self._taint_memo.tolerated
            known = self._takers[footing] = [
                row
                for row in np.flatnonzero(self.fitting(footing.demand)).tolist()
                if joined(self.requirements[row], footing.requirements) is not None
                and tolerated(self.taints[row], footing.tolerations)
            ]
        return known

    def settled_takers(self, footing: Footing, now: int) -> list[int]:
        """Those of them that have settled. `now` never comes before that of an earlier question."""
        if self.settled is None:
            return self.takers(footing)
        self._see_settled(now)
        known = self._settled_takers.get(footing)
        if known is None:
            settled = self.settled
            known = self._settled_takers[footing] = [row for row in self.takers(footing) if settled[row] <= now]
        return known

    # ---- who has settled ---------------------------------------------------------------------------------------------

    def none_settles_between(self, then: int, now: int) -> bool:
        """Whether the nodes that had settled by `then` are those that have by `now`, which is later."""
        return self.settled is None or not bool(((self.settled > then) & (self.settled <= now)).any())

    def settled_room(self, now: int) -> Room:
        """The room on the nodes that have settled. `now` never comes before that of an earlier question."""
        self._see_settled(now)
        return self._settled_room

    def _see_settled(self, now: int) -> None:
        if self.settled is None or now < self._settled_until:
            return
        has_settled = self.settled <= now
        self._settled_room = Room(self, self.sound & has_settled)
        self._settled_takers.clear()
        self._settled_until = int(self.settled[~has_settled].min(initial=_LAST))


def _changes(before: Sequence[NodeRow], after: Sequence[NodeRow]) -> list[int] | None:
    """The rows that are others now; None where they are not those of the same nodes, with the same names."""
    if len(before) != len(after):
        return None
    changed = [row for row, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new]
    for row in changed:
        old, new = before[row], after[row]
        if old.node is not new.node or old.name != new.name or old.host != new.host:
            return None
    return changed
