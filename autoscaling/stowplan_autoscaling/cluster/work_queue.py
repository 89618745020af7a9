"""A controller's work queue and its workers: client-go's rate limited, delaying, de-duplicating queue.

A key is processed by one worker at a time; keys that come in meanwhile wait until it is done. A sync may take time: it
is then a generator that yields the moments (nanoseconds) at which it goes on, and its worker is busy until it ends.

Follows staging/src/k8s.io/client-go/util/workqueue/{queue,delaying_queue,default_rate_limiters}.go of v1.37.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.kernel import MILLISECOND, SECOND, Timer

from .delay_heap import DelayHeap
from .errors import ApiError

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel

Steps = Generator[int, None, None]
"""A sync that takes time: yields when it goes on."""

Sync = Callable[[str], "Steps | None"]

BASE_DELAY: Final = 5 * MILLISECOND
MAX_DELAY: Final = 1000 * SECOND
BUCKET_RATE: Final = 10
"""Tokens per second of the limiter that all keys share."""
BUCKET_BURST: Final = 100


class TokenBucket:
    """golang.org/x/time/rate as far as Reserve goes: `rate` tokens per second, at most `burst` saved up."""

    __slots__ = ("_burst", "_last", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._last: int | None = None

    def take(self, now: int) -> bool:
        """Take a token if there is one; returns whether there was."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def reserve(self, now: int) -> int:
        """Take a token; returns how long to wait for it, in nanoseconds."""
        self._refill(now)
        self._tokens -= 1.0
        return 0 if self._tokens >= 0 else int(-self._tokens / self._rate * SECOND)

    def _refill(self, now: int) -> None:
        last = self._last
        if last is not None and now > last:
            self._tokens = min(float(self._burst), self._tokens + (now - last) / SECOND * self._rate)
        self._last = now if last is None else max(now, last)


class WorkQueue:
    """Keys to be synced, and `workers` that do it."""

    def __init__(
        self,
        kernel: Kernel,
        sync: Sync,
        *,
        workers: int = 1,
        max_retries: int | None = None,
        base_delay: int = BASE_DELAY,
        max_delay: int = MAX_DELAY,
    ) -> None:
        """`max_retries`: after so many failures in a row a key is dropped until something adds it again."""
        self._kernel = kernel
        self._sync = sync
        self._workers = workers
        self._max_retries = max_retries
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._waiting: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._failures: dict[str, int] = {}
        self._delayed = DelayHeap()
        self._timer: Timer | None = None
        self._bucket = TokenBucket(BUCKET_RATE, BUCKET_BURST)
        self._planned = False
        self._taking = False
        self.by_name = False
        """Whether of several keys the first by name is taken, as if all were worked on at once and took turns.

        Keys whose time has come are then taken up after everything else that happens at that time.
        """
        self.skips: Callable[[str], bool] | None = None
        """Whether a sync of the key would do nothing but plan the next one; it has planned that then.

        Asked of a key that a worker would take up at once. Such syncs follow a controller's own writes, or themselves.
        """
        self.repeats: Callable[[str], bool] | None = None
        """Whether, as long as nothing changes, each sync of the key does nothing but `add_rate_limited` the key."""
        self.syncs = 0
        """How many syncs there were, for reports."""

    # ---- adding ------------------------------------------------------------------------------

    def add(self, key: str) -> None:
        """Have the key synced as soon as a worker is free."""
        if key in self._dirty:
            return
        if self.skips is None or not self._is_skipped(key):
            self._add(key)

    def _add(self, key: str) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key in self._processing:
            return
        self._waiting.append(key)
        self._wake()

    def add_after(self, key: str, delay: int) -> None:
        """Have it synced in `delay` nanoseconds; of several such wishes for a key the earliest counts."""
        if delay <= 0:
            self.add(key)
            return
        if self._delayed.push(key, self._kernel.now + delay):
            self._set_timer()

    def _set_timer(self) -> None:
        """One timer, for the key that is due first."""
        if self._taking:
            return
        when, timer = self._delayed.next_at, self._timer
        if timer is not None:
            if timer.action is not None and timer.when == when:
                return
            timer.cancel()
        self._timer = None if when is None else self._kernel.at(when, self._due)

    def _due(self) -> None:
        if self.by_name:
            self._timer = self._kernel.at(self._kernel.now, self._take_due)
        else:
            self._take_due()

    def _take_due(self) -> None:
        self._timer = None
        self._taking = True
        kernel = self._kernel
        repeating: set[str] = set()
        while (when := self._delayed.next_at) is not None:
            if when > kernel.now and not kernel.skip_to(when):
                break
            key = self._delayed.pop()
            if key in repeating and not self._waiting:
                # Since its last sync nothing has happened but syncs of this kind.
                self.syncs += 1
                self._delayed.push(key, kernel.now + max(self._base_delay, self._bucket.reserve(kernel.now)))
            elif self.skips is None or not self._is_skipped(key):
                self._add(key)
            elif self.repeats is not None and self.repeats(key):
                repeating.add(key)
        self._taking = False
        self._set_timer()

    def _is_skipped(self, key: str) -> bool:
        if self.skips is None or self._waiting or key in self._processing or len(self._processing) >= self._workers:
            return False
        if not self.skips(key):
            return False
        self.syncs += 1
        self._failures.pop(key, None)
        return True

    def add_rate_limited(self, key: str) -> None:
        """Have it synced again after its back-off: 5 ms doubled per failure, and at most 10 keys a second in all."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        backoff = min(self._base_delay << min(failures, 60), self._max_delay)
        self.add_after(key, max(backoff, self._bucket.reserve(self._kernel.now)))

    def forget(self, key: str) -> None:
        """A success: the next failure waits the shortest time again."""
        self._failures.pop(key, None)

    def requeues(self, key: str) -> int:
        """Failures in a row."""
        return self._failures.get(key, 0)

    # ---- working -----------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._planned:
            self._planned = True
            self._kernel.soon(self._work)

    def _work(self) -> None:
        self._planned = False
        while self._waiting and len(self._processing) < self._workers:
            key = self._take()
            self._processing.add(key)
            self._dirty.discard(key)
            self.syncs += 1
            try:
                steps = self._sync(key)
            except ApiError as failure:
                self._failed(key, failure)
                continue
            if steps is None:
                self._succeeded(key)
            else:
                self._go_on(key, steps)

    def _take(self) -> str:
        """The key that is next."""
        if not self.by_name or len(self._waiting) == 1:
            return self._waiting.popleft()
        key = min(self._waiting)
        self._waiting.remove(key)
        return key

    def _go_on(self, key: str, steps: Steps) -> None:
        try:
            when = next(steps)
            while when <= self._kernel.now:
                when = next(steps)
        except StopIteration:
            self._succeeded(key)
            return
        except ApiError as failure:
            self._failed(key, failure)
            return
        self._kernel.at(when, lambda: self._go_on(key, steps))

    def _succeeded(self, key: str) -> None:
        self._failures.pop(key, None)
        self._done(key)

    def _failed(self, key: str, failure: ApiError) -> None:
        if self._max_retries is not None and self._failures.get(key, 0) >= self._max_retries:
            self._failures.pop(key, None)
        else:
            self.add_rate_limited(key)
        self._done(key)

    def _done(self, key: str) -> None:
        self._processing.discard(key)
        if key in self._dirty:
            self._waiting.append(key)
        if self._waiting:
            self._wake()
