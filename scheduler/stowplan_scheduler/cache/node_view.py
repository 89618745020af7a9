"""A NodeView: the rows a rule is asked about, as they are or as they would be.

A plain view reads the table's columns at its rows. A hypothetical view stands for nodes with pods added or removed
(nominated pods, preemption, what-if): its usage columns come from changed copies of the NodeInfos, one per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .node_info import NodeInfo
from .node_table import BASE_RESOURCES, Bools, Int32s, Int64s, NodeTable

Rows = slice | NDArray[np.intp]


class NodeView:
    """`rows` of `table`; with `infos`, the nodes of those rows as given there."""

    __slots__ = ("_columns", "infos", "rows", "size", "table")

    def __init__(self, table: NodeTable, rows: Rows, infos: Sequence[NodeInfo] | None = None) -> None:
        """`rows` is a slice with both ends set, or an array of row numbers."""
        self.table = table
        self.rows = rows
        self.infos = infos
        self._columns: dict[tuple[str, tuple[str, ...]], Int64s] = {}
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

    def all_have(self, resources: Sequence[str]) -> bool:
        """Whether every node of the table has some of each resource."""
        return all(self.table.all_have(resource) for resource in resources)

    def allocatable(self, resources: tuple[str, ...]) -> Int64s:
        """Allocatable amounts, shape (len(resources), size); 0 where the node has none.

        The rules of one bundle ask for the same resources, so the answer is kept.
        """
        key = ("allocatable", resources)
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = self._read(self.table.allocatable_base, self.table.allocatable, resources)
        return found

    def requested(self, resources: tuple[str, ...]) -> Int64s:
        """What the nodes' pods request, shape (len(resources), size)."""
        key = ("requested", resources)
        found = self._columns.get(key)
        if found is None:
            if self.infos is None:
                found = self._read(self.table.requested_base, self.table.requested, resources)
            else:
                found = _matrix([[info.requested.get(name) for info in self.infos] for name in resources], self.size)
            self._columns[key] = found
        return found

    def non_zero_requested(self, resources: tuple[str, ...]) -> Int64s:
        """As `requested`, with 100m and 200 MiB for containers that name no cpu or memory."""
        if self.infos is not None:
            return _matrix([[_non_zero(info, name) for info in self.infos] for name in resources], self.size)
        table = self.table
        if resources == _CPU_AND_MEMORY:
            return _at(table.non_zero_base, self.rows)
        lines = []
        for name in resources:
            column = table.requested(name)
            if name in _CPU_AND_MEMORY:
                column = table.non_zero_base[_CPU_AND_MEMORY.index(name)]
            lines.append(column[self.rows])
        return _matrix(lines, self.size)

    def _read(self, base: Int64s, column: Callable[[str], Int64s], resources: tuple[str, ...]) -> Int64s:
        if resources == BASE_RESOURCES[: len(resources)]:
            return _at(base[: len(resources)], self.rows)
        return _matrix([column(name)[self.rows] for name in resources], self.size)


_CPU_AND_MEMORY = BASE_RESOURCES[:2]


def _at(matrix: Int64s, rows: Rows) -> Int64s:
    return matrix[:, rows] if isinstance(rows, slice) else matrix.take(rows, axis=1)


def _matrix(lines: Sequence[Sequence[int] | Int64s], size: int) -> Int64s:
    return np.array(lines, np.int64).reshape(len(lines), size)


def _non_zero(info: NodeInfo, resource: str) -> int:
    if resource == "cpu":
        return info.non_zero_cpu
    if resource == "memory":
        return info.non_zero_memory
    return info.requested.get(resource)
