"""Writes events (events.k8s.io/v1) in the background: nobody waits for one, and a slow server costs only events.

What is written is decided by `event_series`. The queue is bounded; what does not fit is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from stowplan_scheduler.objects import ObjectMeta

from .backoff import Chance
from .call import STRATEGIC_MERGE_PATCH, Call, Reply, encode
from .client import ApiClient
from .event_series import NORMAL, WARNING, EventRecord, EventSeries, EventWrite, ObjectReference
from .kinds import EVENTS

log = logging.getLogger(__name__)

QUEUED: Final = 1000
"""Events that may wait; upstream's maxQueuedEvents."""

_TRIES: Final = 12
_PAUSE: Final = 10.0
"""Seconds between tries, up to a quarter more; both as upstream."""

_TICK: Final = 60.0
_WRITERS: Final = 4
_CLOSING: Final = 5.0


class EventWriter:
    """Takes events at any time and writes them while `run` runs.

    `controller`: reportingController; `instance`: reportingInstance, as controller-hostname. `writers`: requests at a
    time. `wall`: nanoseconds since 1970.
    """

    def __init__(
        self,
        client: ApiClient,
        controller: str,
        instance: str,
        *,
        queued: int = QUEUED,
        writers: int = _WRITERS,
        wall: Callable[[], int] = time.time_ns,
        rng: Chance | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._series = EventSeries(controller, instance)
        self._queue: asyncio.Queue[EventWrite] = asyncio.Queue(queued)
        self._writers = writers
        self._wall = wall
        self._rng = rng if rng is not None else random.Random()
        self._sleep = sleep
        self.written = 0
        """Writes that the server took."""
        self.failed = 0
        """Writes that the server refused, or that were given up."""
        self.dropped = 0
        """Writes for which the queue had no room."""

    def emit(self, record: EventRecord) -> None:
        """Take an event. Returns at once; must be called in the event loop's thread."""
        self._enqueue(self._series.record(record, self._wall()))

    def _enqueue(self, writes: list[EventWrite]) -> None:
        for write in writes:
            try:
                self._queue.put_nowait(write)
            except asyncio.QueueFull:
                self.dropped += 1

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._writers):
                group.create_task(self._keep_writing())
            group.create_task(self._keep_ticking())

    async def drain(self, *, patience: float = _CLOSING) -> None:
        """At the end, while `run` runs: write what waits and what is counted, for `patience` seconds at most."""
        self._enqueue(self._series.close())
        try:
            async with asyncio.timeout(patience):
                await self._queue.join()
        except TimeoutError:
            log.warning("%d events were not written in time", self._queue.qsize())

    async def _keep_writing(self) -> None:
        while True:
            write = await self._queue.get()
            try:
                await self._write(write)
            finally:
                self._queue.task_done()

    async def _keep_ticking(self) -> None:
        while True:
            await self._sleep(_TICK)
            self._enqueue(self._series.tick(self._wall()))

    async def _write(self, write: EventWrite) -> None:
        reply = await self._try(write)
        for _ in range(_TRIES - 1):
            if not _may_pass(reply):
                break
            await self._sleep(max(_PAUSE * (1 + 0.25 * self._rng.random()), reply.retry_after or 0))
            reply = await self._try(write)
        if reply.is_success:
            self.written += 1
        else:
            self.failed += 1
            log.warning("event %s/%s not written: %s", write.namespace, write.name, reply.message)

    async def _try(self, write: EventWrite) -> Reply:
        if write.patch is not None:
            path = EVENTS.path(write.name, write.namespace)
            call = Call("PATCH", path, body=encode(write.patch), content_type=STRATEGIC_MERGE_PATCH)
            reply = await self._client.call(call)
            if reply.status != 404:
                return reply
        reply = await self._client.call(Call("POST", EVENTS.path(namespace=write.namespace), body=encode(write.body)))
        if reply.status == 409:
            # An earlier try, of which no answer came, made it; or the first event came while the series was made of it.
            return reply if write.patch is not None else Reply(status=200)
        return reply


def _may_pass(reply: Reply) -> bool:
    return reply.status in {0, 409, 429} or reply.status >= 500


def reference_to(kind: str, metadata: ObjectMeta, api_version: str = "v1") -> ObjectReference:
    """A reference to an object of that kind."""
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


__all__ = ["NORMAL", "WARNING", "EventRecord", "EventWriter", "ObjectReference", "reference_to"]
