"""What all pods of a load have in common: what they cost idle, while they start, while they warm up, and in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stowplan_autoscaling.inputs.errors import FieldError

from .checks import above, at_least
from .series import Floats

Booleans = NDArray[np.bool_]


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
    model says. A single value stands for all rows. Raises FieldError.
    """

    __slots__ = ("keys", "ready", "ready_since", "rows", "speed", "started", "startup")

    def __init__(
        self,
        keys: Sequence[str],
        *,
        ready: ArrayLike = True,
        speed: ArrayLike = 1.0,
        started: ArrayLike = 0.0,
        ready_since: ArrayLike = 0.0,
        startup: ArrayLike = math.nan,
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
        if self.keys:
            above("speed", float(self.speed.min()))

    def __len__(self) -> int:
        return len(self.keys)

    def carried(self, before: PodColumns, column: Floats) -> Floats:
        """A column of `before` for these rows; 0 for pods that are new."""
        if before.keys == self.keys:
            return column
        rows = [before.rows.get(key, -1) for key in self.keys]
        return np.append(column, 0.0)[rows] if rows else np.zeros(0)


NO_PODS = PodColumns(())


def warm_factor(model: PodModel, pods: PodColumns, now: float) -> Floats:
    """What work costs now, as a multiple of its usual cost, per pod."""
    if model.warmup_factor == 1.0 or not model.warmup:
        return np.ones(len(pods))
    age = np.nan_to_num(now - pods.ready_since, nan=0.0)
    left = np.clip(1 - age / model.warmup, 0.0, 1.0)
    return 1 + (model.warmup_factor - 1) * left


def startup_ends(model: PodModel, pods: PodColumns) -> Floats:
    """When the start-up work of each container is done; NaN for one that has not begun."""
    seconds = np.where(np.isnan(pods.startup), model.startup.seconds, pods.startup)
    result: Floats = pods.started + seconds
    return result


def starting(model: PodModel, pods: PodColumns, now: float) -> Booleans:
    """Which containers are doing their start-up work."""
    result: Booleans = (pods.started <= now) & (now < startup_ends(model, pods))
    return result


def fixed_cpu(model: PodModel, pods: PodColumns, now: float) -> Floats:
    """Cores that each pod wants for other things than work: idle, or start-up."""
    running = np.where(pods.started <= now, model.idle_cpu, 0.0)
    return np.where(starting(model, pods, now), np.maximum(model.startup.cpu, running), running)


def fixed_cpu_seconds(model: PodModel, pods: PodColumns, cores: Floats, a: float, b: float) -> Floats:
    """Core seconds that each pod used from `a` to `b` for other things than work, with at most `cores` cores."""
    up = np.nan_to_num(pods.started, nan=math.inf)
    begin, done = np.clip(up, a, b), np.clip(np.nan_to_num(startup_ends(model, pods), nan=math.inf), a, b)
    idle = np.minimum(model.idle_cpu, cores)
    burst = np.minimum(max(model.startup.cpu, model.idle_cpu), cores)
    result: Floats = burst * (done - begin) + idle * (b - done)
    return result


def fixed_memory(model: PodModel, pods: PodColumns, now: float) -> Floats:
    """Bytes that each pod holds whatever it does; 0 before its container starts."""
    age = np.nan_to_num(now - pods.started, nan=-1.0)
    grown = model.memory + model.memory_growth * np.maximum(age, 0.0)
    burst = np.where(starting(model, pods, now), model.startup.memory, 0.0)
    return np.where(age >= 0, grown + burst, 0.0)
