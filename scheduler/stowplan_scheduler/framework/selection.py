"""Host selection: which of the best nodes is taken.

Upstream puts the scored nodes into a max-heap and takes the root (pkg/scheduler/framework/types.go,
NewSortedScoredNodes). Which of several best nodes becomes the root depends on the positions of all of them: it is the
best node that comes first in the pre-order walk of the implicit binary tree over the visiting order (a node, then its
left subtree, then its right one).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class TieBreak(StrEnum):
    """How a node is chosen among those with the best total."""

    HEAP = "heap"
    """What upstream does."""
    RANDOM = "random"
    """Evenly at random, from the generator passed in (upstream up to 1.34)."""
    STABLE = "stable"
    """The first in snapshot order, wherever the search began."""


class Rng(Protocol):
    """The part of `numpy.random.Generator` that the core uses."""

    def integers(self, low: int, high: int) -> int:
        """A whole number in [low, high)."""


def _pre_order_keys(count: int) -> Int64s:
    """Keys that sort the positions 0..count-1 of an implicit binary tree in pre-order, whatever the tree's size.

    Position i is node i + 1 of a tree numbered from 1; after the leading 1 its binary digits are the path from the
    root (0 left, 1 right). Pre-order compares paths digit by digit, a prefix first.
    """
    number = np.arange(1, count + 1, dtype=np.int64)
    depth = np.floor(np.log2(number)).astype(np.int64)
    path = number << (40 - depth)
    return path * 64 + depth


class HeapOrder:
    """Pre-order keys for lists of any length, kept and grown on demand."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        """Enough for a small cluster."""
        self._keys = _pre_order_keys(1024)

    def first(self, positions: Int64s) -> int:
        """The index into `positions` of the one that the heap brings to the root."""
        highest = int(positions[positions.argmax()])
        if highest >= len(self._keys):
            self._keys = _pre_order_keys(2 * highest)
        return int(self._keys[positions].argmin())


def choose(totals: Int64s, shift: int, tie_break: TieBreak, order: HeapOrder, rng: Rng) -> tuple[int, int]:
    """Index of the chosen node and number of nodes with the best total.

    `totals` has shape (n,), n >= 1; visiting order begins at index `shift`.
    """
    ties = (totals == totals[totals.argmax()]).nonzero()[0]
    count = len(ties)
    if count == 1 or tie_break is TieBreak.STABLE:
        return int(ties[0]), count
    if tie_break is TieBreak.RANDOM:
        return int(ties[rng.integers(0, count)]), count
    positions = (ties - shift) % len(totals) if shift else ties
    return int(ties[order.first(positions)]), count
