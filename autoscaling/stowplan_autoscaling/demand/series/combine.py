"""Series made of series: the sum of several, and one that starts over again and again."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from stowplan_autoscaling.demand.checks import above
from stowplan_autoscaling.inputs.errors import FieldError

from .base import Floats, Series
from .piecewise import Piecewise


class Total(Series):
    """The sum of series. Make it with `total`."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Series, ...]) -> None:
        self.parts = parts

    def at(self, t: float) -> float:
        return math.fsum(part.at(t) for part in self.parts)

    def slope(self, t: float) -> float:
        return math.fsum(part.slope(t) for part in self.parts)

    def next_change(self, t: float) -> float:
        return min(part.next_change(t) for part in self.parts)

    def cumulative(self, t: float) -> float:
        return math.fsum(part.cumulative(t) for part in self.parts)

    def values(self, times: ArrayLike) -> Floats:
        result: Floats = np.sum([part.values(times) for part in self.parts], axis=0)
        return result


def total(*parts: Series) -> Series:
    """The sum of one or more series: a day and the spike on top of it. Raises FieldError for none."""
    if not parts:
        raise FieldError("parts", "a sum needs at least one series")
    if len(parts) == 1:
        return parts[0]
    plain = [part for part in parts if isinstance(part, Piecewise)]
    if len(plain) < len(parts):
        return Total(parts)
    times = np.unique(np.concatenate([part.times for part in plain]))
    together = Total(parts)
    return Piecewise(times, together.values(times), np.sum([_slopes(part, times) for part in plain], axis=0))


def _slopes(part: Piecewise, times: Floats) -> Floats:
    i = np.searchsorted(part.times, times, side="right") - 1
    return np.where(i < 0, 0.0, part.slopes[np.maximum(i, 0)])


class Repeated(Series):
    """What `base` does from 0 to `period` (seconds), over and over."""

    __slots__ = ("_full", "base", "period")

    def __init__(self, base: Piecewise, period: float) -> None:
        self.base = base
        self.period = above("period", period)
        self._full = base.cumulative(period)

    def _place(self, t: float) -> tuple[float, float]:
        """Which round it is, and the time within it."""
        rounds = math.floor(t / self.period)
        within = t - rounds * self.period
        if within < 0:
            return rounds - 1, within + self.period
        return (rounds, within) if within < self.period else (rounds + 1, 0.0)

    def at(self, t: float) -> float:
        return self.base.at(self._place(t)[1])

    def slope(self, t: float) -> float:
        return self.base.slope(self._place(t)[1])

    def next_change(self, t: float) -> float:
        rounds, within = self._place(t)
        after = self.base.next_change(within)
        following = (rounds + 1) * self.period
        if after < self.period:
            following = rounds * self.period + after
        return following if following > t else math.nextafter(t, math.inf)

    def cumulative(self, t: float) -> float:
        rounds, within = self._place(t)
        return rounds * self._full + self.base.cumulative(within)

    def values(self, times: ArrayLike) -> Floats:
        t = np.asarray(times, dtype=np.float64)
        within = t - np.floor(t / self.period) * self.period
        within = np.where(within < 0, within + self.period, within)
        return self.base.values(np.where(within < self.period, within, 0.0))

    def time_of(self, amount: float) -> float:
        if not self._full:
            return 0.0 if amount == 0 else math.copysign(math.inf, amount)
        rounds = math.ceil(amount / self._full) - 1
        return rounds * self.period + min(self.base.time_of(amount - rounds * self._full), self.period)
