"""How many nodes each pool has, as far as disruption budgets count them.

Follows BuildDisruptionBudgetMapping of pkg/controllers/disruption/helpers.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .state_nodes import StateNode


class PoolCounts(NamedTuple):
    """By name of the pool: its nodes, and those of them that are on their way out or not ready."""

    sizes: Mapping[str, int]
    going: Mapping[str, int]


def count_nodes(nodes: Iterable[StateNode]) -> PoolCounts:
    """Count the nodes of pools; those that are not initialized, or whose machine already goes, do not count."""
    sizes: dict[str, int] = {}
    going: dict[str, int] = {}
    for node in nodes:
        claim, pool = node.claim, node.pool or ""
        if claim is None or not node.is_initialized or claim.terminating:
            continue
        sizes[pool] = sizes.get(pool, 0) + 1
        if not node.is_ready or node.is_deleting:
            going[pool] = going.get(pool, 0) + 1
    return PoolCounts(sizes, going)
