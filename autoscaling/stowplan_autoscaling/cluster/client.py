"""A controller's API client: the server behind a rate limit, and its events.

Every request, events and status writes included, takes a token; kube-controller-manager gives each controller 20
requests a second and a burst of 30 (cmd/kube-controller-manager/app/options: kube-api-qps, kube-api-burst). A sync that
has to wait is a generator: `yield from client.turn()` before each request.

Events are sent in the background, but through the same client: they take tokens that requests then wait for. About one
object a controller sends 25 events, and from then on one in five minutes (client-go/tools/record/events_cache.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from stowplan_scheduler.objects import key_of

from .errors import ApiError
from .work_queue import Steps, TokenBucket

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel

    from .api_server import ApiServer

DEFAULT_QPS: Final = 20.0
DEFAULT_BURST: Final = 30

EVENT_BURST: Final = 25
EVENT_QPS: Final = 1 / 300
"""Events about one object that are sent; the others are dropped before they reach the API server."""

SLOW_START: Final = 1
"""Size of the first batch of creations."""

Recorder = Callable[[str, str, str, str, str], None]
"""Told (kind, key, type, reason, message) of an event."""


def _ignored(kind: str, key: str, event_type: str, reason: str, message: str) -> None:
    """Nobody listens."""


class Client:
    """One controller's requests. `limit` None: requests take no time."""

    def __init__(
        self, kernel: Kernel, server: ApiServer, *, limit: TokenBucket | None = None, record: Recorder = _ignored
    ) -> None:
        self.kernel = kernel
        self.server = server
        self.record = record
        self._limit = limit
        self._events: dict[tuple[str, str], TokenBucket] = {}

    def turn(self) -> Iterable[int]:
        """Wait for a token: the moments at which to go on, none if there is one."""
        wait = self.wait()
        return (self.kernel.now + wait,) if wait > 0 else ()

    def wait(self) -> int:
        """Take a token; returns how long to wait for it, in nanoseconds."""
        return 0 if self._limit is None else self._limit.reserve(self.kernel.now)

    def event(self, kind: str, obj: Any, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event about an object, whether or not an API server would see it."""
        key = key_of(obj.metadata)
        self.record(kind, key, "Warning" if warning else "Normal", reason, message)
        if self._limit is not None:
            sent = self._events.get((kind, key))
            if sent is None:
                sent = self._events[kind, key] = TokenBucket(EVENT_QPS, EVENT_BURST)
            if sent.take(self.kernel.now):
                self._limit.reserve(self.kernel.now)


class SlowStart:
    """Requests in batches of 1, 2, 4, ...; a batch with a failure is the last one.

    Run it with `yield from batches.run()`, then look at `done` and `failure`. Follows slowStartBatch in
    pkg/controller/replicaset/replica_set.go.
    """

    __slots__ = ("_client", "_count", "_request", "done", "failure")

    def __init__(self, client: Client, count: int, request: Callable[[], None]) -> None:
        self._client = client
        self._count = count
        self._request = request
        self.done = 0
        """Requests that succeeded."""
        self.failure: ApiError | None = None
        """The first failure."""

    def run(self) -> Steps:
        """All batches."""
        remaining = self._count
        size = min(remaining, SLOW_START)
        while size > 0:
            for _ in range(size):
                yield from self._client.turn()
                try:
                    self._request()
                    self.done += 1
                except ApiError as failure:
                    self.failure = self.failure or failure
            if self.failure is not None:
                return
            remaining -= size
            size = min(2 * size, remaining)
