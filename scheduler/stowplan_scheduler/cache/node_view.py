"""A NodeView: the rows a rule is asked about, as they are or as they would be.

A plain view reads the table's columns at its rows. A hypothetical view stands for nodes with pods added or removed
(nominated pods, preemption, what-if): its usage columns come from changed copies of the NodeInfos, one per row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .node_info import NodeInfo
from .node_table import Bools, Int32s, Int64s, NodeTable

Rows = slice | NDArray[np.intp]


class NodeView:
    """`rows` of `table`; with `infos`, the nodes of those rows as given there."""

    __slots__ = ("_columns", "infos", "rows", "size", "table")

    def __init__(self, table: NodeTable, rows: Rows, infos: Sequence[NodeInfo] | None = None) -> None:
        """`rows` is a slice with both ends set, or an array of row numbers."""
        self.table = table
        self.rows = rows
        self.infos = infos
        self._columns: dict[tuple[str, str], Int64s] = {}
        self.size: int = rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    @property
    def is_hypothetical(self) -> bool:
        """Whether pods were added or removed."""
        return self.infos is not None

    def row_numbers(self) -> NDArray[np.intp]:
        """The rows as an array."""
        rows = self.rows
        return np.arange(rows.start, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows

    def info(self, index: int) -> NodeInfo:
        """The (changed) NodeInfo of element `index` of the view."""
        if self.infos is not None:
            return self.infos[index]
        rows = self.rows
        return self.table.infos[rows.start + index if isinstance(rows, slice) else int(rows[index])]

    def labels(self, key: str) -> Int32s:
        """Label codes, 0 where absent."""
        return self.table.labels(key).codes[self.rows]

    @property
    def taints(self) -> Int32s:
        """Codes into `table.taint_sets`."""
        return self.table.taints[self.rows]

    @property
    def unschedulable(self) -> Bools:
        """spec.unschedulable."""
        return self.table.unschedulable[self.rows]

    @property
    def allowed_pods(self) -> Int64s:
        """How many pods the node takes."""
        return self.table.allowed_pods[self.rows]

    @property
    def pod_count(self) -> Int64s:
        """How many pods the node has."""
        if self.infos is not None:
            return np.array([len(info.pods) for info in self.infos], np.int64)
        return self.table.pod_count[self.rows]

    def allocatable(self, resource: str) -> Int64s:
        """Allocatable amount of a resource, 0 where the node has none. Several rules ask, so it is read once."""
        key = ("allocatable", resource)
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = self.table.allocatable(resource)[self.rows]
        return found

    def all_have(self, resource: str) -> bool:
        """Whether every node of the table has some of a resource."""
        return self.table.all_have(resource)

    def requested(self, resource: str) -> Int64s:
        """What the node's pods request."""
        key = ("requested", resource)
        found = self._columns.get(key)
        if found is None:
            if self.infos is None:
                found = self.table.requested(resource)[self.rows]
            else:
                found = np.array([info.requested.get(resource) for info in self.infos], np.int64)
            self._columns[key] = found
        return found

    def non_zero_requested(self, resource: str) -> Int64s:
        """As `requested`, with 100m and 200 MiB for containers that name no cpu or memory."""
        if resource == "cpu":
            if self.infos is not None:
                return np.array([info.non_zero_cpu for info in self.infos], np.int64)
            return self.table.non_zero_cpu[self.rows]
        if resource == "memory":
            if self.infos is not None:
                return np.array([info.non_zero_memory for info in self.infos], np.int64)
            return self.table.non_zero_memory[self.rows]
        return self.requested(resource)
