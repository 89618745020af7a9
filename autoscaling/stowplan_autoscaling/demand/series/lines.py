"""Many series at once, read in the order of time: of each the straight piece that holds now, as columns.

Reading one series costs a search for its piece; with hundreds of them at every look that adds up. Here the search is
made when a piece ends, and reading all of them is a handful of array operations.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .base import Floats, Series

Ints = NDArray[np.int64]


class Lines:
    """The present pieces. Series are numbered in the order in which they were added; times must not go back."""

    def __init__(self) -> None:
        self._series: list[Series] = []
        self._start: Floats = np.zeros(0)
        self._end: Floats = np.zeros(0)
        self._value: Floats = np.zeros(0)
        self._slope: Floats = np.zeros(0)

    def add(self, series: Series) -> None:
        """One more."""
        self._series.append(series)
        for name, first in (("_start", 0.0), ("_end", -math.inf), ("_value", 0.0), ("_slope", 0.0)):
            setattr(self, name, np.append(getattr(self, name), first))

    def at(self, numbers: Ints, times: Floats) -> Floats:
        """The value of each at its time; at a jump, the one after it."""
        self._turn(numbers, times)
        value: Floats = self._value[numbers] + self._slope[numbers] * (times - self._start[numbers])
        return np.maximum(value, 0.0)

    def slope(self, numbers: Ints, times: Floats) -> Floats:
        """How fast each changes from its time on, per second."""
        self._turn(numbers, times)
        return self._slope[numbers]

    def next_change(self, numbers: Ints, times: Floats) -> Floats:
        """The first moment after its time at which each jumps or bends; infinity if it never does again."""
        self._turn(numbers, times)
        return self._end[numbers]

    def _turn(self, numbers: Ints, times: Floats) -> None:
        """Take up the pieces that hold at these times."""
        over = self._end[numbers] <= times
        if not over.any():
            return
        for number, time in zip(numbers[over].tolist(), times[over].tolist(), strict=True):
            piece = self._series[number].line(time)
            self._start[number], self._end[number] = piece.start, piece.end
            self._value[number], self._slope[number] = piece.value, piece.slope
