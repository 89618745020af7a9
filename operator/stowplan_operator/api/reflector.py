"""Keeps a handler told of all objects of one kind: list, then watch, and again whenever that breaks.

A list comes as a stream of events (WatchList) where the server offers that, else in pages. The watch goes on where the
last event, or bookmark, left off; only where the server has forgotten that version (410) is everything listed again. A
watch that has been silent for longer than bookmarks come apart is given up: a connection may be open and dead.

Follows client-go's tools/cache/reflector.go (v0.37.2). Clock, chance and sleep are handed in.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from stowplan_scheduler.objects import Pod

from .backoff import Backoff, Chance
from .call import Call, Query
from .client import ApiClient, Stream
from .decode import ADDED, DELETED, MODIFIED, Bookmark, ObjectDecoder, UndecodableError, WatchError
from .errors import ApiError, ExpiredError, UnreachableError
from .kinds import Resource
from .old_lists import OldLists
from .sharing import OwnerSharing
from .store import number_of

log = logging.getLogger(__name__)

STALL_SECONDS: Final = 70.0
"""Silence after which a watch is given up. Bookmarks come about once a minute."""

_SHORTEST_WATCH: Final = 1.0
"""Seconds; a watch that ends sooner, without an event, counts as a failure."""

_LONG_ENOUGH: Final = 10.0
"""Seconds; an attempt that lasted longer had worked, and the next failure is a first one."""

_PAGE: Final = "500"
_LIST_TIMEOUT: Final = 60.0
_WATCH_SECONDS: Final = (300, 600)
"""How long the server is asked to keep a watch: by chance in between, so that watches do not all end together."""


class _SilentError(UnreachableError):
    """Nothing was heard for too long. It happens to healthy watches of kinds that never change, too."""


class Handler(Protocol):
    """Who is told. Called in the event loop, one call at a time; must not block and must not raise."""

    def replaced(self, kind: str, objects: list[Any], version: str) -> None:
        """These are all the objects there are at `version`."""

    def changed(self, kind: str, type: str, object: Any, version: str) -> None:
        """One object was ADDED, MODIFIED or DELETED; then it is in its last state."""

    def advanced(self, kind: str, version: str) -> None:
        """Nothing happened up to `version` that was not told."""


class Reflector:
    """List and watch of one kind. `run` goes on until it is cancelled.

    `stall`: seconds of silence after which a watch is given up. `namespace`: "" for all.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        handler: Handler,
        *,
        namespace: str = "",
        stall: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        rng: Chance | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._resource = resource
        self._handler = handler
        self._namespace = namespace
        self._stall = stall
        self._clock = clock
        self._rng = rng if rng is not None else random.Random()
        self._sleep = sleep
        self._decoder = ObjectDecoder(resource)
        self._owners = OwnerSharing()
        self._old_lists = OldLists()
        self._backoff = Backoff(self._rng)
        self._streams_lists = True
        """Whether the server offers WatchList, as far as is known."""
        self._version = ""
        self._must_list = True
        self._must_be_current = False
        """Whether the next list must be quick to show the state of now. A stream waits until the server's own watch is
        as new as its storage, for up to a minute after a restart of etcd; a list waits three seconds, then it asks the
        storage."""
        self._forgotten = 0
        """How often a version was forgotten since a watch was opened last."""
        self._reading: asyncio.Task[None] | None = None
        self._synced = asyncio.Event()
        self.last_heard = clock()
        """When the server last said something, by the clock handed in."""
        self.lists = 0
        """How many complete lists there were."""
        self.watches = 0
        """How many watches were opened where another had ended."""
        self.failures = 0
        self.undecodable = 0
        """Objects that were skipped because they are not what their kind says."""
        self.last_error = ""
        """Why the last attempt failed; "" once it works again."""

    @property
    def kind(self) -> str:
        """The kind's name."""
        return self._resource.kind

    @property
    def synced(self) -> bool:
        """Whether there has been a complete list."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """Everything up to this version was told; "" before the first list."""
        return self._version

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    def refresh(self) -> None:
        """List again, from the state that the cluster has now or later: `replaced` follows.

        For whoever must know the state at a moment, as after winning an election. Not thread-safe.
        """
        self._must_list = self._must_be_current = True
        if self._reading is not None:
            self._reading.cancel()

    # ---- the loop ----------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            began = self._clock()
            try:
                await self._interruptible(self._attempt())
            except ApiError as error:
                await self._pause(error, began)
            except UndecodableError as error:
                await self._pause(ApiError(200, "", str(error)), began)

    async def _interruptible(self, attempt: Any) -> None:
        """Run it so that `refresh` can end it."""
        self._reading = asyncio.ensure_future(attempt)
        try:
            await self._reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._reading.cancelled() or (task is not None and task.cancelling()):
                self._reading.cancel()
                raise
        finally:
            self._reading = None

    async def _attempt(self) -> None:
        if not self._must_list:
            await self._watch()
        elif self._streams_lists and not self._must_be_current:
            await self._stream_list()
        else:
            await self._list_pages()

    async def _pause(self, error: ApiError, began: float) -> None:
        now = self._clock()
        self.failures += 1
        is_told, self.last_error = self.last_error == str(error), str(error)
        if now - began > _LONG_ENOUGH:
            self._backoff.reset()
        delay = max(self._backoff.next(now), error.retry_after or 0.0)
        if isinstance(error, ExpiredError):
            # Nothing is wrong with a server that says so of a watch, whatever was wrong before it. A list that is
            # answered like this is not asked for at once, nor is one after which no watch could be opened.
            self._forgotten += 1
            if self._forgotten == 1 and not self._must_list:
                delay = 0.0
            self._must_list = True
        level = logging.INFO if isinstance(error, (_SilentError, ExpiredError)) else logging.WARNING
        if is_told:
            # Once is enough, until it works again or something else is wrong.
            level = logging.DEBUG
        log.log(level, "%s: next attempt in %.1f s: %s", self._resource.plural, delay, error)
        await self._sleep(delay)

    def _heard(self) -> None:
        self.last_heard = self._clock()

    def _works(self) -> None:
        if self.last_error:
            log.info("%s: works again", self._resource.plural)
            self.last_error = ""

    # ---- list --------------------------------------------------------------------------------

    async def _stream_list(self) -> None:
        """A list as a stream, which then goes on as a watch. Without a version it shows the state of now or later."""
        query = (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"), *self._watching())
        try:
            async with self._client.stream(self._call(query, timeout=_LIST_TIMEOUT)) as stream:
                await self._read(stream, [])
        except ApiError as error:
            if error.status not in {400, 422}:
                raise
            log.info("%s: the server streams no lists, so pages are read: %s", self._resource.plural, error)
            self._streams_lists = False

    async def _list_pages(self) -> None:
        objects: list[Any] = []
        token = ""
        while True:
            query: Query = (("limit", _PAGE), *((("continue", token),) if token else ()))
            reply = await self._client.call(self._call(query, timeout=_LIST_TIMEOUT))
            page = self._decoder.page(reply.sure().body, self._skipped)
            self._heard()
            objects += map(self._shared, page.objects)
            token = page.next_page
            if not token:
                self._replaced(objects, page.version)
                return

    def _replaced(self, objects: list[Any], version: str) -> None:
        if self._old_lists.refuses(number_of(version), number_of(self._version), self._clock()):
            raise UnreachableError(0, "", f"the list shows version {version}, and {self._version} is known already")
        self._version = version
        self._must_list = self._must_be_current = False
        self.lists += 1
        self._works()
        self._handler.replaced(self._resource.kind, objects, version)
        self._synced.set()

    # ---- watch -------------------------------------------------------------------------------

    async def _watch(self) -> None:
        began, told = self._clock(), self._version
        query = (("resourceVersion", self._version), *self._watching())
        async with self._client.stream(self._call(query)) as stream:
            self.watches += 1
            self._forgotten = 0
            await self._read(stream, None)
        if self._version == told and self._clock() - began < _SHORTEST_WATCH:
            raise UnreachableError(0, "", "the watch ended as soon as it had begun")

    async def _read(self, stream: Stream, initial: list[Any] | None) -> None:
        """Read to the end. `initial`: collects the objects of a streamed list until the bookmark that ends it."""
        while True:
            try:
                async with asyncio.timeout(self._stall):
                    lines = await stream.lines()
            except TimeoutError:
                raise _SilentError(0, "", f"nothing heard for {self._stall:g} s") from None
            if not lines:
                if initial is not None:
                    raise UnreachableError(0, "", "the list ended before it was complete")
                return
            self._heard()
            for line in lines:
                initial = self._take(line, initial)

    def _take(self, line: bytes, initial: list[Any] | None) -> list[Any] | None:
        try:
            event = self._decoder.event(line)
        except UndecodableError as error:
            self._skipped(error)
            return initial
        if isinstance(event, WatchError):
            raise event.reply.error()
        if isinstance(event, Bookmark):
            if initial is None:
                self._reached(event.version)
                self._works()
                self._handler.advanced(self._resource.kind, event.version)
            elif event.ends_list:
                self._replaced(initial, event.version)
                return None
            return initial
        found = self._shared(event.object)
        if initial is not None:
            initial.append(found)
            return initial
        self._reached(_version_of(found))
        self._works()
        self._handler.changed(self._resource.kind, event.type, found, self._version)
        return None

    def _reached(self, version: str) -> None:
        """What is known never gets less, whatever a watch shows."""
        if number_of(version) > number_of(self._version):
            self._version = version

    def _shared(self, object: Any) -> Any:
        return self._owners.share(object) if isinstance(object, Pod) else object

    def _skipped(self, error: UndecodableError) -> None:
        self.undecodable += 1
        log.error("object skipped: %s", error)

    # ---- requests ----------------------------------------------------------------------------

    def _watching(self) -> Query:
        low, high = _WATCH_SECONDS
        seconds = low + int(self._rng.random() * (high - low))
        return ("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(seconds))

    def _call(self, query: Query, timeout: float | None = None) -> Call:
        selector = self._resource.field_selector
        if selector:
            query = (("fieldSelector", selector), *query)
        return Call("GET", self._resource.path(namespace=self._namespace), query, timeout=timeout)


def _version_of(object: Any) -> str:
    if isinstance(object, dict):
        return str((object.get("metadata") or {}).get("resourceVersion") or "")
    return str(object.metadata.resource_version)


__all__ = ["ADDED", "DELETED", "MODIFIED", "STALL_SECONDS", "Handler", "Reflector"]
