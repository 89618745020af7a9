"""What all pods of a load have in common: what they cost idle, while they start, while they warm up, and in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stowplan_autoscaling.inputs.errors import FieldError

from .checks import above, at_least
from .series import Floats

Booleans = NDArray[np.bool_]
Ints = NDArray[np.int64]
Amount = float | Floats
"""One for all pods, or one per pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """What a container does before it is ready: `cpu` cores for `seconds`, and `memory` bytes beyond its base."""

    seconds: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    def __post_init__(self) -> None:
        at_least("seconds", self.seconds)
        at_least("cpu", self.cpu)
        at_least("memory", self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodModel:
    """Costs that do not depend on what the pods do.

    `idle_cpu` cores of a running container that has nothing to do. `memory` bytes of such a container, growing by
    `memory_growth` bytes per second since its start (a leak, a cache). Work costs `warmup_factor` times as much when a
    pod gets ready, and falls in a straight line to the usual cost over `warmup` seconds.
    """

    idle_cpu: float = 0.0
    memory: float = 0.0
    memory_growth: float = 0.0
    startup: Startup = field(default_factory=Startup)
    warmup: float = 0.0
    warmup_factor: float = 1.0

    def __post_init__(self) -> None:
        at_least("idleCPU", self.idle_cpu)
        at_least("memory", self.memory)
        at_least("memoryGrowth", self.memory_growth)
        at_least("warmup", self.warmup)
        at_least("warmupFactor", self.warmup_factor, 1.0)


class PodColumns:
    """The pods of a load, one row each, in order of their creation. Immutable.

    `keys` name them. `ready`: whether they get work. `speed`: of a core of their node, relative to the core in which
    costs are stated. `started`: when the container started, `ready_since`: since when it is ready, both in seconds
    since the start of the run, NaN for not yet. `startup`: how long its start-up work takes, seconds, NaN for what the
    model says. `place`: the row in which the caller keeps the pod as long as it lives, None to leave that to the fleet.
    A single value stands for all rows. Raises FieldError.
    """

    __slots__ = ("keys", "place", "ready", "ready_since", "rows", "speed", "started", "startup")

    def __init__(
        self,
        keys: Sequence[str],
        *,
        ready: ArrayLike = True,
        speed: ArrayLike = 1.0,
        started: ArrayLike = 0.0,
        ready_since: ArrayLike = 0.0,
        startup: ArrayLike = math.nan,
        place: Ints | Sequence[int] | None = None,
    ) -> None:
        self.keys = tuple(keys)
        self.rows = {key: row for row, key in enumerate(self.keys)}
        if len(self.rows) < len(self.keys):
            raise FieldError("keys", "two pods have the same key")
        shape = (len(self.keys),)
        self.started: Floats = np.broadcast_to(np.asarray(started, dtype=np.float64), shape)
        self.ready_since: Floats = np.broadcast_to(np.asarray(ready_since, dtype=np.float64), shape)
        self.startup: Floats = np.broadcast_to(np.asarray(startup, dtype=np.float64), shape)
        self.ready: Booleans = np.broadcast_to(np.asarray(ready, dtype=np.bool_), shape) & ~np.isnan(self.started)
        self.speed: Floats = np.broadcast_to(np.asarray(speed, dtype=np.float64), shape)
        self.place: Ints | None = None if place is None else np.asarray(place, dtype=np.int64)
        if self.keys:
            above("speed", float(self.speed.min()))

    def __len__(self) -> int:
        return len(self.keys)

    def carried(self, before: PodColumns, column: Floats, *, new: float = 0.0) -> Floats:
        """A column of `before` for these rows; `new` for pods that are new."""
        if before.keys == self.keys:
            return column
        rows = [before.rows.get(key, -1) for key in self.keys]
        return np.append(column, new)[rows] if rows else np.zeros(0)


NO_PODS = PodColumns(())


class Costs(NamedTuple):
    """What the rules below read of a `PodModel`: a number for all pods, or a column with one entry per pod."""

    idle_cpu: Amount
    memory: Amount
    memory_growth: Amount
    startup_cpu: Amount
    startup_memory: Amount
    warmup: Amount
    warmup_factor: Amount


def costs_of(model: PodModel) -> Costs:
    """Those of pods that all have one model."""
    startup = model.startup
    return Costs(
        model.idle_cpu,
        model.memory,
        model.memory_growth,
        startup.cpu,
        startup.memory,
        model.warmup,
        model.warmup_factor,
    )


class Times(NamedTuple):
    """What the rules below read of pods: `started`, `ready_since` as in `PodColumns`, and when start-up work ends."""

    started: Floats
    startup_ends: Floats
    ready_since: Floats


def times_of(model: PodModel, pods: PodColumns) -> Times:
    """Those of pods of one model."""
    return Times(pods.started, startup_ends(model, pods), pods.ready_since)


def startup_ends(model: PodModel, pods: PodColumns) -> Floats:
    """When the start-up work of each container is done; NaN for one that has not begun."""
    seconds = np.where(np.isnan(pods.startup), model.startup.seconds, pods.startup)
    result: Floats = pods.started + seconds
    return result


def warm_factor(costs: Costs, times: Times, now: Amount) -> Floats:
    """What work costs now, as a multiple of its usual cost, per pod."""
    age = np.nan_to_num(now - times.ready_since, nan=0.0)
    warmup = np.broadcast_to(np.asarray(costs.warmup, dtype=np.float64), age.shape)
    # Without a warm-up nothing is left of it, however young the pod.
    passed = np.ones_like(age)
    np.divide(age, warmup, out=passed, where=warmup > 0)
    left = np.clip(1 - passed, 0.0, 1.0)
    result: Floats = 1 + (costs.warmup_factor - 1) * left
    return result


def starting(times: Times, now: Amount) -> Booleans:
    """Which containers are doing their start-up work."""
    result: Booleans = (times.started <= now) & (now < times.startup_ends)
    return result


def fixed_cpu(costs: Costs, times: Times, now: Amount) -> Floats:
    """Cores that each pod wants for other things than work: idle, or start-up."""
    running = np.where(times.started <= now, costs.idle_cpu, 0.0)
    return np.where(starting(times, now), np.maximum(costs.startup_cpu, running), running)


def fixed_cpu_seconds(costs: Costs, times: Times, cores: Floats, a: Amount, b: Amount) -> Floats:
    """Core seconds that each pod used from `a` to `b` for other things than work, with at most `cores` cores."""
    # NaN, not yet: fmin takes the other one, the end of the time in question.
    begin = np.clip(np.fmin(times.started, b), a, b)
    done = np.clip(np.fmin(times.startup_ends, b), a, b)
    idle = np.minimum(costs.idle_cpu, cores)
    burst = np.minimum(np.maximum(costs.startup_cpu, costs.idle_cpu), cores)
    result: Floats = burst * (done - begin) + idle * (b - done)
    return result


def fixed_memory(costs: Costs, times: Times, now: Amount) -> Floats:
    """Bytes that each pod holds whatever it does; 0 before its container starts."""
    age = np.where(np.isnan(times.started), -1.0, now - times.started)
    grown = costs.memory + costs.memory_growth * np.maximum(age, 0.0)
    burst = np.where(starting(times, now), costs.startup_memory, 0.0)
    return np.where(age >= 0, grown + burst, 0.0)
