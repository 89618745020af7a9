"""What pods have used, by place: a number that a pod keeps for its life, so that nothing moves when others come or go.

Whoever has the pods in rows of his own already (a run) hands in the places; otherwise the ledger gives them out.
Place 0 is nobody's.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .series import Floats

Ints = NDArray[np.int64]

_FIRST_PLACES: Final = 64
NOBODY: Final = 0
"""The kind of a place without a pod."""


class Ledger:
    """Columns with one entry per place."""

    __slots__ = ("_free", "kind", "seconds")

    def __init__(self, size: int = _FIRST_PLACES) -> None:
        self.seconds: Floats = np.zeros(size)
        """Core seconds used."""
        self.kind: Ints = np.zeros(size, np.int64)
        """Which pods use the same: a number of the fleet's that has them, or NOBODY."""
        self._free = list(range(size - 1, 0, -1))

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self) -> int:
        """A place for one more pod."""
        if not self._free:
            size = len(self)
            self.grow(2 * size)
            self._free = list(range(2 * size - 1, size - 1, -1))
        place = self._free.pop()
        self.clear(place)
        return place

    def give_back(self, place: int) -> None:
        """A pod that was given a place by `take` is gone."""
        self.clear(place)
        self._free.append(place)

    def clear(self, place: int) -> None:
        """Nobody is in this place, or somebody new."""
        self.seconds[place], self.kind[place] = 0.0, NOBODY

    def grow(self, size: int) -> None:
        """So many places from now on."""
        more = size - len(self)
        self.seconds = np.concatenate([self.seconds, np.zeros(more)])
        self.kind = np.concatenate([self.kind, np.zeros(more, np.int64)])
