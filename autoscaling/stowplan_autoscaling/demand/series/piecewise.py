"""The kind of series that nearly all others become: points, and a straight line from each to the next."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import ArrayLike

from stowplan_autoscaling.inputs.errors import FieldError, shown

from .base import Floats, Piece, Series


class Piecewise(Series):
    """From `times[i]` on the value is `values[i]`, changing by `slopes[i]` per second until `times[i + 1]`.

    `times` in seconds, strictly ascending; `values` at least 0; the last slope must be 0. Raises FieldError that names
    the entry: `times[3]`, `values[3]`, `slopes[3]`.
    """

    __slots__ = ("_sums", "_times", "_values", "_slopes", "_zero")

    def __init__(self, times: ArrayLike, values: ArrayLike, slopes: ArrayLike | None = None) -> None:
        t = np.asarray(times, dtype=np.float64)
        v = np.asarray(values, dtype=np.float64)
        s = np.zeros_like(v) if slopes is None else np.asarray(slopes, dtype=np.float64)
        _check(t, v, s)
        lengths = np.diff(t)
        areas = lengths * (v[:-1] + s[:-1] * lengths / 2)
        # Sums over times are read one at a time far more often than all together: arrays of C doubles, not of numpy.
        self._times = array("d", t.tobytes())
        self._values = array("d", v.tobytes())
        self._slopes = array("d", s.tobytes())
        self._sums = array("d", np.concatenate(([0.0], np.cumsum(areas))).tobytes())
        self._zero = 0.0
        self._zero = self.cumulative(0.0)

    @property
    def times(self) -> Floats:
        """Where it changes: read-only."""
        return _view(self._times)

    @property
    def levels(self) -> Floats:
        """The value from each of `times` on: read-only."""
        return _view(self._values)

    @property
    def slopes(self) -> Floats:
        """The slope from each of `times` on: read-only."""
        return _view(self._slopes)

    def at(self, t: float) -> float:
        i = bisect_right(self._times, t) - 1
        if i < 0:
            return self._values[0]
        return max(0.0, self._values[i] + self._slopes[i] * (t - self._times[i]))

    def slope(self, t: float) -> float:
        i = bisect_right(self._times, t) - 1
        return self._slopes[i] if i >= 0 else 0.0

    def next_change(self, t: float) -> float:
        i = bisect_right(self._times, t)
        return self._times[i] if i < len(self._times) else math.inf

    def line(self, t: float) -> Piece:
        i = bisect_right(self._times, t) - 1
        if i < 0:
            return Piece(self._times[0], self._times[0], self._values[0], 0.0)
        end = self._times[i + 1] if i + 1 < len(self._times) else math.inf
        return Piece(self._times[i], end, self._values[i], self._slopes[i])

    def cumulative(self, t: float) -> float:
        i = bisect_right(self._times, t) - 1
        if i < 0:
            return self._values[0] * (t - self._times[0]) - self._zero
        elapsed = t - self._times[i]
        return self._sums[i] + elapsed * (self._values[i] + self._slopes[i] * elapsed / 2) - self._zero

    def values(self, times: ArrayLike) -> Floats:
        t = np.asarray(times, dtype=np.float64)
        i = np.searchsorted(self.times, t, side="right") - 1
        before = i < 0
        i = np.maximum(i, 0)
        found = np.maximum(self.levels[i] + self.slopes[i] * (t - self.times[i]), 0.0)
        return np.where(before, self.levels[0], found)

    def time_of(self, amount: float) -> float:
        target = amount + self._zero
        i = bisect_left(self._sums, target) - 1
        if i < 0:
            first = self._values[0]
            return self._times[0] + target / first if first else (self._times[0] if target == 0 else -math.inf)
        rest, value, slope = target - self._sums[i], self._values[i], self._slopes[i]
        root = value + math.sqrt(max(0.0, value * value + 2 * slope * rest))
        return self._times[i] + 2 * rest / root if root else math.inf

    def times_of(self, amounts: ArrayLike) -> Floats:
        """`time_of` for many amounts, none below what the series adds up to at its first point."""
        target = np.asarray(amounts, dtype=np.float64) + self._zero
        sums = _view(self._sums)
        i = np.maximum(np.searchsorted(sums, target, side="left") - 1, 0)
        rest, value, slope = target - sums[i], self.levels[i], self.slopes[i]
        root = value + np.sqrt(np.maximum(value * value + 2 * slope * rest, 0.0))
        after = np.full_like(target, np.inf)
        np.divide(2 * rest, root, out=after, where=root > 0)
        return self.times[i] + np.where(rest == 0, 0.0, after)

    def scaled(self, factor: float) -> Piecewise:
        """The values times a factor of at least 0."""
        if not (math.isfinite(factor) and factor >= 0):
            raise FieldError("scale", f"{shown(factor)}: must be a number of at least 0")
        return Piecewise(self.times, self.levels * factor, self.slopes * factor)

    def stretched(self, factor: float) -> Piecewise:
        """The same values, `factor` times as slowly."""
        if not (math.isfinite(factor) and factor > 0):
            raise FieldError("stretch", f"{shown(factor)}: must be a number greater than 0")
        return Piecewise(self.times * factor, self.levels, self.slopes / factor)

    def window(self, start: float, end: float) -> Piecewise:
        """The part from `start` to `end`, moved to begin at 0; the value just before `end` is then held."""
        inner = [t for t in self._times if start < t < end]
        begins = np.asarray([start, *inner])
        values = self.values(begins)
        slopes = np.asarray([self.slope(t) for t in begins])
        if not math.isfinite(end):
            return Piecewise(begins - start, values, slopes)
        last = max(0.0, values[-1] + slopes[-1] * (end - begins[-1]))
        return Piecewise(np.append(begins, end) - start, np.append(values, last), np.append(slopes, 0.0))


def piecewise(series: Series, start: float, end: float) -> Piecewise:
    """Any series as points: exact from `start` to `end`, held outside."""
    pieces = list(series.pieces(start, end))
    if not pieces:
        return Piecewise([start], [series.at(start)])
    last = pieces[-1]
    final = max(0.0, last.value + last.slope * (last.end - last.start))
    return Piecewise(
        [*(piece.start for piece in pieces), last.end],
        [*(piece.value for piece in pieces), final],
        [*(piece.slope for piece in pieces), 0.0],
    )


def held(times: ArrayLike, values: ArrayLike) -> Piecewise:
    """Each value holds until the next."""
    return Piecewise(times, values)


def joined(times: ArrayLike, values: ArrayLike) -> Piecewise:
    """Straight lines from each point to the next."""
    t, v = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(t, v, np.zeros_like(v))
    return Piecewise(t, v, np.append(np.diff(v) / np.diff(t), 0.0))


def _view(column: array[float]) -> Floats:
    view: Floats = np.frombuffer(column, dtype=np.float64)
    view.flags.writeable = False
    return view


def _check(times: Floats, values: Floats, slopes: Floats) -> None:
    if not times.size:
        raise FieldError("times", "a series needs at least one point")
    if not times.shape == values.shape == slopes.shape or times.ndim != 1:
        raise FieldError("values", f"{values.size} values for {times.size} times: must be as many")
    for field, column in (("times", times), ("values", values), ("slopes", slopes)):
        _first(field, ~np.isfinite(column), column, "must be a finite number")
    _first("values", values < 0, values, "must be at least 0")
    _first("times", np.append(False, np.diff(times) <= 0), times, "must be later than the one before")
    if slopes[-1]:
        raise FieldError(f"slopes[{slopes.size - 1}]", f"{shown(float(slopes[-1]))}: the last slope must be 0")
    ends = values[:-1] + slopes[:-1] * np.diff(times)
    _first("slopes", ends < -1e-9 * np.maximum(values[:-1], 1.0), slopes, "must not lead below 0")


def _first(field: str, wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], column: Floats, rule: str) -> None:
    if wrong.any():
        i = int(np.argmax(wrong))
        raise FieldError(f"{field}[{i}]", f"{shown(float(column[i]))}: {rule}")
