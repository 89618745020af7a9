"""The client for URLs of custom resources against servers that mean no good, on loopback, which a flag allows."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from integration.control_plane import ControlPlane
from stowplan_operator.net import UrlRefusedError, UrlRules, parse_network
from stowplan_operator.net.fetch import GuardedClient, GuardedReply
from support.names import Names

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HOST = "extender.mon.svc"
NAMES = Names({HOST: ("127.0.0.1",)})
LOOPBACK = (parse_network("127.0.0.0/8"),)


def exchange(handler: Handler, *, limit: int = 1 << 20, timeout: float = 5.0) -> GuardedReply:
    """One POST to a server with this handler."""

    async def main() -> GuardedReply:
        server = web.Server(handler)
        runner = web.ServerRunner(server)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            rules = UrlRules(http=True, ports=frozenset({port}), allowed=LOOPBACK)
            async with GuardedClient(rules, resolver=NAMES) as client:
                url = f"http://{HOST}:{port}/filter"
                return await client.request("POST", url, body=b"{}", limit=limit, timeout=timeout)
        finally:
            await runner.cleanup()

    return asyncio.run(main())


def test_an_answer_is_returned_whole_with_its_status() -> None:
    """Errors too: what a status means is up to whoever asked."""

    async def answer(request: web.BaseRequest) -> web.Response:
        seen = (request.method, request.path, await request.read(), request.headers["Host"].partition(":")[0])
        assert seen == ("POST", "/filter", b"{}", HOST)
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(status=503, text="later")

    assert exchange(answer) == GuardedReply(503, b"later")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    """Wherever it leads to: the first hop was checked, the second would not be."""
    visits = []

    async def answer(request: web.BaseRequest) -> web.Response:
        visits.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    with pytest.raises(UrlRefusedError) as refused:
        exchange(answer)
    assert refused.value.reason == "Redirected"
    assert visits == ["/filter"]


@pytest.mark.parametrize("chunked", [False, True])
def test_an_answer_of_the_allowed_size_is_read_and_one_byte_more_is_refused(chunked: bool) -> None:
    """Whether its length is announced or not."""

    def of_size(size: int) -> Handler:
        async def answer(request: web.BaseRequest) -> web.Response:
            made = web.Response(body=b"x" * size)
            if chunked:
                made.enable_chunked_encoding()
            return made

        return answer

    assert len(exchange(of_size(5000), limit=5000).body) == 5000
    with pytest.raises(UrlRefusedError) as refused:
        exchange(of_size(5001), limit=5000)
    assert refused.value.reason == "TooLarge"


def test_a_compressed_answer_is_refused_instead_of_unpacked() -> None:
    """A few bytes could become gigabytes."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(body=gzip.compress(b"0" * 1_000_000), headers={"Content-Encoding": "gzip"})

    with pytest.raises(UrlRefusedError) as refused:
        exchange(answer)
    assert refused.value.reason == "Encoded"


def test_a_server_that_sends_a_little_now_and_then_does_not_outlast_the_time_limit() -> None:
    """The limit is for the whole answer, not for the time between two bytes."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        made = web.StreamResponse()
        await made.prepare(request)
        while True:
            await made.write(b"x")
            await asyncio.sleep(0.05)

    began = time.monotonic()
    with pytest.raises(UrlRefusedError) as refused:
        exchange(answer, timeout=0.5)
    assert refused.value.reason == "TooSlow"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("text", [b"", b"no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 20_000 + b"\r\n\r\n"])
def test_what_is_no_http_answer_is_an_answer_that_is_not_there(text: bytes) -> None:
    """Nor is one whose headers have no end; the error quotes neither."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            rules = UrlRules(http=True, ports=frozenset({port}), allowed=LOOPBACK)
            async with GuardedClient(rules, resolver=NAMES) as client:
                with pytest.raises(UrlRefusedError) as refused:
                    await client.request("GET", f"http://{HOST}:{port}/")
        assert refused.value.reason == "Unreachable"
        assert str(refused.value) == "there is no connection, or it was not a trusted one"

    asyncio.run(main())


@pytest.mark.rig
def test_the_certificate_is_checked_against_the_name_although_the_address_was_fixed_before(
    control_plane: ControlPlane,
) -> None:
    """The API server's certificate is valid for "kubernetes", and not for the name of a service that leads to it."""
    names = Names({HOST: ("127.0.0.1",), "kubernetes": ("127.0.0.1",)})
    hosts, ports = frozenset({"kubernetes"}), frozenset({control_plane.port})
    rules = UrlRules(hosts=hosts, ports=ports, allowed=LOOPBACK)
    known = ssl.create_default_context(cafile=control_plane.certificate)

    async def status(host: str, context: ssl.SSLContext | None) -> int:
        async with GuardedClient(rules, resolver=names, context=context) as client:
            return (await client.request("GET", f"https://{host}:{control_plane.port}/readyz")).status

    assert asyncio.run(status("kubernetes", known)) == 200
    for host, context in ((HOST, known), ("kubernetes", None)):
        with pytest.raises(UrlRefusedError) as refused:
            asyncio.run(status(host, context))
        assert refused.value.reason == "Unreachable"
