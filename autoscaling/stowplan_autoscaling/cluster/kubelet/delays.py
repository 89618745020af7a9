"""Distributions of delays, each drawn from one number in [0, 1), so that a stream's name alone decides the draw.

Nothing here is random by itself: `Delay.of(u)` is the inverse of the distribution function. Whoever draws passes
`streams.uniform(purpose, key)`; a delay that is always the same needs no draw (`constant`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

from stowplan_autoscaling.kernel import nanoseconds

_NORMAL: Final = NormalDist()
_SMALLEST: Final = 1e-12
"""The inverse of the normal distribution has no value at 0 and 1."""

FIXED: Final = "fixed"
UNIFORM: Final = "uniform"
LOG_NORMAL: Final = "log-normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A distribution of times that are not negative, in seconds. Make it with `fixed`, `uniform` or `log_normal`.

    `low` and `high`: the bounds of a uniform one (equal for a fixed one). `median` and `sigma`: of a log-normal one,
    sigma being the standard deviation of the natural logarithm. Raises ValueError.
    """

    kind: str = FIXED
    low: float = 0.0
    high: float = 0.0
    median: float = 0.0
    sigma: float = 0.0
    constant: int | None = field(init=False, compare=False, repr=False, default=None)
    """Every draw in nanoseconds, if all are the same."""

    def __post_init__(self) -> None:
        if self.kind not in {FIXED, UNIFORM, LOG_NORMAL}:
            raise ValueError(f"kind: {self.kind!r}: must be {FIXED}, {UNIFORM} or {LOG_NORMAL}")
        for name in ("low", "high", "median", "sigma"):
            number = getattr(self, name)
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(f"{name}: {number!r}: must be a number of at least 0")
        if self.high < self.low:
            raise ValueError(f"high: {self.high!r}: must not be less than low, {self.low!r}")
        if self.low == self.high if self.kind != LOG_NORMAL else self.sigma == 0 or self.median == 0:
            object.__setattr__(self, "constant", self.of())

    def seconds(self, u: float) -> float:
        """The value that a share `u` of all draws stays below, in seconds."""
        if self.kind == UNIFORM:
            return self.low + (self.high - self.low) * u
        if self.kind == LOG_NORMAL:
            if not self.sigma:
                return self.median
            return self.median * math.exp(self.sigma * _NORMAL.inv_cdf(min(max(u, _SMALLEST), 1 - _SMALLEST)))
        return self.low

    def of(self, u: float = 0.5) -> int:
        """The same in nanoseconds, whole microseconds."""
        return nanoseconds(self.seconds(u))


def fixed(seconds: float) -> Delay:
    """Always the same."""
    return Delay(kind=FIXED, low=seconds, high=seconds)


def uniform(low: float, high: float) -> Delay:
    """All times from `low` to `high` seconds are equally likely."""
    return Delay(kind=UNIFORM, low=low, high=high)


def log_normal(median: float, sigma: float) -> Delay:
    """Half of the draws are below `median` seconds; `sigma` 0.35 puts 90 % below 1.57 times of it."""
    return Delay(kind=LOG_NORMAL, median=median, sigma=sigma)


NO_DELAY: Final = fixed(0.0)
