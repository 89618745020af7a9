"""What a scheduling round leaves on the rows of its table.

Single rows are read and written as lists, all rows at once as columns: a number in a list costs a third of one in a
column. Both start as the table's own and are copied when the round first takes something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .instance_types import Column

if TYPE_CHECKING:
    from .amounts import Demand
    from .node_table import NodeTable


class Leftover:
    """What is left of each resource on each row, in the units of columns."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._lists: dict[int, list[int]] = {}
        self._columns: dict[int, Column] = {}

    def column(self, column: int) -> Column:
        """What is left of a resource on all rows; not to be changed."""
        known = self._columns.get(column)
        if known is None:
            taken = self._lists.get(column)
            if taken is None:
                return self._table.column(column)
            known = self._columns[column] = np.array(taken, dtype=np.int64)
        return known

    def holds(self, row: int, demand: Demand) -> int:
        """How many more pods that demand this the row has room for; 0 or less: none."""
        lists = self._lists
        least = None
        for column, amount in demand:
            listed = lists.get(column) or self._table.listed(column)
            count = listed[row] // amount
            if least is None or count < least:
                least = count
        return least or 0

    def take(self, row: int, demand: Demand, count: int = 1) -> None:
        """So many pods that demand this go to the row."""
        for column, amount in demand:
            listed = self._lists.get(column)
            if listed is None:
                listed = self._lists[column] = self._table.listed(column).copy()
            listed[row] -= count * amount
            known = self._columns.get(column)
            if known is not None:
                known[row] -= count * amount
