"""What scheduling rounds over one state of the cluster have in common, worked out once.

Consolidation asks many times "what if these nodes were gone?" before anything changes: the nodes in the order in which
they are tried, what is left on them in columns, the pods that wait and those that count in topology are the same each
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.objects import Taint

from .amounts import Amounts, Axis, Demand, add, offered
from .budget_limits import BudgetLimits
from .cluster_state import ClusterState
from .consolidatable import settled_at
from .instance_types import Column, Mask
from .node_pools import NodePool
from .node_rows import NodeRows
from .pool_counts import PoolCounts, count_nodes
from .requirements import Algebra, Requirements
from .room import Room
from .shapes import Footing, Shape
from .state_nodes import KnownPod, StateNode
from .taints import TaintMemo

Times = NDArray[np.int64]

_NEVER: Final = -(2**63)
_LAST: Final = 2**63 - 1


class LabelClass(NamedTuple):
    """Pods on nodes with the same namespace and labels, counted by state node."""

    namespace: str
    labels: Mapping[str, str]
    pods: dict[str, tuple[StateNode, int]]


class Snapshot:
    """The state of the cluster at one version, for pools and daemon sets of one catalogue.

    `nodes`: by name; `active`: those that are not on their way out, initialized ones first, then by name: the rows of
    the columns. `pending`: the pods that wait for capacity.
    """

    def __init__(
        self, state: ClusterState, rows: NodeRows, pools: Mapping[str, NodePool], pending: Sequence[KnownPod],
        algebra: Algebra, taints: TaintMemo, axis: Axis,
    ) -> None:  # fmt: skip
        self.version = state.version
        self.pending = pending
        self.limits = BudgetLimits(state.budgets.values())
        self.nodes = state.in_order()
        self.deleting = [node for node in self.nodes if node.is_deleting]
        self.deleting_names = {node.name for node in self.deleting}
        self.active = [node for node in self.nodes if not node.is_deleting]
        self.active.sort(key=lambda node: not node.is_initialized)
        self.rows = {node.name: row for row, node in enumerate(self.active)}
        self.remaining = [rows.remaining(node) for node in self.active]
        self.sound: Mask = np.array([all(n >= 0 for n in left.values()) for left in self.remaining], dtype=np.bool_)
        self.requirements: list[Requirements] = [node.label_requirements(algebra) for node in self.active]
        self.taints: list[tuple[Taint, ...]] = [node.taints for node in self.active]
        self.hosts = [node.host for node in self.active]
        self.rows_of_host: dict[str, list[int]] = {}
        for row, host in enumerate(self.hosts):
            self.rows_of_host.setdefault(host, []).append(row)
        settled = [settled_at(pools.get(node.pool or ""), node.claim) for node in self.active]
        self.settled: Times | None = None
        if any(when is not None for when in settled):
            self.settled = np.array([_NEVER if when is None else when for when in settled], dtype=np.int64)
        self._algebra = algebra
        self._taint_memo = taints
        self._axis = axis
        self._columns: dict[int, Column] = {}
        self._capacities: dict[str, dict[str, int]] = {}
        self._lists: dict[int, list[int]] = {}
        self._fitting: dict[Demand, Mask] = {}
        self._pod_counts: dict[Demand, Column] = {}
        self._takers: dict[Footing, list[int]] = {}
        self._settled_takers: dict[Footing, list[int]] = {}
        self.room = Room(self, self.sound)
        self._settled_room = self.room
        self._settled_until = _NEVER
        """Before this moment, no other node will have settled."""
        self._counts: PoolCounts | None = None
        self._classes: list[LabelClass] | None = None
        self._holders: list[tuple[StateNode, KnownPod]] | None = None

    def column(self, column: int) -> Column:
        """What is left of a resource on each row; not to be changed."""
        known = self._columns.get(column)
        if known is None:
            name = self._axis.name(column)
            known = np.array([offered(name, left.get(name, 0)) for left in self.remaining], dtype=np.int64)
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
            known = np.full(len(self.active), _LAST, dtype=np.int64)
            for column, amount in demand:
                known = np.minimum(known, self.column(column) // amount)
            known = np.where(self.sound, known.clip(min=0), 0)
            known.setflags(write=False)
            self._pod_counts[demand] = known
        return known

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

    def capacity(self, pool: str) -> Amounts:
        """What the active nodes of a pool have together, in nano units."""
        known = self._capacities.get(pool)
        if known is None:
            known = self._capacities[pool] = {}
            for node in self.active:
                if node.pool == pool:
                    add(known, node.capacity())
        return known

    def pool_counts(self) -> PoolCounts:
        """How many nodes the pools have for their budgets."""
        if self._counts is None:
            self._counts = count_nodes(self.nodes)
        return self._counts

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

    def classes(self) -> list[LabelClass]:
        """The pods on nodes that count in topology, by namespace and labels."""
        if self._classes is None:
            self._classes = _label_classes(self.nodes)
        return self._classes

    def holders(self) -> list[tuple[StateNode, KnownPod]]:
        """The pods on nodes with required anti-affinity, which keep others out of their domains."""
        if self._holders is None:
            self._holders = [
                (node, known)
                for node in self.nodes
                if node.node is not None
                for known in (node.bound.values() if node.keeps_others_out else ())
                if known.shape.keeps_others_out
            ]
        return self._holders


def _label_classes(nodes: Sequence[StateNode]) -> list[LabelClass]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], LabelClass] = {}
    by_shape: dict[Shape, LabelClass] = {}
    for node in nodes:
        for known in node.bound.values() if node.node is not None else ():
            if known.pod.is_terminating:
                continue
            shape = known.shape
            group = by_shape.get(shape)
            if group is None:
                key = (shape.namespace, frozenset(shape.labels.items()))
                group = found.get(key)
                if group is None:
                    group = found[key] = LabelClass(shape.namespace, shape.labels, {})
                by_shape[shape] = group
            count = group.pods.get(node.name)
            group.pods[node.name] = (node, 1 if count is None else count[1] + 1)
    return list(found.values())
