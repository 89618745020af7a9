"""The queue between kopf's thread and the operator's loop: one entry per object, the newest one.

Whoever is slow sees fewer, newer states; nothing is lost, since each state is the whole object. Objects are told apart
by UID: kopf gives no order between the end of one and the beginning of the next one with its name.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sighting:
    """An object as it was seen; if it is gone, as it was last."""

    kind: str
    value: Mapping[str, Any]
    is_gone: bool


class WorkQueue:
    """`offer` from any thread; `wait` and `take` in the loop that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Sighting] = {}
        self._filled = asyncio.Event()
        self._is_closed = False

    def offer(self, sighting: Sighting) -> None:
        """An object as it is now. Offers after `close` are dropped."""
        key = (sighting.kind, sighting.value["metadata"]["uid"])
        with self._lock:
            if self._is_closed:
                return
            was_empty = not self._entries
            self._entries[key] = sighting
            if was_empty:
                # Under the lock: the loop is not closed before this queue is.
                self._loop.call_soon_threadsafe(self._filled.set)

    async def wait(self) -> None:
        """Until there is something to take."""
        await self._filled.wait()

    def take(self) -> list[Sighting]:
        """All entries, in the order in which their objects first came; then it is empty."""
        with self._lock:
            taken, self._entries = self._entries, {}
            self._filled.clear()
        return list(taken.values())

    def close(self) -> None:
        """From now on nothing is taken in."""
        with self._lock:
            self._is_closed = True
            self._entries = {}
