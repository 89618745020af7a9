"""The order in which open claims are offered a pod: those with the fewest pods first.

Upstream sorts all of them before each pod. Between two sorts at most one claim has changed, so mostly that one is
moved; where Go's algorithm would move equal ones as well, it is gone through in full (see `go_sort`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.supply.go_sort import go_sort, keeps_order

Slots = NDArray[np.intp]


class ClaimOrder:
    """Slots of claims, by number of pods."""

    def __init__(self) -> None:
        self._slots: Slots = np.zeros(16, dtype=np.intp)
        self._sizes: list[int] = []
        self._displaced: int | None = None

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def slots(self) -> Slots:
        """The slots in order; see `sort`."""
        return self._slots[: len(self._sizes)]

    def append(self, size: int) -> None:
        """A new claim, whose slot is their number so far, with so many pods."""
        count = len(self._sizes)
        if count == len(self._slots):
            self._slots = np.concatenate([self._slots, np.zeros(count, dtype=np.intp)])
        self._slots[count] = self._displaced = count
        self._sizes.append(size)

    def grow(self, at: int) -> None:
        """The claim at a place has one pod more. To be followed by `sort` before anything else changes."""
        self._sizes[at] += 1
        self._displaced = at

    def sort(self) -> None:
        """Put the claims in order again."""
        at, self._displaced = self._displaced, None
        if at is None:
            return
        sizes, slots = self._sizes, self._slots
        size = sizes[at]
        is_after_smaller = at == 0 or sizes[at - 1] <= size
        if is_after_smaller and (at + 1 == len(sizes) or size <= sizes[at + 1]):
            return
        if not keeps_order(sizes):
            items: list[int] = self.slots.tolist()
            go_sort(sizes, items)
            slots[: len(sizes)] = items
            return
        slot = slots[at]
        del sizes[at]
        if is_after_smaller:
            to = bisect_left(sizes, size, lo=at)
            slots[at:to] = slots[at + 1 : to + 1]
        else:
            to = bisect_right(sizes, size, hi=at)
            slots[to + 1 : at + 1] = slots[to:at].copy()
        slots[to] = slot
        sizes.insert(to, size)
