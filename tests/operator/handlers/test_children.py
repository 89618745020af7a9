"""Child workers: started, told, looked after, ended; processes stand in for workers and misbehave on demand."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from stowplan_operator.handlers.children import ChildSettings, ChildWorkers
from stowplan_operator.handlers.groups import GroupPlan
from stowplan_operator.handlers.observed import Health, WorkerReport
from support.processes import is_alive

SUPPORT: Final = Path(__file__).resolve().parents[2] / "support"
STAND_IN: Final = (sys.executable, str(SUPPORT / "stand_in_worker.py"))
PATIENCE: Final = 60.0

Body = Callable[[ChildWorkers], Awaitable[None]]


def plan(generation: int = 1, name: str = "default", **behaviour: Any) -> GroupPlan:
    text = json.dumps({"generation": generation, **behaviour})
    return GroupPlan(name=name, text=text, replicas=1, runtime="Child")


def run(folder: Path, body: Body, **settings: Any) -> None:
    """Run a test with children; they are closed however it ends."""

    async def main() -> None:
        children = ChildWorkers(ChildSettings(folder=folder, program=STAND_IN, **settings), lambda: None)
        try:
            async with asyncio.timeout(PATIENCE):
                await body(children)
        finally:
            await children.close()

    asyncio.run(main())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what is waited for happens in processes
        await asyncio.sleep(0.02)


def report(children: ChildWorkers, group: str = "default") -> WorkerReport:
    return next(each for each in children.reports() if each.group == group)


def answers(children: ChildWorkers, generation: int = 1, group: str = "default") -> bool:
    """Whether a worker answers and runs that generation."""
    found = [each for each in children.reports() if each.group == group]
    return bool(found and found[0].health is Health.ANSWERS and found[0].profiles["dense"].generation == generation)


def test_a_change_reaches_the_worker_by_its_file_and_it_is_not_started_anew(tmp_path: Path) -> None:
    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan(1)})
        assert report(children).health is Health.STARTING
        await until(lambda: answers(children, 1))
        pid = children.pid_of("default")
        await children.apply({"default": plan(2)})
        await until(lambda: answers(children, 2))
        assert children.pid_of("default") == pid
        assert report(children).is_leading
        assert report(children).is_synced

    run(tmp_path, body)


def test_ctrl_c_in_the_terminal_of_the_operator_does_not_reach_its_workers(tmp_path: Path) -> None:
    """They would take the operator's own request to end for a second one, and stop waiting for their binds."""

    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan()})
        await until(lambda: answers(children))
        pid = children.pid_of("default")
        assert pid is not None
        assert os.getpgid(pid) != os.getpgid(0)

    run(tmp_path, body)


def test_each_group_has_a_worker_of_its_own_and_a_group_that_goes_takes_its_files_along(tmp_path: Path) -> None:
    async def body(children: ChildWorkers) -> None:
        await children.apply({"a": plan(1, "a"), "b": plan(2, "b")})
        await until(lambda: answers(children, 1, "a") and answers(children, 2, "b"))
        pid = children.pid_of("b")
        assert pid is not None
        await children.apply({"a": plan(1, "a")})
        # While it is being drained it is still reported: nobody may act in its place.
        assert {each.group for each in children.reports()} == {"a", "b"}
        await until(lambda: len(children.reports()) == 1)
        assert not is_alive(pid)
        assert set(os.listdir(tmp_path)) == {"a.json", "a.ready"}  # noqa: PTH208 - pathlib's may block, they say

    run(tmp_path, body)
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_comes_back_while_it_is_drained_waits_for_that(tmp_path: Path) -> None:
    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan(1)})
        await until(lambda: answers(children))
        pid = children.pid_of("default")
        await children.apply({})
        await children.apply({"default": plan(2)})
        assert children.pid_of("default") == pid
        await until(lambda: not children.reports())
        await children.apply({"default": plan(2)})
        await until(lambda: answers(children, 2))
        assert children.pid_of("default") != pid

    run(tmp_path, body)


def test_a_worker_that_was_killed_is_started_again_and_meanwhile_reported_as_ended(tmp_path: Path) -> None:
    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan(1)})
        await until(lambda: answers(children))
        pid = children.pid_of("default")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: report(children).health is Health.SILENT)
        assert report(children).detail == "ended by signal 9"
        assert report(children).profiles == {}
        await until(lambda: answers(children))
        assert children.pid_of("default") != pid

    run(tmp_path, body)


def test_a_worker_that_cannot_start_says_so_until_a_change_lets_it(tmp_path: Path) -> None:
    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan(1, crash=2)})
        await until(lambda: report(children).health is Health.SILENT)
        assert report(children).detail == "ended with exit code 2; its log says why"
        await children.apply({"default": plan(2)})
        await until(lambda: answers(children, 2))

    run(tmp_path, body)


def test_a_worker_that_does_not_answer_is_silent_and_then_ended(tmp_path: Path) -> None:
    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan(1, silent=True)})
        await until(lambda: children.pid_of("default") is not None)
        pid = children.pid_of("default")
        await until(lambda: report(children).health is Health.SILENT)
        assert report(children).detail.startswith("does not answer")
        await until(lambda: "was ended" in report(children).detail)
        assert pid is not None
        assert not is_alive(pid)

    run(tmp_path, body, silent_seconds=0.5, stuck_seconds=4.0)


def test_a_worker_that_does_not_end_when_it_is_asked_to_is_killed(tmp_path: Path) -> None:
    pids: list[int] = []

    async def body(children: ChildWorkers) -> None:
        await children.apply({"default": plan(1, deaf=True)})
        await until(lambda: answers(children))
        pid = children.pid_of("default")
        assert pid is not None
        pids.append(pid)

    run(tmp_path, body, stop_seconds=1.0)
    assert not is_alive(pids[0])


def test_a_second_request_to_end_waits_for_nothing(tmp_path: Path) -> None:
    async def main() -> tuple[int, float]:
        children = ChildWorkers(ChildSettings(folder=tmp_path, program=STAND_IN, stop_seconds=600), lambda: None)
        await children.apply({"default": plan(1, deaf=True)})
        await until(lambda: answers(children))
        pid = children.pid_of("default")
        assert pid is not None
        closing = asyncio.ensure_future(children.close())
        await asyncio.sleep(0.1)
        began = time.monotonic()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await until(lambda: not is_alive(pid))
        took = time.monotonic() - began
        await children.close()
        return pid, took

    pid, took = asyncio.run(main())
    assert not is_alive(pid)
    assert took < PATIENCE


def test_a_program_that_is_not_there_is_a_report_and_no_crash(tmp_path: Path) -> None:
    async def main() -> str:
        children = ChildWorkers(ChildSettings(folder=tmp_path, program=("/nowhere/stowplan",)), lambda: None)
        await children.apply({"default": plan(1)})
        await until(lambda: report(children).health is Health.SILENT)
        detail = report(children).detail
        await children.close()
        return detail

    assert asyncio.run(main()) == "cannot be started: No such file or directory"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker looks for its parent once a second")
def test_workers_end_with_an_operator_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
from stowplan_operator.handlers.children import ChildSettings, ChildWorkers
from stowplan_operator.handlers.groups import GroupPlan
from stowplan_operator.handlers.observed import Health

async def main():
    children = ChildWorkers(ChildSettings(folder=Path({str(tmp_path)!r}), program={STAND_IN!r}), lambda: None)
    plan = GroupPlan(name="default", text='{{"generation": 1}}', replicas=1, runtime="Child")
    await children.apply({{"default": plan}})
    while children.reports()[0].health is not Health.ANSWERS:
        await asyncio.sleep(0.02)
    print(children.pid_of("default"), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + PATIENCE
    while is_alive(pid):
        assert time.monotonic() < deadline, "the worker outlives its operator"
        time.sleep(0.02)
