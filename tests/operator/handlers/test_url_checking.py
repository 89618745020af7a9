"""Where the URLs of profiles lead: looked up in the background, remembered, looked up again, and told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from stowplan_operator.handlers.url_checking import UrlChecking
from stowplan_operator.handlers.url_verdicts import UrlVerdict
from stowplan_operator.net import UrlRules, parse_network
from support.names import Names

GOOD, LOOP, GONE = "https://good.mon.svc/", "https://loop.mon.svc/", "https://gone.mon.svc/"
ANSWERS: dict[str, Sequence[str]] = {"good.mon.svc": ("10.96.0.10",), "loop.mon.svc": ("127.0.0.1",)}
REFUSED = UrlVerdict("AddressRefused", "the host name stands for an address that is not allowed: a loopback address")
UNKNOWN = UrlVerdict("NameUnknown", "the host name cannot be resolved")


class Told:
    """Counts news, and waits for them."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not is_so():
                await self.news.wait()
                self.news.clear()


def test_each_url_gets_its_verdict_and_only_news_are_told() -> None:
    async def main() -> None:
        told, names = Told(), Names(ANSWERS)
        checking = UrlChecking(UrlRules(), told, resolver=names)
        checking.want([GOOD, LOOP, GONE])
        assert checking.verdicts == {GOOD: None, LOOP: None, GONE: None}
        await told.until(lambda: told.count == 3)
        assert checking.verdicts == {GOOD: UrlVerdict(), LOOP: REFUSED, GONE: UNKNOWN}
        # Wanted again, they are not asked about again; the one that is not, is forgotten.
        checking.want([GOOD, LOOP])
        assert checking.verdicts == {GOOD: UrlVerdict(), LOOP: REFUSED}
        assert sorted(names.asked) == ["gone.mon.svc", "good.mon.svc", "loop.mon.svc"]
        await checking.close()

    asyncio.run(main())


def test_nothing_is_looked_up_for_a_url_that_is_refused_as_a_text() -> None:
    async def main() -> None:
        told, names = Told(), Names({})
        checking = UrlChecking(UrlRules(), told, resolver=names)
        checking.want(["https://127.0.0.1/", "http://good.mon.svc/", "", "https://evil.example/"])
        assert checking.verdicts == {}
        await asyncio.sleep(0)
        await checking.close()
        assert names.asked == []

    asyncio.run(main())


def test_a_name_is_looked_up_again_and_a_change_is_told() -> None:
    async def main() -> None:
        told, names = Told(), Names({})
        checking = UrlChecking(UrlRules(), told, resolver=names, good_seconds=0.001, bad_seconds=0.001)
        checking.want([GOOD])
        for answers, expected in (({}, UNKNOWN), (ANSWERS, UrlVerdict()), ({"good.mon.svc": ("::1",)}, REFUSED)):
            names.answers = answers
            await told.until(lambda expected=expected: checking.verdicts[GOOD] == expected)  # type: ignore[misc]
        # The same answer once more is no news.
        count, asked = told.count, len(names.asked)
        await names.until(asked + 3)
        assert told.count == count == 3
        await checking.close()

    asyncio.run(main())


def test_what_was_not_good_is_looked_up_sooner_and_what_is_not_wanted_never_again() -> None:
    async def main() -> None:
        told, names = Told(), Names({})
        checking = UrlChecking(UrlRules(), told, resolver=names, good_seconds=3600, bad_seconds=0.001)
        checking.want([GOOD, GONE])
        await names.until(10)
        names.answers = ANSWERS
        await told.until(lambda: checking.verdicts[GOOD] == UrlVerdict())
        names.asked.clear()
        await names.until(5)
        assert set(names.asked) == {"gone.mon.svc"}
        checking.want([GOOD])
        names.asked.clear()
        await asyncio.sleep(0.05)
        assert names.asked == []
        await checking.close()

    asyncio.run(main())


def test_what_a_flag_allows_is_allowed() -> None:
    async def main() -> None:
        told = Told()
        rules = UrlRules(allowed=(parse_network("127.0.0.0/8"),))
        checking = UrlChecking(rules, told, resolver=Names(ANSWERS))
        checking.want([LOOP])
        await told.until(lambda: told.count == 1)
        assert checking.verdicts == {LOOP: UrlVerdict()}
        await checking.close()

    asyncio.run(main())
