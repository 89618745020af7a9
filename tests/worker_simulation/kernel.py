"""Virtual time: a heap of what is to happen, in a total order, and a log whose hash tells two runs apart."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush


class Kernel:
    """Events by (time, sequence)."""

    def __init__(self) -> None:
        self.now = 0
        self.steps = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._seq = 0
        self._hash = hashlib.sha256()
        self.recent: deque[str] = deque(maxlen=40)

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Have something happen at that time, or now if that is over."""
        self._seq += 1
        heappush(self._heap, (max(time, self.now), self._seq, action))

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Have something happen so many nanoseconds from now."""
        self.at(self.now + delay, action)

    def step(self, until: int) -> bool:
        """Let the next thing happen; False if there is none up to `until`, which is then the time."""
        if not self._heap or self._heap[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now, _, action = heappop(self._heap)
        self.steps += 1
        action()
        return True

    def log(self, text: str) -> None:
        """A line of the log: kept for a while, and hashed for good."""
        line = f"{self.now / 1e9:.6f} {text}"
        self.recent.append(line)
        self._hash.update(line.encode())
        self._hash.update(b"\n")

    def digest(self) -> str:
        """The hash of the log."""
        return self._hash.hexdigest()
