"""How long to wait after a failure: doubling, with jitter, reset after a quiet time.

Follows client-go's reflector (tools/cache/reflector.go of v0.37.2): 0.8 s, factor 2, at most 30 s, and as much again by
chance, so that clients of one server do not come back together; two minutes without a failure start it anew.
"""

from __future__ import annotations

from typing import Protocol


class Chance(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class Backoff:
    """Delays between attempts. Times are seconds of any clock that does not go back."""

    def __init__(self, rng: Chance, *, first: float = 0.8, most: float = 30.0, quiet: float = 120.0) -> None:
        self._rng = rng
        self._first = first
        self._most = most
        self._quiet = quiet
        self._delay = first
        self._last: float | None = None

    @property
    def is_reset(self) -> bool:
        """Whether there has been no failure since the beginning, or since `reset`."""
        return self._last is None

    def next(self, now: float) -> float:
        """Seconds to wait after a failure at `now`: between `first` and `most`."""
        if self._last is not None and now - self._last > self._quiet:
            self._delay = self._first
        self._last = now
        delay = self._delay
        self._delay = min(2 * delay, self._most)
        return min(delay * (1 + self._rng.random()), self._most)

    def reset(self) -> None:
        """Begin anew: it works again."""
        self._delay, self._last = self._first, None
