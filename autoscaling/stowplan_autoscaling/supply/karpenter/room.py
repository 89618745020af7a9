"""How much room there is on some rows of a snapshot, worked out once for all who ask about a part of these rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .amounts import Demand
    from .instance_types import Mask
    from .snapshot import Snapshot


class Room:
    """The rows of `mask`. Questions are about those of them that are not `gone`."""

    def __init__(self, snapshot: Snapshot, mask: Mask) -> None:
        self._snapshot = snapshot
        self._mask = mask
        self._takers: dict[Demand, tuple[list[bool], int]] = {}
        self._left: dict[int, tuple[list[int], int]] = {}

    def takes(self, demand: Demand, gone: Sequence[int]) -> bool:
        """Whether one of the other rows has room for a pod that demands this."""
        known = self._takers.get(demand)
        if known is None:
            mask = self._snapshot.fitting(demand) & self._mask
            known = self._takers[demand] = mask.tolist(), int(np.count_nonzero(mask))
        is_taker, count = known
        return count > len(gone) or count > sum([is_taker[row] for row in gone])

    def left(self, column: int, gone: Sequence[int]) -> int:
        """What is left of a resource on the other rows together; a row that has less than nothing counts as nothing."""
        known = self._left.get(column)
        if known is None:
            amounts = np.where(self._mask, self._snapshot.column(column), 0).clip(min=0)
            known = self._left[column] = amounts.tolist(), int(amounts.sum())
        amounts_of, total = known
        return total - sum([amounts_of[row] for row in gone])
