"""What a scheduling round leaves on the rows of its table.

Single rows are read and written as lists, all rows at once as columns: a number in a list costs a third of one in a
column. Both start as the table's own and are copied when the round first takes something.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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

    def take(self, row: int, demand: Demand) -> None:
        """A pod that demands this goes to the row."""
        for column, amount in demand:
            self._own(column)[row] -= amount
            known = self._columns.get(column)
            if known is not None:
                known[row] -= amount

    def pack(
        self, rows: Sequence[int], at: int, gone: Collection[int], demand: Demand, count: int
    ) -> tuple[list[tuple[int, int]], int]:
        """So many pods that demand this go to some rows, from place `at` on, to each as many as it has room for.

        Returns which rows take how many, and the place of the last one; there may be room left on it.
        """
        lists = [(self._own(column), amount) for column, amount in demand]
        taken: list[tuple[int, int]] = []
        while count and at < len(rows):
            row = rows[at]
            here = 0 if row in gone else count
            for listed, amount in lists:
                if here * amount > listed[row]:
                    here = listed[row] // amount
            if here <= 0:
                at += 1
                continue
            for listed, amount in lists:
                listed[row] -= here * amount
            taken.append((row, here))
            count -= here
        for column, amount in demand:
            known = self._columns.get(column)
            if known is not None:
                for row, here in taken:
                    known[row] -= here * amount
        return taken, at

    def _own(self, column: int) -> list[int]:
        """The list of a resource, for the round to change."""
        known = self._lists.get(column)
        if known is None:
            known = self._lists[column] = self._table.listed(column).copy()
        return known
