"""What operator and workers serve, without either behind it."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import aiohttp
import pytest

from stowplan_operator.serving import Pages, PageServer


def pages(stuck: str = "", not_synced: str = "") -> Pages:
    return Pages(
        live={"loop": lambda: stuck},
        ready={"informers": lambda: not_synced},
        metrics=lambda: b"a_metric 1.0\n",
        configz=lambda: {"stowplan.io": {"name": "default"}},
        status=lambda: {"leading": True},
    )


def fetched(served: Pages, *paths: str) -> list[tuple[int, str, str]]:
    """Status, media type and text of each path."""

    async def run() -> list[tuple[int, str, str]]:
        server = PageServer(served, "127.0.0.1", 0)
        port = await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                return [await one(session, f"http://127.0.0.1:{port}{path}") for path in paths]
        finally:
            await server.stop()

    async def one(session: aiohttp.ClientSession, url: str) -> tuple[int, str, str]:
        async with session.get(url) as response:
            return response.status, response.content_type, await response.text()

    return asyncio.run(run())


def test_a_worker_that_is_well_says_ok() -> None:
    assert fetched(pages(), "/healthz", "/livez", "/readyz") == [(200, "text/plain", "ok")] * 3


def test_an_operator_hands_on_the_metrics_of_the_workers_beside_it() -> None:
    async def of_group(group: str, path: str) -> bytes | None:
        return f"{path[1:].replace('/', '_')} 2\n".encode() if group == "batch" else None

    served = replace(pages(), worker_metrics=of_group)
    paths = ("/workers/batch/metrics", "/workers/batch/metrics/resources", "/workers/other/metrics")
    known, resources, unknown = fetched(served, *paths)
    assert known == (200, "text/plain", "metrics 2\n")
    assert resources == (200, "text/plain", "metrics_resources 2\n")
    assert unknown[0] == 404
    assert fetched(pages(), "/workers/batch/metrics")[0][0] == 404


def test_checks_are_listed_on_demand() -> None:
    (_, _, text), (_, _, other) = fetched(pages(), "/livez?verbose", "/readyz?verbose")
    assert text == "[+]loop ok\nlivez check passed\n"
    assert other == "[+]loop ok\n[+]informers ok\nreadyz check passed\n"


def test_a_loop_that_stands_still_fails_every_check() -> None:
    found = fetched(pages(stuck="no turn for 40 s"), "/healthz", "/livez", "/readyz")
    assert [code for code, _, _ in found] == [500, 500, 500]
    assert found[1][2] == "[-]loop failed: no turn for 40 s\nlivez check failed\n"


def test_a_worker_that_has_not_listed_yet_lives_but_is_not_ready() -> None:
    live, ready = fetched(pages(not_synced="not listed yet: Pod"), "/livez", "/readyz")
    assert live[0] == 200
    assert (ready[0], ready[2]) == (
        500,
        "[+]loop ok\n[-]informers failed: not listed yet: Pod\nreadyz check failed\n",
    )


def test_documents_and_metrics_have_their_types() -> None:
    metrics, configz, status, other = fetched(pages(), "/metrics", "/configz", "/status", "/other")
    assert metrics == (200, "text/plain", "a_metric 1.0\n")
    assert configz == (200, "application/json", '{"stowplan.io":{"name":"default"}}')
    assert status == (200, "application/json", '{"leading":true}')
    assert other[0] == 404


def test_resources_of_pods_are_a_page_of_workers_alone() -> None:
    async def resources() -> bytes:
        return b"kube_pod_resource_limit 2\n"

    served = replace(pages(), resources=resources)
    assert fetched(served, "/metrics/resources") == [(200, "text/plain", "kube_pod_resource_limit 2\n")]
    assert fetched(pages(), "/metrics/resources")[0][0] == 404


def test_an_address_that_is_taken_is_an_error() -> None:
    async def run(port: int) -> None:
        await PageServer(pages(), "127.0.0.1", port).start()

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="address already in use"):
            asyncio.run(run(taken.getsockname()[1]))
