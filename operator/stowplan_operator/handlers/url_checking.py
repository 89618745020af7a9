"""Looks up where the URLs in SchedulerProfiles lead, and remembers what came of it; `reconcile` is told.

A URL's text is checked with its profile. What its name stands for is asked here: off kopf's loop, in threads of its own
(`net.lookup`), for five seconds at most, and again now and then, since names change. It is an early word to whoever
wrote the URL and no permission: whatever asks the URL later goes through `net.fetch`, which checks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from aiohttp.abc import AbstractResolver

from stowplan_operator.net import UrlRefusedError, UrlRules, split_url
from stowplan_operator.net.lookup import NameLookup
from stowplan_operator.net.resolving import resolve

from .url_verdicts import UrlVerdict, UrlVerdicts

GOOD_SECONDS: Final = 300.0
"""After so long a name that was good is looked up again."""

BAD_SECONDS: Final = 30.0
"""The same for one that was not: somebody may be about to put that right."""


class UrlChecking:
    """Takes URLs with `want`; `changed` is told of every verdict that is news. Make it in the loop it is used in.

    `resolver` is for tests; its answers are checked all the same.
    """

    def __init__(
        self,
        rules: UrlRules,
        changed: Callable[[], None],
        *,
        resolver: AbstractResolver | None = None,
        good_seconds: float = GOOD_SECONDS,
        bad_seconds: float = BAD_SECONDS,
    ) -> None:
        self._rules = rules
        self._changed = changed
        self._resolver = resolver if resolver is not None else NameLookup()
        self._good_seconds = good_seconds
        self._bad_seconds = bad_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._verdicts: dict[str, UrlVerdict | None] = {}

    @property
    def verdicts(self) -> UrlVerdicts:
        """Of the URLs that are wanted; None where the look-up is not finished."""
        return dict(self._verdicts)

    def want(self, urls: Iterable[str]) -> None:
        """Exactly these are of interest. Nothing is looked up for a URL whose text is refused already."""
        wanted = {url for url in urls if split_url(url, self._rules) is not None}
        for url in [url for url in self._tasks if url not in wanted]:
            self._tasks.pop(url).cancel()
            self._verdicts.pop(url, None)
        for url in sorted(wanted - self._tasks.keys()):
            self._verdicts[url] = None
            self._tasks[url] = asyncio.create_task(self._watch(url), name="look up a URL")

    async def close(self) -> None:
        """Look up nothing any more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _watch(self, url: str) -> None:
        while True:
            verdict = await self._look_up(url)
            if verdict != self._verdicts.get(url):
                self._verdicts[url] = verdict
                self._changed()
            await asyncio.sleep(self._bad_seconds if verdict.reason else self._good_seconds)

    async def _look_up(self, url: str) -> UrlVerdict:
        try:
            await resolve(url, self._rules, resolver=self._resolver)
        except UrlRefusedError as error:
            return UrlVerdict(error.reason, str(error))
        return UrlVerdict()
