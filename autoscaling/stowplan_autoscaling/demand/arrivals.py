"""Single moments instead of a rate: when jobs arrive, one by one."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.streams import Streams

from .checks import above, at_least
from .series import Floats, Piecewise, Series, held, piecewise

ARRIVALS: Final = "arrivals"
"""The purpose of the random stream that Poisson arrivals come from."""

MOST_ARRIVALS: Final = 20_000_000
_DRAWS: Final = 4096


class Arrivals:
    """Moments in ascending order, each with a weight: how much work it brings (1 unless it says otherwise).

    `times`: seconds since the start, several may be equal. Immutable. Raises FieldError (`times[3]`, `weights[3]`).
    """

    __slots__ = ("times", "weights")

    def __init__(self, times: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.times: Floats = np.array(times, dtype=np.float64)
        self.weights: Floats = np.ones_like(self.times) if weights is None else np.array(weights, dtype=np.float64)
        if self.times.shape != self.weights.shape or self.times.ndim != 1:
            raise FieldError("weights", f"{self.weights.size} weights for {self.times.size} times: must be as many")
        for name, column in (("times", self.times), ("weights", self.weights)):
            wrong = ~(np.isfinite(column) & (column >= 0))
            if wrong.any():
                i = int(np.argmax(wrong))
                raise FieldError(f"{name}[{i}]", f"{shown(float(column[i]))}: must be a number of at least 0")
        back = np.diff(self.times) < 0
        if back.any():
            i = int(np.argmax(back)) + 1
            raise FieldError(f"times[{i}]", f"{shown(float(self.times[i]))}: must not be earlier than the one before")
        self.times.flags.writeable = False
        self.weights.flags.writeable = False

    def __len__(self) -> int:
        return self.times.size

    def count(self, a: float, b: float) -> int:
        """How many arrive from `a` (included) to `b` (excluded)."""
        low, high = np.searchsorted(self.times, [a, b], side="left")
        return int(high - low)

    def next_after(self, t: float) -> float:
        """The first arrival after `t`; infinity if there is none."""
        i = bisect_right(self.times, t)
        return float(self.times[i]) if i < len(self) else math.inf

    def rates(self, width: float = 1.0, length: float | None = None) -> Piecewise:
        """Weight per second in bins of `width` seconds, from 0 to `length` (default: the last arrival); 0 after."""
        above("bin", width)
        span = length if length is not None else float(self.times[-1]) if len(self) else 0.0
        bins = max(1, math.ceil(at_least("length", span) / width))
        if length is None and len(self) and self.times[-1] >= bins * width:
            bins += 1
        index = np.floor(self.times / width).astype(np.int64)
        inside = index < bins
        sums = np.bincount(index[inside], weights=self.weights[inside], minlength=bins)
        return held(np.arange(bins + 1) * width, np.append(sums / width, 0.0))

    def window(self, start: float, length: float | None, stretch: float = 1.0) -> Arrivals:
        """Those from `start` on, for `length` seconds, moved to begin at 0; then `stretch` times as slowly."""
        end = math.inf if length is None else start + length
        inside = (self.times >= start) & (self.times < end)
        return Arrivals((self.times[inside] - start) * stretch, self.weights[inside])


def poisson_arrivals(rate: Series, length: float, streams: Streams, key: str) -> Arrivals:
    """Jobs of a Poisson process with the given rate (per second), from 0 to `length` seconds.

    Arrivals of rate 1 are drawn from the stream (ARRIVALS, `key`) and carried to the moments at which the integral of
    `rate` reaches them. So the n-th job is always the n-th job: a candidate with a higher rate meets the same luck
    sooner. Raises FieldError for more than MOST_ARRIVALS expected.
    """
    above("length", length)
    shape = piecewise(rate, 0.0, length)
    expected = shape.integral(0.0, length)
    if expected > MOST_ARRIVALS:
        raise FieldError("rate", f"{expected:,.0f} arrivals in {length:g} s: at most {MOST_ARRIVALS:,}")
    generator = Streams(streams.seed).generator(ARRIVALS, key)
    blocks: list[Floats] = []
    reached = 0.0
    while reached < expected:
        block = reached + np.cumsum(generator.standard_exponential(_DRAWS))
        blocks.append(block)
        reached = float(block[-1])
    unit = np.concatenate(blocks) if blocks else np.empty(0)
    times = shape.times_of(unit[unit < expected])
    return Arrivals(np.maximum.accumulate(np.clip(times, 0.0, length)) if times.size else times)
