"""What happens in the world of a scenario, in order, and the clock of the scenario.

An item of time t happens half a millisecond before t, so that a sync at t sees it; a late one happens at t sharp.
Follows internal/hpasim/world.go and internal/bubble/bubble.go of the oracle.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from stowplan_autoscaling.kernel import MILLISECOND, SECOND, nanoseconds, whole_seconds

START: Final = 946_684_800 * SECOND
"""2000-01-01T00:00:00Z, the first moment of every scenario."""

EARLIER: Final = 500_000
"""How long before its time an item happens, in nanoseconds."""

PODS, SCRIPTS, SCRAPES, PUBLICATIONS = range(4)
"""Order at equal times."""


def moment(t: float) -> int:
    """Nanoseconds since 1970 of t seconds since the start."""
    return START + nanoseconds(t)


def stamp(t: float) -> int:
    """The same as API objects show it: whole seconds."""
    return whole_seconds(moment(t))


def seconds(now: int) -> float:
    """Seconds since the start, in tenths: retries after conflicts last a few milliseconds, which is not to show."""
    return ((now - START + 50 * MILLISECOND) // (100 * MILLISECOND)) / 10


class Agenda:
    """Items by (time, late, class, sequence)."""

    def __init__(self) -> None:
        self._items: list[tuple[float, bool, int, int, Callable[[float], None]]] = []
        self._sequence = 0

    def at(self, t: float, kind: int, run: Callable[[float], None], *, late: bool = False) -> None:
        """Plan an item; it is called with its time."""
        self._sequence += 1
        heapq.heappush(self._items, (t, late, kind, self._sequence, run))

    def next_at(self) -> int | None:
        """When the next item happens, in nanoseconds since 1970."""
        if not self._items:
            return None
        t, late = self._items[0][:2]
        return moment(t) if late else moment(t) - EARLIER

    def run_before_start(self) -> None:
        """Items dated up to 0 happen before anybody looks."""
        while self._items and self._items[0][0] <= 0:
            self._run()

    def run_until(self, now: int, end: int) -> None:
        """Items that happen up to `now` and before `end`."""
        while (due := self.next_at()) is not None and due <= now and due < end:
            self._run()

    def _run(self) -> None:
        t, _, _, _, run = heapq.heappop(self._items)
        run(t)
