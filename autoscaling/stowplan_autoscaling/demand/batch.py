"""The pod of a batch job: a fixed amount of work, done as fast as its share of the CPU allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .checks import above, at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchModel:
    """`duration` seconds with `cpu` reference cores to itself, of which `wait` seconds use no CPU; `memory` bytes.

    The CPU part slows down in proportion to the cores it gets. Raises FieldError.
    """

    duration: float
    cpu: float = 1.0
    wait: float = 0.0
    memory: float = 0.0

    def __post_init__(self) -> None:
        above("duration", self.duration)
        at_least("cpu", self.cpu)
        at_least("wait", self.wait)
        at_least("memory", self.memory)
        at_least("duration", self.duration, self.wait)


class BatchRun:
    """One run. It waits first and then works. Times are seconds since the start of the simulation."""

    __slots__ = ("_cores", "_left", "_wait", "cpu_seconds", "model", "now", "speed", "started")

    def __init__(self, model: BatchModel, started: float, *, speed: float = 1.0) -> None:
        self.model = model
        self.speed = above("speed", speed)
        self.started = started
        self.now = started
        self.cpu_seconds = 0.0
        self._wait = model.wait
        self._left = model.duration - model.wait
        """Seconds of work left at full speed."""
        self._cores = math.inf

    @property
    def done(self) -> bool:
        """Whether all work is done."""
        return self._wait <= 0 and self._left <= 0

    @property
    def wanted(self) -> float:
        """Cores that it would use now: a faster core needs a smaller share of its time."""
        return 0.0 if self._wait > 0 or self._left <= 0 else self.model.cpu / self.speed

    @property
    def _pace(self) -> float:
        """Seconds of work done per second, 1 at full speed."""
        if not self.model.cpu:
            return 1.0
        return min(1.0, self._cores * self.speed / self.model.cpu)

    @property
    def finishes_at(self) -> float:
        """When it will be done if it keeps the cores that it has; infinite without any."""
        if self._left <= 0:
            return self.now + max(self._wait, 0.0)
        pace = self._pace
        return self.now + self._wait + self._left / pace if pace > 0 else math.inf

    @property
    def next_change(self) -> float:
        """When its demand changes next: at the end of the wait, or at the end of the work."""
        return self.now + self._wait if self._wait > 0 else self.finishes_at

    def advance(self, now: float) -> None:
        """Work up to `now` with the cores in force. Raises ValueError for a time gone by."""
        if now < self.now:
            raise ValueError(f"cannot go back from {self.now} to {now}")
        finish = self.finishes_at
        seconds = now - self.now
        waited = min(self._wait, seconds)
        self._wait -= waited
        if now >= finish:
            worked, self._left = self._left, 0.0
        else:
            worked = (seconds - waited) * self._pace
            self._left = max(self._left - worked, 0.0)
        self.cpu_seconds += worked * self.model.cpu / self.speed
        self.now = now

    def grant(self, cores: float) -> None:
        """Cores that it may use from now on."""
        self._cores = cores
