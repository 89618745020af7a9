"""The lowest priority of any pod on each node, kept up to date with the node table.

A node whose pods are all as important as the incoming one has no victims: with this number known, preemption passes
over it without a look at its pods. Where no pod in the cluster is less important, no node needs a look: the snapshot
knows that. Upstream has no counterpart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.cache.node_table import Int64s, NodeTable
from stowplan_scheduler.cache.snapshot import NO_PODS
from stowplan_scheduler.framework.cluster import Cluster


class LowestPriorities:
    """One number per row of a table, read again only where the row changed."""

    __slots__ = ("_lowest", "_position", "_table")

    def __init__(self) -> None:
        self._table: NodeTable | None = None
        self._position = 0
        self._lowest: Int64s = np.zeros(0, np.int64)

    def any_below(self, cluster: Cluster, rows: NDArray[np.intp], priority: int) -> bool:
        """Whether any of the rows has a pod of lower priority."""
        if priority <= cluster.snapshot.lowest_priority:
            return False
        return bool(self.below(cluster.table, rows, priority).any())

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
    return min([pod.pod.spec.priority or 0 for pod in info.pods], default=NO_PODS)
