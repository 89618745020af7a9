"""Carries out calls over HTTPS: aiohttp underneath, plain data above. It retries nothing by itself.

The one exception: a request that the server refuses with 401 is sent once more if the credential has been renewed in
the meantime, for it was not carried out. A credential goes into the request's header and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from stowplan_scheduler import __version__

from .call import Call, Reply, reply_of
from .connection import RENEW_SECONDS, Connection, ConnectionSettingsError

log = logging.getLogger(__name__)

USER_AGENT: Final = f"stowplan/{__version__}"
TIMEOUT: Final = 10.0
"""Seconds for a call from start to end."""

CONNECTIONS: Final = 64
"""Calls at a time; more only wait in the API server: beyond 32 binds in flight nothing but latency grows."""

_GOODBYE: Final = 0.1
"""Seconds in which the connections of a client that is closed come to their end."""

_RENEW_AFTER_REFUSAL: Final = 5.0
"""Seconds between two renewals that 401 asks for: a wrong credential is no reason to run a plugin with every call."""


class ApiClient:
    """A client of one API server; an async context manager.

    `timeout`: seconds for a call that names none. `connections`: calls at a time; watches do not count.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str = USER_AGENT,
        timeout: float = TIMEOUT,
        connections: int = CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._timeout = timeout
        self._limit = connections
        self._clock = clock
        self._credential = connection.credential
        self._renewed_at = clock()
        self._renewing = asyncio.Lock()
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"ApiClient({self._connection.server!r})"

    @property
    def connection(self) -> Connection:
        """Where the calls go."""
        return self._connection

    async def __aenter__(self) -> Self:
        self._calls = self._session(self._limit)
        self._streams = self._session(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._calls, self._streams):
            if session is not None:
                await session.close()
        self._calls = self._streams = None
        # Connections that were cut end in later turns of the loop; a watch that was just given up says goodbye first.
        await asyncio.sleep(_GOODBYE)

    def _session(self, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, ssl=self._connection.ssl_context)
        return aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            # Cookies of a proxy in between are not ours to keep.
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    # ---- calls -------------------------------------------------------------------------------

    async def call(self, call: Call) -> Reply:
        """Carry out one call. Never raises for what the server or the network does: see Reply."""
        session = _open(self._calls)
        header = await self._authorization()
        reply = await self._send(session, call, header)
        if reply.status == 401:
            renewed = await self._renewed(header)
            if renewed != header:
                reply = await self._send(session, call, renewed)
        return reply

    async def _send(self, session: aiohttp.ClientSession, call: Call, header: str) -> Reply:
        timeout = aiohttp.ClientTimeout(total=call.timeout or self._timeout)
        try:
            async with session.request(
                call.method, self._url(call), data=call.body, timeout=timeout, **self._options(call, header)
            ) as response:
                return reply_of(response.status, await response.read(), response.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return no_answer(error)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        """Open a call whose answer does not end, as a watch's. Raises ApiError if it is refused or not answered.

        `call.timeout` is for the answer to begin. While reading, Stream raises UnreachableError.
        """
        session = _open(self._streams)
        header = await self._authorization()
        response = await self._begin(session, call, header)
        if response.status == 401:
            renewed = await self._renewed(header)
            if renewed != header:
                _abort(response)
                response = await self._begin(session, call, renewed)
        try:
            if response.status != 200:
                body = await self._rest(response)
                raise reply_of(response.status, body, response.headers.get("Retry-After")).error()
            yield Stream(response)
        finally:
            _abort(response)

    async def _begin(self, session: aiohttp.ClientSession, call: Call, header: str) -> aiohttp.ClientResponse:
        endless = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout)
        try:
            async with asyncio.timeout(call.timeout or self._timeout):
                return await session.request(
                    call.method, self._url(call), data=call.body, timeout=endless, **self._options(call, header)
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error).error() from None

    async def _rest(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error).error() from None

    def _url(self, call: Call) -> URL:
        query = f"?{urlencode(call.query)}" if call.query else ""
        return URL(f"{self._connection.server}{call.path}{query}", encoded=True)

    def _options(self, call: Call, header: str) -> dict[str, Any]:
        headers = {}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if header:
            headers["Authorization"] = header
        return {
            "headers": headers,
            # A redirect would carry the credential elsewhere.
            "allow_redirects": False,
            "server_hostname": self._connection.tls_server_name,
            "proxy": self._connection.proxy,
        }

    # ---- the credential ----------------------------------------------------------------------

    async def _authorization(self) -> str:
        if self._credential.rotates and self._clock() - self._renewed_at >= RENEW_SECONDS:
            async with self._renewing:
                if self._clock() - self._renewed_at >= RENEW_SECONDS:
                    await self._renew(forced=False)
        return self._credential.header

    async def _renewed(self, refused: str) -> str:
        """The header to try after `refused` was; the same one if there is no other."""
        async with self._renewing:
            if self._credential.header == refused and self._clock() - self._renewed_at >= _RENEW_AFTER_REFUSAL:
                await self._renew(forced=True)
        return self._credential.header

    async def _renew(self, *, forced: bool) -> None:
        # Set first: a failure is not repeated with every call.
        self._renewed_at = self._clock()
        try:
            credential = await asyncio.to_thread(self._connection.renew, forced)
            credential.load_into(self._connection.ssl_context)
        except ConnectionSettingsError as error:
            log.warning("credential not renewed, the one before stays in use: %s", error)
        else:
            self._credential = credential


class Stream:
    """The body of an answer as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._rest = b""

    async def lines(self) -> list[bytes]:
        """The next complete lines, without their ends; [] at the end of the stream. Raises UnreachableError."""
        while True:
            try:
                data = await self._response.content.readany()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise no_answer(error).error() from None
            if not data:
                # What has no end of line was cut off.
                return []
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            if lines:
                return [line for line in lines if line]


def no_answer(error: Exception) -> Reply:
    """The reply that stands for no answer; the text names the kind of failure, and never a header."""
    text = str(error)
    return Reply(status=0, message=f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _abort(response: aiohttp.ClientResponse) -> None:
    """Cut the connection: the rest of the answer is not wanted, and a frozen server would not take leave of us."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


def _open(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("the client is used outside its async with block")
    return session
