"""The system's resolver in threads of its own: few, and nobody waits for one that hangs."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from stowplan_operator.net import DEFAULT_RULES, UrlRefusedError
from stowplan_operator.net.lookup import MOST_THREADS, NameLookup
from stowplan_operator.net.resolving import GuardedResolver

ANSWER = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("10.96.0.10", 443))
ANSWER6 = (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("fd12::10", 443, 0, 0))


def test_all_answers_are_given_as_aiohttp_takes_them() -> None:
    asked: list[Any] = []

    def getaddrinfo(*where: Any, **how: Any) -> list[Any]:
        asked.append((where, how))
        return [ANSWER, ANSWER6]

    found = asyncio.run(NameLookup(getaddrinfo).resolve("a.mon.svc", 443))
    assert [(each["hostname"], each["host"], each["port"], each["family"]) for each in found] == [
        ("a.mon.svc", "10.96.0.10", 443, socket.AF_INET),
        ("a.mon.svc", "fd12::10", 443, socket.AF_INET6),
    ]
    assert asked == [(("a.mon.svc", 443), {"family": socket.AF_UNSPEC, "type": socket.SOCK_STREAM})]


def test_the_system_s_own_resolver_is_asked() -> None:
    """localhost is known without a name server."""
    assert "127.0.0.1" in {each["host"] for each in asyncio.run(NameLookup().resolve("localhost"))}


@pytest.mark.parametrize("error", [socket.gaierror(socket.EAI_NONAME, "unknown"), UnicodeError("label too long")])
def test_a_name_that_cannot_be_resolved_is_an_error_of_the_system(error: Exception) -> None:
    def getaddrinfo(*where: Any, **how: Any) -> list[Any]:
        raise error

    with pytest.raises(OSError):
        asyncio.run(NameLookup(getaddrinfo).resolve("nobody.mon.svc"))


def test_look_ups_that_hang_are_given_up_in_time_and_take_no_more_than_their_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that come after them are given up too; once the system has answered, names are resolved again."""
    monkeypatch.setattr("stowplan_operator.net.resolving.RESOLVE_TIMEOUT", 0.2)
    going_on, begun = threading.Event(), []

    def getaddrinfo(host: str, *where: Any, **how: Any) -> list[Any]:
        begun.append(host)
        going_on.wait(60)
        return [ANSWER]

    async def main() -> None:
        guarded = GuardedResolver(DEFAULT_RULES, NameLookup(getaddrinfo))
        names = [f"n{number}.mon.svc" for number in range(MOST_THREADS + 3)]
        outcomes = await asyncio.gather(*map(guarded.resolve, names), return_exceptions=True)
        assert {getattr(each, "reason", each) for each in outcomes} == {"NameUnknown"}
        assert len(begun) == MOST_THREADS
        going_on.set()
        while True:
            try:
                assert (await guarded.resolve("later.mon.svc"))[0]["host"] == "10.96.0.10"
                return
            except UrlRefusedError:
                continue

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_process_does_not_wait_for_a_look_up_that_hangs() -> None:
    code = (
        "import asyncio, time\n"
        "from stowplan_operator.net.lookup import NameLookup\n"
        "async def main():\n"
        "    look = NameLookup(lambda *a, **k: time.sleep(600)).resolve('a.mon.svc')\n"
        "    try: await asyncio.wait_for(look, 0.1)\n"
        "    except TimeoutError: print('given up')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "given up\n"
