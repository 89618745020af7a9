"""The two points per container that metrics-server keeps, and what it makes of them. Arrays, one row per container.

A point is a moment, the CPU time cumulated since the container's start, and the working set at that moment. CPU use is
the difference of two points over the time between them.

Follows pkg/storage/pod.go and pkg/storage/types.go of metrics-server v0.9.0. Not followed: a pod with a container whose
cumulated CPU or working set is 0 is dropped there as half measured. A process that runs has used both; a 0 is the
usage model's way of saying that it does not care, so it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stowplan_autoscaling.kernel import SECOND

from .housekeeping import NEVER
from .usage import Ints

FRESH_CONTAINER: Final = 10 * SECOND
"""freshContainerMinMetricsResolution: a container this old can be given a point at its start."""

ZERO_TIME: Final = -2
"""The time of a point that never was: Go's zero time, from which any window is the longest there is."""

LONGEST: Final = 2**63 - 1
"""The longest duration of Go, in nanoseconds; longer differences of times are cut to it."""

_NANO_PER_MILLI: Final = 1_000_000


@dataclass(slots=True)
class Points:
    """The latest point and the one before it; times NEVER where there is none. CPU in nanoseconds, memory in bytes.

    `earlier_time` can be ZERO_TIME: where a container has one point only, housekeeping has found no newer one, and
    another container of its pod has two, metrics-server takes an empty point for the earlier one. The pod is then shown
    with next to no CPU use of that container, perhaps with a window of 292 years, until the next point.
    """

    start: Ints
    time: Ints
    cpu: Ints
    memory: Ints
    earlier_time: Ints
    earlier_cpu: Ints

    @classmethod
    def of_size(cls, size: int) -> Points:
        """Rows without points."""
        never = np.full(size, NEVER, np.int64)
        zeros = np.zeros(size, np.int64)
        return cls(zeros, never, zeros.copy(), zeros.copy(), never.copy(), zeros.copy())

    def forget(self, row: int) -> None:
        """The row has no points."""
        self.time[row] = self.earlier_time[row] = NEVER

    def store(self, rows: Ints, pods: Ints, time: Ints, cpu: Ints, memory: Ints, resolution: int) -> None:
        """A batch arrives: new points of `rows`. Containers that are not in the batch lose theirs.

        `pods` are the numbers of all rows' pods.
        """
        start, last = self.start[rows], self.time[rows]
        has_earlier = np.zeros(int(pods.max(initial=-1)) + 1, np.bool_)
        has_earlier[pods[self.earlier_time != NEVER]] = True
        before = self.earlier_time[rows]
        before = np.where((before == NEVER) & has_earlier[pods[rows]], ZERO_TIME, before)
        age = time - start
        fresh = (age >= FRESH_CONTAINER) & (age < resolution)
        continued = ~fresh & (last != NEVER) & (start < last)
        moved = continued & (time > last)
        # An old point again: the earlier one stays, if it is earlier.
        again = continued & ~moved & (before != NEVER) & (before < time)
        earlier_time = np.where(fresh, start, np.where(moved, last, np.where(again, before, NEVER)))
        kept = again & (before != ZERO_TIME)
        earlier_cpu = np.where(moved, self.cpu[rows], np.where(kept, self.earlier_cpu[rows], 0))
        self.time.fill(NEVER)
        self.earlier_time.fill(NEVER)
        self.time[rows], self.cpu[rows], self.memory[rows] = time, cpu, memory
        self.earlier_time[rows], self.earlier_cpu[rows] = earlier_time, earlier_cpu


def window_of(time: Ints, earlier_time: Ints) -> Ints:
    """From the earlier to the later point."""
    return np.where(earlier_time == ZERO_TIME, LONGEST, time - earlier_time)


def cpu_milli(delta: Ints, window: Ints) -> Ints:
    """CPU use in millicores from CPU nanoseconds over a window in nanoseconds.

    metrics-server cuts to whole nanocores; whoever asks for millicores gets them rounded up (Quantity.MilliValue).
    """
    seconds = window // SECOND + (window % SECOND) / 1e9
    nanocores = (delta / seconds).astype(np.int64)
    return -(-nanocores // _NANO_PER_MILLI)
