"""Workers as child processes: one for each group, started, looked after, told of changes, and ended.

A worker reads its configuration from a file in the operator's folder. A change is a new file under the same name: the
worker takes it up by itself and goes on, so that no queue, no cache and no bind under way is lost. A worker that ends
is started again, after a wait that doubles; one that does not answer for long is ended and started again. All end with
the operator, however that ends (`tether`).

A group that goes is drained: SIGTERM, time for the answers of binds under way, and only then SIGKILL. A new worker for
a group of the same name waits until the old one has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from stowplan_operator.api.backoff import Backoff

from .groups import GroupPlan
from .observed import Health, WorkerReport, heard

log = logging.getLogger("stowplan.operator.children")

LOOPBACK: Final = "127.0.0.1"
POLL_SECONDS: Final = 1.0
"""Between two looks at a worker's /status."""

FIRST_POLL_SECONDS: Final = 0.2
"""The same until the first answer, which somebody may be waiting for."""

ANSWER_SECONDS: Final = 3.0
"""Longest time for an answer on the same machine; a worker that lists a large cluster is busy for a second or two."""

SILENT_SECONDS: Final = 10.0
"""Without an answer for so long a worker counts as silent."""

STUCK_SECONDS: Final = 60.0
"""Without an answer for so long it is ended and started again. Its Lease was lost long before."""

STOP_SECONDS: Final = 25.0
"""A worker gives its binds 15 s to be answered when it is asked to end (`worker.runner.DRAIN`), and some seconds more
to give back its Lease; then it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """How workers are started. `folder` must exist and be the operator's own. `arguments`: after those of each worker,
    such as --kubeconfig.
    """

    folder: Path
    arguments: tuple[str, ...] = ()
    program: tuple[str, ...] = (sys.executable, "-m", "stowplan_operator", "worker")
    silent_seconds: float = SILENT_SECONDS
    stuck_seconds: float = STUCK_SECONDS
    stop_seconds: float = STOP_SECONDS


class Child:
    """The worker of one group, from `run` on until it is cancelled. `changed` is told of every new report."""

    def __init__(
        self, group: str, settings: ChildSettings, http: aiohttp.ClientSession, changed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._http = http
        self._changed = changed
        self._config = settings.folder / f"{group}.json"
        self._ready = settings.folder / f"{group}.ready"
        self._process: asyncio.subprocess.Process | None = None
        self._heard_at = 0.0
        self.report = WorkerReport(group=group, name=group, health=Health.STARTING)

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    def write(self, content: str) -> None:
        """Put a new configuration in the place of the old one. Raises OSError."""
        scratch = self._config.with_suffix(".new")
        scratch.write_text(content, encoding="utf-8")
        scratch.replace(self._config)

    async def run(self) -> None:
        """Keep a worker running; when this is cancelled, end it and wait for that."""
        backoff = Backoff(random.Random(), first=1.0, most=30.0, quiet=120.0)
        try:
            while True:
                ended = await self._once()
                delay = backoff.next(time.monotonic())
                log.warning(
                    "worker ended", extra={"group": self.report.group, "why": ended, "again_in": round(delay, 1)}
                )
                self._tell(
                    WorkerReport(group=self.report.group, name=self.report.name, health=Health.SILENT, detail=ended)
                )
                await asyncio.sleep(delay)
        finally:
            await self._end()
            for path in (self._config, self._ready):
                path.unlink(missing_ok=True)

    async def _once(self) -> str:
        """One life of the worker: how it ended."""
        self._ready.unlink(missing_ok=True)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._settings.program,
                *("--config", str(self._config), "--ready-file", str(self._ready), "--bind", f"{LOOPBACK}:0"),
                *("--tether", str(os.getpid())),
                *self._settings.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                # Ctrl-C in a terminal reaches the whole group: a worker is to hear of the end once, from its operator.
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot be started: {error.strerror or error}"
        log.info("worker started", extra={"group": self.report.group, "child": self._process.pid})
        self._heard_at = time.monotonic()
        looking = asyncio.ensure_future(self._look())
        waiting = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({looking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return _ending(waiting.result())
            why = looking.result()
            await self._end()
            return why
        finally:
            for task in (looking, waiting):
                task.cancel()
            await asyncio.gather(looking, waiting, return_exceptions=True)

    async def _look(self) -> str:
        """Ask for /status again and again; returns why it must be ended, if it must."""
        while True:
            await asyncio.sleep(FIRST_POLL_SECONDS if self.report.health is Health.STARTING else POLL_SECONDS)
            status = await self._status()
            if status is not None:
                self._heard_at = time.monotonic()
                self._tell(heard(self.report, status))
                continue
            silence = time.monotonic() - self._heard_at
            if silence > self._settings.stuck_seconds:
                return f"did not answer for {silence:.0f} s, and was ended"
            if silence > self._settings.silent_seconds:
                detail = f"does not answer for more than {self._settings.silent_seconds:.0f} s"
                self._tell(replace(self.report, health=Health.SILENT, detail=detail, is_leading=False))

    async def _status(self) -> Any:
        """What it answers; None if it does not."""
        page = await self.page("/status")
        try:
            return None if page is None else json.loads(page)
        except ValueError:
            return None

    async def page(self, path: str) -> bytes | None:
        """A page that the worker serves; None if it does not answer."""
        try:
            port = json.loads(self._ready.read_bytes())["port"]
            async with self._http.get(f"http://{LOOPBACK}:{port}{path}") as response:
                return await response.read() if response.status == 200 else None
        except (OSError, ValueError, KeyError, TypeError, aiohttp.ClientError, TimeoutError):
            return None

    def _tell(self, report: WorkerReport) -> None:
        if report != self.report:
            self.report = report
            self._changed()

    async def _end(self) -> None:
        """End the process if there is one, gracefully if it lets us."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if process.returncode is None:
                process.terminate()
        try:
            async with asyncio.timeout(self._settings.stop_seconds):
                await process.wait()
        except TimeoutError:
            log.warning("worker killed: it did not end in time", extra={"group": self.report.group})
        finally:
            # Also if this is cancelled a second time: nothing of ours may act on without us.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        self._process = None


def _ending(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}; its log says why"


class ChildWorkers:
    """The children of all groups. An async context manager would hide `close`, which the operator must await."""

    def __init__(self, settings: ChildSettings, changed: Callable[[], None]) -> None:
        """`changed`: told when a report is another one. Make it in the loop that it is used in."""
        self._settings = settings
        self._changed = changed
        # Answers on this machine need no proxy and no cookies.
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS), cookie_jar=aiohttp.DummyCookieJar()
        )
        self._children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._written: dict[str, str] = {}

    async def apply(self, plans: Mapping[str, GroupPlan]) -> None:
        """Have one worker for each of these groups. Raises OSError."""
        for name in [name for name in self._tasks if name not in plans]:
            self._drain(name)
        for name, plan in plans.items():
            if name in self._leaving:
                # Its files and its Lease are still in use; `changed` comes when it has ended.
                continue
            if name not in self._children:
                self._start(name, plan)
            elif self._written.get(name) != plan.text:
                self._children[name].write(plan.text)
                self._written[name] = plan.text

    def reports(self) -> Sequence[WorkerReport]:
        """Of the workers of all groups."""
        return [child.report for child in self._children.values()]

    async def metrics(self, group: str, path: str) -> bytes | None:
        """What the worker of a group serves to Prometheus: it listens on loopback only. None without an answer.

        `path`: /metrics or /metrics/resources.
        """
        child = self._children.get(group)
        return None if child is None else await child.page(path)

    async def close(self) -> None:
        """End all workers, and wait for that."""
        for name in list(self._tasks):
            self._drain(name)
        try:
            await asyncio.gather(*self._leaving.values(), return_exceptions=True)
        finally:
            await self._http.close()

    def pid_of(self, group: str) -> int | None:
        """The process of a group's worker."""
        child = self._children.get(group)
        return None if child is None else child.pid

    def _start(self, name: str, plan: GroupPlan) -> None:
        child = Child(name, self._settings, self._http, self._changed)
        child.write(plan.text)
        self._written[name] = plan.text
        self._children[name] = child
        self._tasks[name] = asyncio.create_task(child.run(), name=f"worker {name}")

    def _drain(self, name: str) -> None:
        """Ask a worker to end. It is reported, so that nobody takes over its schedulerNames, until it has."""
        task = self._tasks.pop(name)
        self._written.pop(name, None)
        self._leaving[name] = task
        task.cancel()
        task.add_done_callback(lambda _: self._left(name))

    def _left(self, name: str) -> None:
        self._leaving.pop(name, None)
        self._children.pop(name, None)
        self._changed()
