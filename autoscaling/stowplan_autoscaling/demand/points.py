"""Series of points and the usage of pods, as scenarios of the conformance suite state them.

A series is `[[t, v], ...]` with t in seconds since the start and whole numbers v: a step function whose first value
also holds before its time. Linear series are interpolated in whole milliseconds. All divisions round down, so results
are whole numbers and equal on every machine. Products have 64 bits and wrap around, which a series of memory in
thousandths of a byte over half an hour can reach.

Follows internal/load/load.go of the controller oracle in tests/conformance/controllers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.hpa.fixed_width import wrap64

RawPoint = Sequence[int | float]
"""[t, v1, v2, ...]."""


class Points:
    """A series, ready to be evaluated. Points stand in the order of time."""

    __slots__ = ("_linear", "_times", "_values")

    def __init__(self, points: Sequence[RawPoint], *, linear: bool = False) -> None:
        """From points as they stand in JSON."""
        self._times = [float(point[0]) for point in points]
        self._values = [tuple(int(value) for value in point[1:]) for point in points]
        self._linear = linear

    def at(self, t: float) -> tuple[int, ...]:
        """The values at a time; none for a series without points."""
        times = self._times
        if not times:
            return ()
        index = max(bisect_right(times, t) - 1, 0)
        values = self._values[index]
        if not self._linear or index + 1 == len(times) or t <= times[index]:
            return values
        start, end = _milliseconds(times[index]), _milliseconds(times[index + 1])
        passed, whole = _milliseconds(t) - start, end - start
        following = self._values[index + 1]
        return tuple(wrap64(v + wrap64((w - v) * passed) // whole) for v, w in zip(values, following, strict=True))

    def first_at(self, t: float) -> int:
        """The first value at a time, 0 without any."""
        values = self.at(t)
        return values[0] if values else 0


def _milliseconds(t: float) -> int:
    return int(t * 1000 + 0.5)


class UsageSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one pod uses, as JSON states it.

    With `demand`: ready pods use idle + min(cap, demand / ready), other running pods use starting. Without it: per_pod,
    or the pod's own series in `pods`. `spread` p varies the usage by up to p percent either way with the pod's number.
    """

    demand: tuple[tuple[int | float, ...], ...] | None = None
    idle: int = 0
    cap: int = 0
    starting: int = 0
    per_pod: tuple[tuple[int | float, ...], ...] = ()
    pods: dict[str, tuple[tuple[int | float, ...], ...]] = {}
    spread: int = 0
    linear: bool = False


class Usage:
    """The usage of pods over time, in milli units."""

    __slots__ = ("_demand", "_per_pod", "_pods", "_spec")

    def __init__(self, spec: UsageSpec) -> None:
        """From its JSON form."""
        linear = spec.linear
        self._spec = spec
        self._demand = None if spec.demand is None else Points(spec.demand, linear=linear)
        self._per_pod = Points(spec.per_pod, linear=linear)
        self._pods = {name: Points(points, linear=linear) for name, points in spec.pods.items()}

    def of(self, name: str, number: int, ready: bool, count: int, t: float) -> int:
        """What the pod of this name and number uses at t seconds while `count` pods are ready."""
        spec = self._spec
        if self._demand is not None:
            if not ready:
                return spec.starting
            amount = self._unspread(count, t)
        else:
            amount = self._pods.get(name, self._per_pod).first_at(t)
        if spec.spread > 0:
            amount = wrap64(amount * (100 + number * 37 % (2 * spec.spread + 1) - spec.spread)) // 100
        return amount

    @property
    def is_uniform(self) -> bool:
        """Whether no pod has a series of its own: then `of_many` gives what `of` gives."""
        return not self._pods

    def of_many(self, numbers: NDArray[np.int64], ready: NDArray[np.bool_], count: int, t: float) -> NDArray[np.int64]:
        """What many pods use, by their numbers; only if `is_uniform`."""
        amount, spread = self._unspread(count, t), self._spec.spread
        if spread <= 0 and self._demand is not None:
            return np.where(ready, np.int64(amount), np.int64(self._spec.starting))
        amounts = np.full(len(numbers), amount, np.int64)
        if spread > 0:
            amounts = amounts * (100 + numbers * 37 % (2 * spread + 1) - spread) // 100
        if self._demand is not None:
            amounts[~ready] = self._spec.starting
        return amounts

    def _unspread(self, count: int, t: float) -> int:
        spec = self._spec
        if self._demand is None:
            return self._per_pod.first_at(t)
        amount = self._demand.first_at(t) // max(count, 1)
        return (min(amount, spec.cap) if spec.cap > 0 else amount) + spec.idle
