"""The lowest priority of any pod on each node, kept up to date with the node table.

A node whose pods are all as important as the incoming one has no victims: with this number known, preemption passes
over it without a look at its pods. Upstream has no counterpart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.cache.node_table import Int64s, NodeTable

NO_PODS = np.iinfo(np.int64).max
"""Stands for the lowest priority on a node without pods."""


class LowestPriorities:
    """One number per row of a table, read again only where the row changed."""

    __slots__ = ("_lowest", "_position", "_table")

    def __init__(self) -> None:
        self._table: NodeTable | None = None
        self._position = 0
        self._lowest: Int64s = np.zeros(0, np.int64)

    def below(self, table: NodeTable, rows: NDArray[np.intp], priority: int) -> NDArray[np.bool_]:
        """Which of the rows have a pod of lower priority."""
        self._refresh(table)
        return self._lowest[rows] < priority

    def _refresh(self, table: NodeTable) -> None:
        log = table.rows
        # Where rows were laid out anew the log has no memory either, and everything is read again.
        stale = log.since(self._position) if table is self._table else None
        if stale is None:
            self._lowest = np.array([_lowest(info) for info in table.infos], np.int64)
        else:
            for row in dict.fromkeys(stale):
                self._lowest[row] = _lowest(table.infos[row])
        self._table, self._position = table, log.end


def _lowest(info: NodeInfo) -> int:
    return min((pod.pod.spec.priority or 0 for pod in info.pods), default=NO_PODS)
