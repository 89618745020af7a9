"""Loads by formula: constant, step, ramp, pulse, and a day with a peak and noise.

Values are in the unit of whatever the load feeds (requests per second, messages per second, cores); times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from stowplan_autoscaling.demand.checks import above, at_least
from stowplan_autoscaling.inputs.errors import FieldError
from stowplan_autoscaling.streams import Streams

from .piecewise import Piecewise, held, joined

DAY: Final = 86_400.0
NOISE: Final = "demand-noise"
"""The purpose of the random stream that noise comes from."""

MOST_POINTS: Final = 5_000_000
"""So many points a generated series may have: 160 MB."""


def constant(value: float) -> Piecewise:
    """The same value for ever."""
    return held([0.0], [at_least("value", value)])


def steps(points: Sequence[tuple[float, float]]) -> Piecewise:
    """(time, value): each value holds until the next time. Raises FieldError that names the point."""
    times, values = _columns(points)
    return held(times, values)


def ramp(points: Sequence[tuple[float, float]]) -> Piecewise:
    """(time, value): straight lines between the points, the last value for ever after."""
    times, values = _columns(points)
    return joined(times, values)


def pulse(start: float, length: float, height: float, *, rise: float = 0.0) -> Piecewise:
    """0, then `height` from `start` for `length` seconds, then 0 again; `rise` seconds up and as many down.

    Added to another series (`total`), a spike.
    """
    at_least("start", start)
    above("length", length)
    at_least("height", height)
    at_least("rise", rise)
    if 2 * rise > length:
        raise FieldError("rise", f"{rise:g}: must be at most half of the length, {length / 2:g}")
    end = start + length
    if not rise:
        return held([0.0, start, end], [0.0, height, 0.0]) if start else held([start, end], [height, 0.0])
    points = [(start, 0.0), (start + rise, height), (end - rise, height), (end, 0.0)]
    return joined(*_columns([point for i, point in enumerate(points) if i != 2 or length > 2 * rise]))


def diurnal(
    *,
    low: float,
    high: float,
    peak: float,
    length: float,
    period: float = DAY,
    noise: float = 0.0,
    resolution: float = 60.0,
    streams: Streams | None = None,
    key: str = "",
) -> Piecewise:
    """low + (high - low)·(1 + cos 2π(t - peak)/period)/2, times noise, in straight lines of `resolution` seconds.

    `peak`: when it is highest. `length`: for how long the series is made (the run's duration); then the last value
    holds. `noise`: relative standard deviation; each point is multiplied by max(0, 1 + noise·z), z standard normal from
    the stream (NOISE, `key`), so that a longer series begins like a shorter one. Raises FieldError.
    """
    at_least("low", low)
    at_least("high", high, low)
    above("length", length)
    above("period", period)
    above("resolution", resolution)
    at_least("noise", noise)
    count = math.ceil(length / resolution) + 1
    if count > MOST_POINTS:
        raise FieldError(
            "resolution", f"{resolution:g} s over {length:g} s are {count:,} points: at most {MOST_POINTS:,}"
        )
    times = np.arange(count) * resolution
    values = low + (high - low) * (1 + np.cos(2 * np.pi * (times - peak) / period)) / 2
    if noise:
        if streams is None:
            raise FieldError("noise", "needs the run's random streams")
        # Streams of its own: asked twice for the same series, the luck is the same.
        z = Streams(streams.seed).generator(NOISE, key).standard_normal(count)
        values *= np.maximum(0.0, 1 + noise * z)
    return joined(times, values)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Times and values of points, checked here so that an error names the point."""
    if not points:
        raise FieldError("points", "a series needs at least one point")
    before = -math.inf
    for i, (time, value) in enumerate(points):
        at_least(f"points[{i}].at", time)
        if time <= before:
            raise FieldError(f"points[{i}].at", f"{time:g}: must be later than the point before, {before:g}")
        at_least(f"points[{i}].value", value)
        before = time
    return [float(time) for time, _ in points], [float(value) for _, value in points]
