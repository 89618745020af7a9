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
        self.end: Floats = np.zeros(0)
        """When each of the present pieces ends."""
        self._value: Floats = np.zeros(0)
        self._slope: Floats = np.zeros(0)

    def add(self, series: Series) -> None:
        """One more."""
        self._series.append(series)
        for name, first in (("_start", 0.0), ("end", -math.inf), ("_value", 0.0), ("_slope", 0.0)):
            setattr(self, name, np.append(getattr(self, name), first))

    def at(self, numbers: Ints, times: Floats) -> Floats:
        """The value of each at its time; at a jump, the one after it."""
        self._turn(numbers, times)
        value: Floats = self._value[numbers] + self._slope[numbers] * (times - self._start[numbers])
        return np.maximum(value, 0.0)

    def pieces(self, numbers: Ints, times: Floats) -> tuple[Floats, Floats, Floats]:
        """The value of each at its time, how fast it changes from then on, per second, and until when it goes on so."""
        value = self.at(numbers, times)
        return value, self._slope[numbers], self.end[numbers]

    def _turn(self, numbers: Ints, times: Floats) -> None:
        """Take up the pieces that hold at these times."""
        over = self.end[numbers] <= times
        if not over.any():
            return
        for number, time in zip(numbers[over].tolist(), times[over].tolist(), strict=True):
            piece = self._series[number].line(time)
            self._start[number], self.end[number] = piece.start, piece.end
            self._value[number], self._slope[number] = piece.value, piece.slope
