"""Numbers over seeds: bands, paired differences with a bootstrap interval, and what they say.

Candidates meet the same luck in a run of the same seed, so differences are taken seed by seed. Quantiles are by linear
interpolation (type 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt
from statistics import stdev
from typing import Final, NamedTuple

import numpy as np

from stowplan_autoscaling.results.levels import rounded

from .comparison import Band, Better, Difference, Outcome

RESAMPLES: Final = 2000
BOOTSTRAP_SEED: Final = 20_260_101
CONFIDENCE: Final = 0.95
FEW: Final = 20
"""With fewer seeds than this a band is from the smallest to the largest."""

_SIGNIFICANT: Final = 0.05
_MEDIAN_DEVIATION: Final = 1.25
"""The standard deviation of a median is about this times that of a mean (of a normal distribution: sqrt(pi/2))."""


def quantile(values: Sequence[float], share: float) -> float:
    """Of at least one value, by linear interpolation between the order statistics (type 7)."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def band(values: Sequence[float | None]) -> Band | None:
    """Median and band of the values that are there; None if none is."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    few = len(present) < FEW
    return Band(
        median=rounded(quantile(present, 0.5)),
        low=rounded(min(present) if few else quantile(present, 0.05)),
        high=rounded(max(present) if few else quantile(present, 0.95)),
        kind="min-max" if few else "5-95 %",
        values=tuple(None if value is None else rounded(value) for value in values),
    )


class Interval(NamedTuple):
    """From low to high."""

    low: float
    high: float


def bootstrap_interval(values: Sequence[float]) -> Interval:
    """95 % interval of the median of the values: the quantiles of the medians of resamples, always the same ones."""
    sample = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    picks = rng.integers(0, len(sample), size=(RESAMPLES, len(sample)))
    medians = np.median(sample[picks], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(float(low), float(high))


def sign_chance(positive: int, negative: int) -> float:
    """Probability of signs at least as one-sided as these if both are equally likely (two-sided sign test)."""
    count = positive + negative
    most = max(positive, negative)
    ways: int = sum(comb(count, k) for k in range(most, count + 1))
    return min(1.0, float(2 * ways / 2**count))


def paired(
    candidate: str,
    baseline: str,
    metric: str,
    pairs: Sequence[tuple[float, float]],
    *,
    better: Better,
    tolerance: float,
) -> Difference | None:
    """The difference of a candidate to a baseline; `pairs`: (candidate, baseline) by seed. None without pairs.

    It is a difference if the median is beyond the tolerance, its interval leaves out zero, and either all seeds are on
    the same side or the median is at least twice the standard deviation of a median over so many seeds.
    """
    if not pairs:
        return None
    steps = [value - before for value, before in pairs]
    middle = quantile(steps, 0.5)
    interval = bootstrap_interval(steps)
    before = quantile([value for _, value in pairs], 0.5)
    ups = sum(step > 0 for step in steps)
    downs = sum(step < 0 for step in steps)
    chance = sign_chance(ups, downs)
    outcome = _outcome(steps, middle, interval, tolerance, better)
    unsure = chance > _SIGNIFICANT if outcome != "no difference" else _reaches_beyond(interval, tolerance)
    return Difference(
        candidate=candidate,
        baseline=baseline,
        metric=metric,
        median=rounded(middle),
        share=rounded(middle / abs(before)) if before else None,
        low=rounded(interval.low),
        high=rounded(interval.high),
        seeds=len(steps),
        better=ups if better == "higher" else downs,
        worse=downs if better == "higher" else ups,
        equal=len(steps) - ups - downs,
        chance=rounded(chance),
        tolerance=rounded(tolerance),
        outcome=outcome,
        is_indicative=unsure,
    )


def _outcome(steps: Sequence[float], middle: float, interval: Interval, tolerance: float, better: Better) -> Outcome:
    if abs(middle) <= tolerance or interval.low <= 0 <= interval.high:
        return "no difference"
    # Where all seeds agree, one that is far worse than the others is no reason to doubt the direction.
    agree = min(steps) > 0 or max(steps) < 0
    if not agree and abs(middle) < 2 * _MEDIAN_DEVIATION * stdev(steps) / sqrt(len(steps)):
        return "no difference"
    return "better" if (middle > 0) == (better == "higher") else "worse"


def _reaches_beyond(interval: Interval, tolerance: float) -> bool:
    return interval.low < -tolerance or interval.high > tolerance
