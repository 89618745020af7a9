"""How much room there is on some rows of a table, worked out once for all who ask about a part of these rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .amounts import Demand
    from .instance_types import Column, Mask
    from .node_table import NodeTable


class Room:
    """The rows of `mask`. Questions are about those of them that are not `gone`."""

    def __init__(self, table: NodeTable, mask: Mask) -> None:
        self._table = table
        self._mask = mask
        self._holds: dict[Demand, tuple[list[int], int]] = {}
        self._amounts: dict[int, Column] = {}
        self._left: dict[int, tuple[list[int], int]] = {}

    def holds(self, demand: Demand, gone: Iterable[int]) -> int:
        """How many pods that demand this the other rows have room for, if no other pod goes there."""
        known = self._holds.get(demand)
        if known is None:
            counts = np.where(self._mask, self._table.counts(demand), 0)
            known = self._holds[demand] = counts.tolist(), int(counts.sum())
        count_of, total = known
        return total - sum([count_of[row] for row in gone])

    def amounts(self, column: int) -> Column:
        """What is left of a resource on each row; one that has less than nothing counts as nothing."""
        known = self._amounts.get(column)
        if known is None:
            known = self._amounts[column] = np.where(self._mask, self._table.column(column), 0).clip(min=0)
        return known

    def left(self, column: int, gone: Sequence[int]) -> int:
        """What is left of a resource on the other rows together."""
        known = self._left.get(column)
        if known is None:
            amounts = self.amounts(column)
            known = self._left[column] = amounts.tolist(), int(amounts.sum())
        amounts_of, total = known
        return total - sum([amounts_of[row] for row in gone])
