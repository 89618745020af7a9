"""A whole worker in this process: what happens when one of its parts breaks, and the way from start to end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from integration.control_plane import ControlPlane
from integration.scheduling_load import create_all, make_ready, node, pod
from integration.worker_process import PATIENCE, worker_configuration
from stowplan_operator.api.connection import load_connection
from stowplan_operator.worker.configuration import read_configuration
from stowplan_operator.worker.runner import Worker, WorkerOptions, run_worker

pytestmark = pytest.mark.rig

NAME = "in-process"


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """With a node of our own, and without our pods at the end: it is everybody's."""
    create_all(control_plane, [node("in-process")])
    make_ready(control_plane, ["in-process"])
    yield control_plane
    with contextlib.closing(control_plane.api) as api:
        for name in ("small", "huge", "late"):
            api.delete(pod(name, NAME))
        api.delete(node("in-process"))


@pytest.fixture(autouse=True)
def kept_collector() -> Iterator[None]:
    """A worker sets the collector for itself."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Running:
    """A worker, and what a test does meanwhile."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.config, self.ready = folder / "worker.json", folder / "ready.json"
        self.configure(1)
        self.worker = Worker(
            read_configuration(self.config),
            load_connection(plane.kubeconfig),
            WorkerOptions(config=self.config, host="127.0.0.1", port=0, ready_file=self.ready, seed=1),
        )

    def configure(self, generation: int, **fields: Any) -> None:
        document = worker_configuration(NAME, name=NAME, modes={NAME: {"generation": generation}})
        self.config.write_text(json.dumps({**document, **fields}))

    async def page(self, path: str) -> Any:
        port = json.loads(self.ready.read_text())["port"]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
            return await (response.json() if path == "/status" else response.text())

    async def until(self, is_so: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for a status. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(OSError, aiohttp.ClientError):
                    if is_so(await self.page("/status")):
                        return
                await asyncio.sleep(0.05)

    async def page_with(self, path: str, text: str) -> str:
        """A page as soon as it has a text. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while True:
                page = str(await self.page(path))
                if text in page:
                    return page
                await asyncio.sleep(0.05)

    async def create(self, *pods: dict[str, Any]) -> None:
        await asyncio.to_thread(create_all, self.plane, pods)


def run(running: Running, doing: Callable[[], Awaitable[None]]) -> None:
    async def both() -> None:
        task = asyncio.ensure_future(run_worker(running.worker))
        try:
            await doing()
        finally:
            signal.raise_signal(signal.SIGTERM)
            await task

    asyncio.run(both())


def test_from_start_to_end(plane: ControlPlane, tmp_path: Path) -> None:
    running = Running(plane, tmp_path)

    async def doing() -> None:
        await running.until(lambda status: status["fresh"] and status["leading"])
        await running.create(pod("small", NAME), pod("huge", NAME, cpu="64"))
        await running.until(
            lambda status: status["pending"]["unschedulable"] == 1 and status["utilization"]["cpu"] == 1
        )
        assert await running.page("/readyz") == "ok"
        running.configure(2)
        signal.raise_signal(signal.SIGHUP)
        await running.until(lambda status: status["profiles"][0]["generation"] == 2)
        running.configure(3, maxBindsInFlight=0)
        await running.until(lambda status: "maxBindsInFlight" in status["error"])
        running.configure(4)
        await running.until(lambda status: status["profiles"][0]["generation"] == 4 and not status["error"])
        await running.create(pod("late", NAME))
        await running.until(lambda status: status["utilization"]["cpu"] == 2)
        # An assumed pod counts for the utilization; its bind is answered a moment later.
        text = await running.page_with("/metrics", 'stowplan_binds_total{code="201"} 2')
        assert 'stowplan_profile_info{generation="4",hash="",mode="Active",profile="in-process"} 1' in text

    run(running, doing)
    assert not running.ready.exists(), "it serves no more"


def test_a_part_that_breaks_ends_the_worker(plane: ControlPlane, tmp_path: Path) -> None:
    """Whoever runs it starts it again: a worker that goes on with half of its parts would be believed."""
    running = Running(plane, tmp_path)

    async def doing() -> None:
        task = asyncio.ensure_future(run_worker(running.worker))
        await running.until(lambda status: status["synced"])
        running.worker._carrier.failure = RuntimeError("broken")
        with pytest.raises(ExceptionGroup) as ended:
            await task
        assert [str(error) for error in ended.value.exceptions] == ["broken"]

    asyncio.run(doing())


def test_a_second_signal_ends_it_at_once(plane: ControlPlane, tmp_path: Path) -> None:
    running = Running(plane, tmp_path)

    async def doing() -> None:
        task = asyncio.ensure_future(run_worker(running.worker))
        await running.until(lambda status: status["synced"])
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(doing())
