"""What scheduling rounds over one state of the cluster have in common, worked out once.

Consolidation asks many times "what if these nodes were gone?" before anything changes: the nodes in the order in which
they are tried, what is left on them in columns, the pods that wait and those that count in topology are the same each
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .amounts import Amounts, add
from .budget_limits import BudgetLimits
from .cluster_state import ClusterState
from .node_rows import NodeRow
from .node_table import NodeTable
from .pool_counts import PoolCounts, count_nodes
from .shapes import Shape
from .state_nodes import KnownPod, StateNode
from .topology_counts import DomainCounts


class LabelClass(NamedTuple):
    """Pods on nodes with the same namespace and labels, counted by state node."""

    namespace: str
    labels: Mapping[str, str]
    pods: dict[str, tuple[StateNode, int]]


class Snapshot:
    """The state of the cluster at one version, for pools and daemon sets of one catalogue.

    `nodes`: by name; `active`: those that are not on their way out, initialized ones first, then by name: the rows of
    `table`. `pending`: the pods that wait for capacity.
    """

    def __init__(
        self, state: ClusterState, rows: Sequence[NodeRow], table: NodeTable, pending: Sequence[KnownPod],
        limits: BudgetLimits,
    ) -> None:  # fmt: skip
        self.version = state.version
        self.pending = pending
        self.limits = limits
        self.table = table
        self.nodes = [row.node for row in rows]
        self.deleting = [row.node for row in rows if row.is_deleting]
        self.deleting_names = {node.name for node in self.deleting}
        self.active = table.nodes
        self.rows = table.places.rows
        self._node_rows = rows
        self._capacities: dict[str, dict[str, int]] = {}
        self._counts: PoolCounts | None = None
        self._classes: list[LabelClass] | None = None
        self._domain_counts: DomainCounts | None = None
        self._holders: list[tuple[StateNode, KnownPod]] | None = None

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

    def classes(self) -> list[LabelClass]:
        """The pods on nodes that count in topology, by namespace and labels."""
        if self._classes is None:
            self._classes = _label_classes(self.nodes)
        return self._classes

    def domain_counts(self) -> DomainCounts:
        """Nodes and pods by domain."""
        if self._domain_counts is None:
            self._domain_counts = DomainCounts(self)
        return self._domain_counts

    def holders(self) -> list[tuple[StateNode, KnownPod]]:
        """The pods on nodes with required anti-affinity, which keep others out of their domains."""
        if self._holders is None:
            self._holders = [
                (row.node, known)
                for row in self._node_rows
                if row.keeps_others_out and row.node.node is not None
                for known in row.node.bound.values()
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
