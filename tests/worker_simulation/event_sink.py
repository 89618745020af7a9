"""Where the events of a worker go: the real series, a queue that is bounded, and an API server that takes its time.

What EventWriter does with asyncio is done here with the kernel. Nothing else in a run may depend on it: it draws from
streams of its own and writes no line of the log, so that a run with a slow sink has the same log as without.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from stowplan_operator.api.event_series import EventSeries, EventWrite
from stowplan_operator.worker.carrier import event_record
from stowplan_operator.worker.requests import EmitEvent

from .kernel import Kernel
from .plan import MILLISECOND, SECOND, Fault, Plan
from .violation import Violation

ROOM: Final = 12
"""Writes that may wait, and events that are remembered, where the sink is slow: few, so that they run out."""

ROOMY: Final = 10_000


class EventSink:
    """Of one worker, from start to end."""

    def __init__(self, kernel: Kernel, plan: Plan, name: str) -> None:
        """Empty."""
        self._kernel = kernel
        self._plan = plan
        self._is_slow = Fault.SLOW_EVENTS in plan.faults
        self._room = ROOM if self._is_slow else ROOMY
        self._series = EventSeries("stowplan-worker", name, remembered=self._room)
        self._queue: deque[EventWrite] = deque()
        self._is_writing = False

    def take(self, request: EmitEvent) -> None:
        """Hand an event on, and forget it. Raises Violation if too much is kept."""
        writes = self._series.record(event_record(request), self._kernel.now)
        if len(self._series) > self._room:
            raise Violation("F17", f"{len(self._series)} events are remembered, {self._room} are allowed")
        if not self._is_slow:
            # Written at once, as far as anybody can tell.
            return
        for write in writes:
            if len(self._queue) == self._room:
                self._plan.fired["an event was dropped"] += 1
            else:
                self._queue.append(write)
        self._write_next()

    def _write_next(self) -> None:
        if self._is_writing or not self._queue:
            return
        self._is_writing = True
        self._queue.popleft()
        slow = self._plan.stream("event sink").randint(1, 60) if self._plan.rolls(Fault.SLOW_EVENTS, 0.2) else 0
        self._kernel.after(slow * SECOND + MILLISECOND, self._written)

    def _written(self) -> None:
        self._is_writing = False
        self._write_next()
