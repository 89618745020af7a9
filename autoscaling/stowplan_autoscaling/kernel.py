"""The virtual clock and what is to happen when.

    kernel = Kernel(start)
    kernel.at(kernel.now + SECOND, wake)       # timers: what controllers and the scheduler sleep for
    kernel.later(kernel.now + SECOND, act)     # the agenda: what the world around them does
    kernel.soon(work)                          # right after the present action
    kernel.run(until)

Three kinds of things happen at one instant, in this order: timers, then deliveries of the change feed (`Feed`), then
the agenda. An item of the agenda therefore finds a cluster in which everything of that instant has settled. Within a
kind the order is (time, sequence of planning). What is planned with `soon` runs right after the action that planned it:
so a worker takes up what has just come into its queue. Nothing here reads a wall clock.

The order is that of the comparison with the real controllers in tests/conformance/controllers: there a watch event is
delivered only when every goroutine is blocked, and stubs act only when no event waits.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND

Action = Callable[[], None]


def nanoseconds(seconds: float) -> int:
    """Seconds as whole microseconds, in nanoseconds."""
    return round(seconds * 1e6) * MICROSECOND


def whole_seconds(now: int) -> int:
    """A time as API objects have it: the second at or before it, in nanoseconds."""
    return now - now % SECOND


class Feed(Protocol):
    """Delivers changes, one per call."""

    @property
    def due(self) -> int | None:
        """When the next change is due; None if none waits."""

    def deliver(self) -> None:
        """Hand out the next change, which is due."""


class Timer:
    """A planned action that can be called off."""

    __slots__ = ("action", "when")

    def __init__(self, when: int, action: Action) -> None:
        self.when = when
        self.action: Action | None = action

    def cancel(self) -> None:
        """Make it not happen."""
        self.action = None


class LivelockError(RuntimeError):
    """Something reacts to itself for ever without virtual time passing."""


class Kernel:
    """The clock. `now`: nanoseconds since 1970-01-01T00:00:00Z.

    `step`: time that passes with each delivery, in nanoseconds; it makes the order of reactions to one cause a fact of
    the clock. `most_per_instant` bounds how much may happen within one millisecond.
    """

    def __init__(self, start: int, *, step: int = 1, most_per_instant: int = 20_000_000) -> None:
        self.start = start
        self.now = start
        self.step = step
        self.most_per_instant = most_per_instant
        self.feed: Feed | None = None
        self._timers: list[tuple[int, int, Timer]] = []
        self._agenda: list[tuple[int, int, Timer]] = []
        self._soon: deque[Action] = deque()
        self._sequence = 0
        self._until = start
        """Where the present run ends."""

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return (self.now - self.start) / SECOND

    def at(self, when: int, action: Action) -> Timer:
        """Plan a timer."""
        return self._plan(self._timers, when, action)

    def later(self, when: int, action: Action) -> Timer:
        """Plan an item of the agenda: it happens when everything of its instant has settled."""
        return self._plan(self._agenda, when, action)

    def soon(self, action: Action) -> None:
        """Run the action right after the present one, before time passes or anything else happens."""
        self._soon.append(action)

    def skip_to(self, when: int) -> bool:
        """Let time pass to `when` within an action, if nothing is to happen until then; returns whether it did.

        For what repeats itself without any effect. A timer set for that time would have been the next thing to happen.
        """
        if self._soon or when >= self._until or (self._timers and self._timers[0][0] <= when):
            return False
        if self._agenda and self._agenda[0][0] <= when:
            return False
        due = self.feed.due if self.feed is not None else None
        if due is not None and due <= when:
            return False
        self.now = max(self.now, when)
        return True

    def _plan(self, heap: list[tuple[int, int, Timer]], when: int, action: Action) -> Timer:
        timer = Timer(when, action)
        self._sequence += 1
        heapq.heappush(heap, (when, self._sequence, timer))
        return timer

    def run(self, until: int, *, stop: Callable[[], bool] | None = None) -> bool:
        """Let time pass up to `until`, exclusive for the agenda. `stop` is asked between items of the agenda.

        Returns whether the end was reached. Raises LivelockError.
        """
        self._until = until
        timers, agenda, feed, soon = self._timers, self._agenda, self.feed, self._soon
        horizon, count, most, step = self.now + MILLISECOND, 0, self.most_per_instant, self.step
        action: Action | None
        while True:
            if soon:
                while soon and count <= most:
                    soon.popleft()()
                    count += 1
                if soon:
                    raise self._livelock()
            now = self.now
            if timers and timers[0][0] <= now:
                action = heapq.heappop(timers)[2].action
                if action is not None:
                    action()
            elif feed is not None and (due := feed.due) is not None and due <= now:
                feed.deliver()
                # The reaction to a change, as far as it takes no time, belongs to the moment of the delivery.
                while soon and count <= most:
                    soon.popleft()()
                    count += 1
                self.now += step
            elif agenda and agenda[0][0] <= now and agenda[0][0] < until:
                if stop is not None and stop():
                    return False
                action = heapq.heappop(agenda)[2].action
                if action is not None:
                    action()
            elif not self._advance(until):
                return True
            count += 1
            if self.now >= horizon:
                horizon, count = self.now + MILLISECOND, 0
            elif count > most:
                raise self._livelock()

    def _livelock(self) -> LivelockError:
        most = self.most_per_instant
        return LivelockError(f"at {self.elapsed:.3f} s: more than {most:,} things happened within a millisecond")

    def _advance(self, until: int) -> bool:
        """Move to the next moment at which something happens, or to the end."""
        due = self.feed.due if self.feed is not None else None
        following = until
        if self._timers and self._timers[0][0] < following:
            following = self._timers[0][0]
        if due is not None and due < following:
            following = due
        if self._agenda and self._agenda[0][0] < following:
            following = self._agenda[0][0]
        if following >= until:
            self.now = max(self.now, until)
            return False
        self.now = max(self.now, following)
        return True
