"""From a host name to the addresses that may be connected to: resolved once, every answer checked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from .addresses import check_address
from .lookup import NameLookup
from .rules import ADDRESS_REFUSED, DEFAULT_RULES, NAME_UNKNOWN, URL_REFUSED, UrlRefusedError, UrlRules
from .urls import check_url, split_url

RESOLVE_TIMEOUT: Final = 5.0
"""Seconds."""


def check_answers(addresses: Iterable[str], rules: UrlRules = DEFAULT_RULES) -> str:
    """Why a name with these addresses is not asked; "" if it may be.

    One bad answer among good ones is enough: the next look-up may give it alone.
    """
    kinds = (check_address(address, rules) for address in addresses)
    return next((kind for kind in kinds if kind), "")


async def resolve(url: str, rules: UrlRules = DEFAULT_RULES, *, resolver: AbstractResolver | None = None) -> list[str]:
    """The addresses of a URL's host, all of them allowed. Raises UrlRefusedError.

    For telling early that a URL cannot be used; whoever asks it afterwards goes through `GuardedClient`, which checks
    again what it connects to.
    """
    parts = split_url(url, rules)
    if parts is None:
        raise UrlRefusedError(URL_REFUSED, "; ".join(check_url(url, rules)))
    guarded = GuardedResolver(rules, resolver)
    try:
        return [answer["host"] for answer in await guarded.resolve(parts.host, parts.port)]
    finally:
        await guarded.close()


class GuardedResolver(AbstractResolver):
    """A resolver that gives all answers or, if one of them is not allowed, none.

    aiohttp connects to the addresses that it is given and to no others, and checks the certificate against the name.
    """

    def __init__(self, rules: UrlRules, inner: AbstractResolver | None = None) -> None:
        self._rules = rules
        self._inner = inner if inner is not None else NameLookup()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises UrlRefusedError."""
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT):
                answers = await self._inner.resolve(host, port, family)
        except (OSError, TimeoutError):
            answers = []
        if not answers:
            raise UrlRefusedError(NAME_UNKNOWN)
        kind = check_answers((answer["host"] for answer in answers), self._rules)
        if kind:
            raise UrlRefusedError(ADDRESS_REFUSED, kind)
        return answers

    async def close(self) -> None:
        await self._inner.close()
