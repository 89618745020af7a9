"""kopf in a thread of its own, with a loop of its own: it watches our kinds and hands on what it sees.

kopf cancels every task of its loop when it ends, and knows nothing of a Lease; so it gets a thread that runs while this
process leads. Each object that it sees goes whole into a `WorkQueue`; nothing is decided here, nothing is written, and
no finalizer is set. Should kopf miss something, the list that the operator makes by itself now and then brings it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp
import kopf

from stowplan_operator.api.client import USER_AGENT
from stowplan_operator.api.connection import RENEW_SECONDS, Connection

from .names import COMPONENT, GROUP, KINDS, PLURALS, VERSION
from .self_check import how_to_apply
from .work_queue import Sighting

_STOP_SECONDS: Final = 10.0
"""Longest time for kopf to end: measured are 3 to 30 ms, and 2 s if a handler hangs."""

_LOOK_SECONDS: Final = 0.5
_WATCHER: Final = "watcher for "
"""What the names of kopf's tasks begin with that watch a kind; its plural follows."""


_SAID_BY_US: Final = ("kopf._core.reactor.orchestration", "kopf._core.reactor.running")
"""Loggers of what ends it, with tracebacks, and of signals that it does not handle: the process does."""


class KindGoneError(Exception):
    """A kind that is watched is no more; the text says what to do about it."""


class KopfThread(threading.Thread):
    """Starts watching with `start`. `seen` is told of each object, and `on_end` that kopf has ended, asked to or not.

    Both are called in this thread. `failed`: why it ended, if that was an error.
    """

    def __init__(self, connection: Connection, seen: Callable[[Sighting], None], on_end: Callable[[], None]) -> None:
        super().__init__(name="kopf", daemon=True)
        self._connection = connection
        self._seen = seen
        self._on_end = on_end
        self._was_stopped = False
        self._stop_flag = threading.Event()
        self._has_ended = threading.Event()
        self.failed: BaseException | None = None

    @property
    def was_stopped(self) -> bool:
        """Whether it was asked to end."""
        return self._was_stopped

    @property
    def has_ended(self) -> bool:
        """Whether it ran, and does no longer."""
        return self._has_ended.is_set()

    def run(self) -> None:
        """The thread's body."""
        try:
            asyncio.run(self._operate())
        except BaseException as error:  # noqa: BLE001 - whatever ends a thread unseen ends the process with a message
            self.failed = self.failed or error
        finally:
            self._end()

    def stop(self) -> bool:
        """Ask it to end, and wait; whether it has."""
        self._was_stopped = True
        self._stop_flag.set()
        if self.is_alive():
            # One that failed and is still there hangs.
            self.join(_STOP_SECONDS if self.failed is None else _LOOK_SECONDS)
        return not self.is_alive()

    async def _operate(self) -> None:
        # Its log speaks of every object; what matters for readers is in status.
        logging.getLogger("kopf").setLevel(logging.WARNING)
        for name in _SAID_BY_US:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        watching = asyncio.create_task(self._watch_watchers())
        try:
            await kopf.operator(
                registry=_registry(self._connection, self._seen),
                settings=_settings(),
                # Of no use without peering; but kopf would ask for the user's name, and a container's user has none.
                identity=cast(Any, COMPONENT),
                standalone=True,
                clusterwide=True,
                stop_flag=self._stop_flag,
            )
        finally:
            watching.cancel()
            # kopf waits for the flag in a thread of the loop's pool, and a loop ends only when its pool has.
            self._stop_flag.set()

    async def _watch_watchers(self) -> None:
        """Notice a watcher that has failed, even if kopf does not come to its end then.

        It cancels the other watchers and waits for them, and one whose connection breaks at that moment takes no notice
        (1.45.2). The thread is of no use from then on, and says so.
        """
        watchers: set[asyncio.Task[Any]] = set()
        while not self._stop_flag.is_set():
            await asyncio.sleep(_LOOK_SECONDS)
            found = {task for task in asyncio.all_tasks() if task.get_name().startswith(_WATCHER)}
            for task in found - watchers:
                task.add_done_callback(self._watcher_ended)
            watchers |= found

    def _watcher_ended(self, task: asyncio.Task[Any]) -> None:
        if self.failed is not None or task.cancelled() or (error := task.exception()) is None:
            return
        self.failed = _reason(task.get_name(), error)
        # The other watchers are cut off now; what they have to say about that helps nobody.
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        self._end()

    def _end(self) -> None:
        if not self._has_ended.is_set():
            self._has_ended.set()
            self._on_end()


def _reason(watcher: str, error: BaseException) -> BaseException:
    """In words of ours if a definition is gone, which the API server tells as a page that is not there."""
    if getattr(error, "status", None) != HTTPStatus.NOT_FOUND:
        return error
    plural = watcher.removeprefix(_WATCHER).partition(".")[0]
    kind = next((kind for kind in KINDS if PLURALS[kind] == plural), "")
    if not kind:
        return error
    return KindGoneError(f"the API server does not know {plural}.{GROUP} any more: {how_to_apply([kind])}")


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None
    # Without it kopf would watch CustomResourceDefinitions as well: a right that nothing else needs.
    settings.scanning.disabled = True
    # kopf ends where a server streams no lists (before v1.34, or with the gate off). Our objects are few: pages do.
    settings.watching.initial_streaming = False
    settings.networking.request_timeout = 60
    settings.posting.enabled = False
    # Nothing is kept in annotations; should it ever be, then under our own name.
    settings.persistence.finalizer = f"{GROUP}/operator"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{GROUP}")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"kopf.{GROUP}")
    return settings


def _registry(connection: Connection, seen: Callable[[Sighting], None]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.AiohttpSession:
        return await _session(connection)

    kopf.on.login(registry=registry)(login)
    for kind in KINDS:
        kopf.on.event(GROUP, VERSION, PLURALS[kind], registry=registry)(_handler(kind, seen))
    return registry


async def _session(connection: Connection) -> kopf.AiohttpSession:
    """A session of our own, so that kopf is let in as all else is. kopf closes it, and asks anew when it expires."""
    credential = await asyncio.to_thread(connection.renew, False)
    credential.load_into(connection.ssl_context)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=connection.ssl_context),
        headers={"User-Agent": f"{USER_AGENT} operator/kopf"}
        | ({"Authorization": credential.header} if credential.header else {}),
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=connection.proxy,
    )
    renewal = timedelta(seconds=RENEW_SECONDS)
    return kopf.AiohttpSession(
        server=connection.server,
        aiohttp_session=session,
        expiration=datetime.now(UTC) + renewal if credential.rotates else None,
    )


def _handler(kind: str, seen: Callable[[Sighting], None]) -> Any:
    async def handle(*, type: str | None, body: kopf.Body, **_: Any) -> None:
        seen(Sighting(kind, dict(body), is_gone=type == "DELETED"))

    handle.__name__ = f"see_{kind.lower()}"
    return handle
