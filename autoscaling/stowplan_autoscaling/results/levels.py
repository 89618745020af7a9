"""Sums that grow with a run: numbers that hold over time, distributions, curves."""

from __future__ import annotations

import math
from array import array

from .report import CURVE_BINS, Distribution, Level, WorkCounts

DIGITS = 6


def rounded(value: float) -> float:
    """To the sixth place, so that a sum in another order does not show."""
    return round(value, DIGITS) + 0.0


class Held:
    """A number that holds until it is set anew; the mean is weighted by the time for which it held.

    Of several values at one moment only the last one ever held.
    """

    __slots__ = ("_area", "_began", "_last", "_maximum", "_minimum", "_since")

    def __init__(self) -> None:
        self._began: float | None = None
        self._since = self._last = self._area = 0.0
        self._minimum, self._maximum = math.inf, -math.inf

    def set(self, seconds: float, value: float) -> None:
        """From now on it is this."""
        if self._began is None:
            self._began = seconds
        elif seconds > self._since:
            self._area += (seconds - self._since) * self._last
            if not self._minimum <= self._last <= self._maximum:
                self._minimum, self._maximum = min(self._minimum, self._last), max(self._maximum, self._last)
        self._since, self._last = seconds, value

    def level(self, until: float) -> Level:
        """Over the time from the first value to `until`."""
        if self._began is None:
            return Level()
        length = until - self._began
        area = self._area + (until - self._since) * self._last
        return Level(
            minimum=rounded(min(self._minimum, self._last)),
            mean=rounded(area / length if length > 0 else self._last),
            maximum=rounded(max(self._maximum, self._last)),
            final=rounded(self._last),
        )


class Curve:
    """The mean of a number in each sixtieth of a run."""

    __slots__ = ("_areas", "_last", "_since", "_width")

    def __init__(self, duration: float) -> None:
        self._width = duration / CURVE_BINS
        self._areas = [0.0] * CURVE_BINS
        self._last = self._since = 0.0

    def set(self, seconds: float, value: float) -> None:
        """From now on it is this."""
        self._fill(self._areas, seconds)
        self._since, self._last = seconds, value

    def _fill(self, areas: list[float], until: float) -> None:
        time = self._since
        while self._last and time < until:
            index = min(int(time / self._width), CURVE_BINS - 1)
            end = until if index == CURVE_BINS - 1 else min(until, (index + 1) * self._width)
            if end <= time:  # a bound that rounding puts on the wrong side
                index, end = index + 1, min(until, (index + 2) * self._width)
            areas[index] += (end - time) * self._last
            time = end

    def means(self, until: float) -> tuple[float, ...]:
        """Up to `until`, the last one over the part of it that was reached."""
        areas = list(self._areas)
        self._fill(areas, until)
        means: list[float] = []
        for index, area in enumerate(areas):
            length = min(until - index * self._width, self._width)
            if length <= self._width * 1e-9:
                break
            means.append(rounded(area / length))
        return tuple(means)


class Values:
    """Values of which the distribution is wanted."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, value: float) -> None:
        """One more."""
        self._values.append(value)

    def distribution(self) -> Distribution:
        """Percentiles by nearest rank."""
        values = sorted(self._values)
        if not values:
            return Distribution()
        return Distribution(
            count=len(values),
            mean=rounded(sum(values) / len(values)),
            p50=rounded(_rank(values, 50)),
            p90=rounded(_rank(values, 90)),
            p99=rounded(_rank(values, 99)),
            maximum=rounded(values[-1]),
        )


def _rank(values: list[float], percent: int) -> float:
    return values[-(-len(values) * percent // 100) - 1]


class Counted:
    """Whole numbers of which total, mean and maximum are wanted."""

    __slots__ = ("_count", "_maximum", "_total")

    def __init__(self) -> None:
        self._count = self._total = self._maximum = 0

    def add(self, number: int) -> None:
        """One more."""
        self._count += 1
        self._total += number
        self._maximum = max(self._maximum, number)

    def counts(self) -> WorkCounts:
        """What they come to."""
        mean = rounded(self._total / self._count) if self._count else 0.0
        return WorkCounts(total=self._total, mean=mean, maximum=self._maximum)
