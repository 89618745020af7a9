"""When autoscalers are synced: the work queue of the controller, in virtual time.

The rate limiter answers every time with the same delay, the sync period. A key that is added with a delay keeps the
earliest moment it was promised, so adding it again never postpones a sync. What follows:

- a new autoscaler and a changed spec (a new generation) are synced at once,
- after each sync the next one is due a period later; a sync that took time shifts the phase,
- a changed spec does not shift the phase: the sync that was planned takes place, too,
- changes of the status and the informer's resync also add with a delay and thus change nothing; only a resync during a
  sync that takes time takes its place as the beginning of the next period.

Follows pkg/controller/podautoscaler/rate_limiters.go, enqueueHPA and updateHPA in horizontal.go, and
staging/src/k8s.io/client-go/util/workqueue/{queue,delaying_queue}.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

import heapq
from collections import deque


class SyncQueue:
    """Keys of autoscalers that are ready or wait; `period` and all times in nanoseconds."""

    def __init__(self, period: int) -> None:
        """Empty."""
        self.period = period
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._promised: dict[str, int] = {}
        self._waiting: list[tuple[int, int, str]] = []
        self._sequence = 0

    def add(self, key: str) -> None:
        """For an autoscaler that is new or has a new generation: at once."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._ready.append(key)

    def add_rate_limited(self, key: str, now: int) -> None:
        """For any other change, and after each sync: a period from now, unless it is due earlier anyway."""
        due = now + self.period
        promised = self._promised.get(key)
        if promised is not None and promised <= due:
            return
        self._promised[key] = due
        self._sequence += 1
        heapq.heappush(self._waiting, (due, self._sequence, key))

    def resync(self, now: int) -> None:
        """The informer shows all autoscalers again. Those that wait are due earlier, so the others alone are added."""
        for key in sorted(self._processing):
            self.add_rate_limited(key, now)

    def forget(self, key: str) -> None:
        """The autoscaler is gone."""
        self._promised.pop(key, None)
        if key in self._dirty:
            self._dirty.discard(key)
            if key in self._ready:
                self._ready.remove(key)

    def next_at(self, now: int) -> int | None:
        """When the next key is ready: `now` if one is; None if no key waits."""
        if self._ready:
            return now
        self._drop_stale()
        return self._waiting[0][0] if self._waiting else None

    def take(self, now: int) -> str | None:
        """The next key that is ready, which is then being processed until `done`; None if there is none."""
        self._drop_stale()
        while self._waiting and self._waiting[0][0] <= now:
            key = heapq.heappop(self._waiting)[2]
            del self._promised[key]
            self.add(key)
            self._drop_stale()
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def take_all(self, now: int) -> list[str]:
        """All keys that are ready, in order: the batch of this moment."""
        keys: list[str] = []
        while (key := self.take(now)) is not None:
            keys.append(key)
        return keys

    def done(self, key: str, now: int) -> None:
        """The sync has ended: plan the next one."""
        self._processing.discard(key)
        if key in self._dirty:
            self._ready.append(key)
        self.add_rate_limited(key, now)

    def _drop_stale(self) -> None:
        """Entries whose key was promised another moment, or is gone."""
        while self._waiting and self._promised.get(self._waiting[0][2]) != self._waiting[0][0]:
            heapq.heappop(self._waiting)
