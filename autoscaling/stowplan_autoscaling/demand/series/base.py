"""What a load is: a number that changes over time, made of straight pieces.

Times are seconds since the start of the run. A series is defined for ever: before its first point it holds its first
value, after its last point its last one, unless it repeats. At a jump it has the value after the jump. Between two
moments of change a series is a straight line, so integrals are exact, and an event-driven run need not poll:
`next_change` says when to look again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Piece(NamedTuple):
    """A straight part of a series: from `start` to `end` (seconds), `value` at the start, then `slope` per second."""

    start: float
    end: float
    value: float
    slope: float


class Series(ABC):
    """An immutable function of time, never negative."""

    __slots__ = ()

    @abstractmethod
    def at(self, t: float) -> float:
        """The value at `t`; at a jump, the one after it."""

    @abstractmethod
    def slope(self, t: float) -> float:
        """How fast the value changes from `t` on, per second."""

    @abstractmethod
    def next_change(self, t: float) -> float:
        """The first moment after `t` at which the series jumps or bends; infinity if it never does again."""

    @abstractmethod
    def cumulative(self, t: float) -> float:
        """The integral from 0 to `t`; negative for a negative `t`."""

    @abstractmethod
    def values(self, times: ArrayLike) -> Floats:
        """The values at many moments; same shape as `times`."""

    def integral(self, a: float, b: float) -> float:
        """The integral from `a` to `b`: requests, where the series is requests per second."""
        return self.cumulative(b) - self.cumulative(a)

    def breakpoints(self, a: float, b: float) -> list[float]:
        """The moments of change strictly between `a` and `b`."""
        found = []
        t = self.next_change(a)
        while t < b:
            found.append(t)
            t = self.next_change(t)
        return found

    def pieces(self, a: float, b: float) -> Iterator[Piece]:
        """The straight parts that cover `a` to `b`."""
        while a < b:
            end = min(self.next_change(a), b)
            yield Piece(a, end, self.at(a), self.slope(a))
            a = end

    def line(self, t: float) -> Piece:
        """The straight part that holds at `t`, from some moment up to `t` on until the next change."""
        return Piece(t, self.next_change(t), self.at(t), self.slope(t))

    def time_of(self, amount: float) -> float:
        """The first moment at which `cumulative` reaches `amount`; infinity if it never does.

        By halving, to the last bit; kinds of series that know better do it in one step.
        """
        low, high = -1.0, 1.0
        while self.cumulative(low) >= amount:
            low *= 2
            if low < -1e12:
                return -math.inf
        while self.cumulative(high) < amount:
            high *= 2
            if high > 1e12:
                return math.inf
        while (middle := (low + high) / 2) not in {low, high}:
            low, high = (low, middle) if self.cumulative(middle) >= amount else (middle, high)
        return high
