"""When cAdvisor looks at a container: the moments of which the kubelet knows cumulated CPU and working set.

cAdvisor runs one loop per container. It looks at once when the container appears, then waits `interval` plus a random
part of up to `jitter` times `interval`, and so on: with the kubelet's 10 s and cAdvisor's factor 1.0, every 10 to 20 s.
Nothing happens at such a moment here; the moments are computed when somebody reads the kubelet, for all containers at
once. The waits of a container come from its own stream, whatever other containers do.

Follows manager/container.go of cAdvisor v0.60.5 (`jitter`, `housekeeping`) with the interval of
pkg/kubelet/cadvisor/cadvisor_linux.go of Kubernetes v1.37.2. Not followed: an idle container's interval grows to 15 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan_autoscaling.kernel import MILLISECOND, SECOND

from .usage import Floats, Ints

Seeds = npt.NDArray[np.uint64]

NEVER: Final = -1
"""A moment that has not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    """How often cAdvisor looks."""

    interval: int = 10 * SECOND
    """defaultHousekeepingInterval of the kubelet, in nanoseconds."""
    jitter: float = 1.0
    """jitter_factor of cAdvisor: a wait is between interval and (1 + jitter) * interval. 0: a fixed rhythm."""

    @property
    def longest(self) -> int:
        """The longest wait, in nanoseconds."""
        return int(self.interval * (1 + self.jitter))


DEFAULT_HOUSEKEEPING: Final = Housekeeping()


@dataclass(slots=True)
class Rhythm:
    """The housekeeping of many containers, one row each. Moments are whole milliseconds, as the kubelet prints them."""

    seed: Seeds
    waits: Ints
    """How many waits were drawn."""
    moment: Ints
    """The latest moment up to the last read; NEVER before the first."""
    following: Ints
    """The moment after it."""

    @classmethod
    def of_size(cls, size: int) -> Rhythm:
        """Rows that are to be started."""
        unused = np.zeros(size, np.int64)
        return cls(np.zeros(size, np.uint64), unused, np.full(size, NEVER, np.int64), unused.copy())

    def start(self, row: int, seed: int, now: int) -> None:
        """A container appears: cAdvisor looks at once, at the first whole millisecond after `now`.

        Not at `now` itself: the start that the kubelet reports is the container's creation, its cgroup comes later.
        """
        self.seed[row], self.waits[row], self.moment[row] = seed, 0, NEVER
        self.following[row] = (now // MILLISECOND + 1) * MILLISECOND

    def advance(self, rows: Ints, until: Ints, rule: Housekeeping) -> None:
        """Let time pass for the rows: the latest moment up to until[i] becomes the moment of rows[i]."""
        due = self.following[rows] <= until
        while due.any():
            rows, until = rows[due], until[due]
            self.moment[rows] = self.following[rows]
            drawn = uniforms(self.seed[rows], self.waits[rows])
            wait = (rule.interval * (1 + rule.jitter * drawn)).astype(np.int64)
            self.following[rows] += wait // MILLISECOND * MILLISECOND
            self.waits[rows] += 1
            due = self.following[rows] <= until


_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_ONE, _11, _27, _30, _31 = (np.uint64(number) for number in (1, 11, 27, 30, 31))


def uniforms(seed: Seeds, draw: Ints) -> Floats:
    """Number `draw[i]` of the stream `seed[i]`, in [0, 1): SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = seed + (draw.astype(np.uint64) + _ONE) * _STEP
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    x ^= x >> _31
    drawn: Floats = (x >> _11).astype(np.float64) * 2.0**-53
    return drawn
