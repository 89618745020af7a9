"""The client for URLs of custom resources: connects to what was checked, follows nothing, reads no more than agreed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from .addresses import check_address
from .resolving import GuardedResolver
from .rules import (
    ADDRESS_REFUSED,
    DEFAULT_RULES,
    ENCODED,
    REDIRECTED,
    TOO_LARGE,
    TOO_SLOW,
    UNREACHABLE,
    URL_REFUSED,
    UrlRefusedError,
    UrlRules,
)
from .urls import check_url, split_url

DEFAULT_TIMEOUT: Final = 5.0
LONGEST_TIMEOUT: Final = 30.0
"""Seconds from the first packet to the last byte of the answer: a server that sends a byte a second does not last."""

MEBIBYTE: Final = 1 << 20
_HEADER_LIMIT: Final = 8 << 10


class GuardedReply(NamedTuple):
    """A whole answer; its status may be an error."""

    status: int
    body: bytes


class GuardedClient:
    """Requests to URLs that somebody else wrote. An async context manager.

    `context`: whom to trust; by default what the machine trusts. `resolver` is for tests; its answers are checked all
    the same. Proxies of the environment, cookies and .netrc are not used.
    """

    def __init__(
        self,
        rules: UrlRules = DEFAULT_RULES,
        *,
        context: ssl.SSLContext | None = None,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._rules = rules
        self._context = context
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._rules, self._resolver),
            use_dns_cache=False,  # what was allowed for one request is asked anew for the next
            ssl=self._context if self._context is not None else True,
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109  it bounds more than the request: see LONGEST_TIMEOUT
        limit: int = MEBIBYTE,
    ) -> GuardedReply:
        """One request and its whole answer. Raises UrlRefusedError, whose text is fit for a condition.

        `timeout`: seconds, at most LONGEST_TIMEOUT. `limit`: bytes of the answer's body.
        """
        if self._session is None:
            raise RuntimeError("the client is used outside of its context")
        parts = split_url(url, self._rules)
        if parts is None:
            raise UrlRefusedError(URL_REFUSED, "; ".join(check_url(url, self._rules)))
        try:
            async with (
                asyncio.timeout(min(timeout, LONGEST_TIMEOUT)),
                self._session.request(
                    method,
                    URL.build(scheme=parts.scheme, host=parts.host, port=parts.port, path=parts.path),
                    data=body,
                    headers={**(headers or {}), "Accept-Encoding": "identity"},
                    allow_redirects=False,
                ) as response,
            ):
                return await self._read(response, limit)
        except TimeoutError:
            raise UrlRefusedError(TOO_SLOW) from None
        except (aiohttp.ClientError, OSError, ValueError):
            # Their texts name addresses, and quote what a server sent.
            raise UrlRefusedError(UNREACHABLE) from None

    @staticmethod
    async def _read(response: aiohttp.ClientResponse, limit: int) -> GuardedReply:
        if 300 <= response.status < 400:
            raise UrlRefusedError(REDIRECTED)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UrlRefusedError(ENCODED)
        # One byte more than is allowed tells that there is more.
        text = bytearray()
        async for chunk in response.content.iter_any():
            text += chunk
            if len(text) > limit:
                raise UrlRefusedError(TOO_LARGE)
        return GuardedReply(response.status, bytes(text))

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """The last gate: nothing is connected to an address that has not passed, by whatever way it came here.

        `info`: as getaddrinfo gives it: family, type, protocol, name, (address, port, ...).
        """
        family, kind, protocol, _, address = info
        refused = check_address(str(address[0]), self._rules)
        if refused:
            raise UrlRefusedError(ADDRESS_REFUSED, refused)
        return socket.socket(family=family, type=kind, proto=protocol)
