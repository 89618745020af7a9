"""A name server of our own for aiohttp's client: host names stand for what a test says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult


class Names(AbstractResolver):
    """Addresses by name; a test may change them. `asked`: every look-up, in order."""

    def __init__(self, answers: Mapping[str, Sequence[str]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self._news = asyncio.Event()

    async def until(self, asked: int) -> None:
        """Until so many look-ups were made."""
        async with asyncio.timeout(30):
            while len(self.asked) < asked:
                await self._news.wait()
                self._news.clear()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        self._news.set()
        if host not in self.answers:
            raise OSError(f"unknown: {host}")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.answers[host]
        ]

    async def close(self) -> None:
        pass
