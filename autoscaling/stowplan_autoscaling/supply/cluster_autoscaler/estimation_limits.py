"""How many nodes an estimation may add at most.

Follows pkg/estimator/*threshold*.go of kubernetes-sigs/cluster-autoscaler. Its limits of time are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .node_groups import GroupTable, NodeGroup
from .options import AutoscalingOptions

UNLIMITED: Final = 0
NONE_LEFT: Final = -1


class EstimationLimiter:
    """Gives permission to add a node; one for each estimation."""

    __slots__ = ("_added", "limit")

    def __init__(self, limit: int) -> None:
        """`limit`: UNLIMITED, NONE_LEFT, or a number of nodes."""
        self.limit = limit
        self._added = 0

    @property
    def left(self) -> int:
        """How many more nodes may be added; a large number without a limit."""
        return max(0, self.limit - self._added) if self.limit else 1 << 30

    def permission(self) -> bool:
        """Whether one more node may be added; it then counts."""
        if self.limit < 0 or (self.limit > 0 and self._added >= self.limit):
            return False
        self._added += 1
        return True


def estimation_limit(
    options: AutoscalingOptions, table: GroupTable, group: NodeGroup, similar: Iterable[NodeGroup], node_count: int
) -> int:
    """The strictest of: nodes per scale-up, what the group and similar ones may grow, nodes in the cluster.

    `node_count`: nodes of the snapshot, upcoming ones included.
    """
    limit = _stricter(UNLIMITED, options.max_nodes_per_scaleup)
    room = sum(max(0, each.max_size - table.target(each.id)) for each in (group, *similar))
    limit = _stricter(limit, room if room > 0 else NONE_LEFT)
    total = options.max_nodes_total
    if total:
        limit = _stricter(limit, total - node_count if total > node_count else NONE_LEFT)
    return limit


def _stricter(limit: int, other: int) -> int:
    if limit < 0 or other < 0:
        return NONE_LEFT
    if other > 0 and (limit == UNLIMITED or limit > other):
        return other
    return limit
