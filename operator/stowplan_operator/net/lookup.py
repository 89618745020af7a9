"""Host names to addresses in threads of their own: the system's resolver blocks, and nobody can end it.

A name server that does not answer holds a thread for as long as the system tries, which may be half a minute. So these
threads are not those of the loop, which others need; there are few; and a process that ends does not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

MOST_THREADS: Final = 8

GetAddrInfo = Callable[..., list[tuple[Any, Any, int, str, tuple[Any, ...]]]]


class NameLookup(AbstractResolver):
    """The system's resolver, for one event loop. `getaddrinfo` is for tests."""

    def __init__(self, getaddrinfo: GetAddrInfo | None = None) -> None:
        self._getaddrinfo = getaddrinfo if getaddrinfo is not None else socket.getaddrinfo
        self._slots = asyncio.Semaphore(MOST_THREADS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError. Who gives up waiting leaves the thread, and its slot, to the system's resolver."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[ResolveResult]] = loop.create_future()

        def found(results: list[ResolveResult], error: OSError | None) -> None:
            self._slots.release()
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(results)

        def look() -> None:
            results: list[ResolveResult] = []
            failure: OSError | None = None
            try:
                results = self._look(host, port, family)
            except OSError as error:
                failure = error
            except UnicodeError as error:
                # A label that is too long for the encoding of host names.
                failure = OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(found, results, failure)

        await self._slots.acquire()
        threading.Thread(target=look, name=f"look up {host}", daemon=True).start()
        return await answer

    def _look(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in self._getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        ]

    async def close(self) -> None:
        """Nothing is kept open."""
