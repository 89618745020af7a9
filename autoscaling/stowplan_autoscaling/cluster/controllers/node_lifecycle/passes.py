"""When the controller looks at its nodes: every 5 s, as far as there is anything to see.

The passes at which nothing happens are not carried out, but what would have been seen at them is known: `seen_at` says
at which pass a heartbeat was noticed. Upstream waits 5 s after the end of a pass (node-monitor-period).
"""

from __future__ import annotations

from collections import deque
from typing import Final

_REMEMBERED: Final = 64


class PassTimes:
    """The times of all passes, carried out or not, from `start` on. Times in nanoseconds."""

    __slots__ = ("_real", "_start", "period")

    def __init__(self, start: int, period: int) -> None:
        self.period = period
        self._start = start
        # (begin, end) of passes that were carried out; the first one is due at the start.
        self._real: deque[tuple[int, int]] = deque([(start - period, start - period)], maxlen=_REMEMBERED)

    def record(self, begin: int, end: int) -> None:
        """A pass was carried out."""
        self._real.append((begin, end))

    def next(self, when: int) -> int:
        """The first pass at or after `when`, and after the last one that was carried out."""
        return self._after(self._real[-1][1], when)

    def seen_at(self, when: int) -> int:
        """The pass at which something that happened at `when` is noticed."""
        following: int | None = None
        for begin, end in reversed(self._real):
            if when == begin:
                return begin
            if when > begin:
                found = self._after(end, when)
                return found if following is None else min(found, following)
            following = begin
        return max(self._real[0][0], self._start)

    def _after(self, end: int, when: int) -> int:
        return end + max(1, -((end - when) // self.period)) * self.period
