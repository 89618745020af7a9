"""A `stowplan` command as a process beside a real control plane: what is the same for operators and workers.

It is started and ended as often as a test likes, serves pages, writes a log of one record a line, and is waited for.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

from integration.control_plane import HOST


class Page(NamedTuple):
    """An answer over HTTP."""

    code: int
    text: str


class ProcessError(Exception):
    """A process ended, or did not do in time what a test waits for; the text has the end of its log."""


class StowplanProcess(ABC):
    """One process, from `start` to `stop` or `kill`; a context manager that ends it. `start` is the subclass's."""

    what: ClassVar[str]
    """What it is, in texts."""

    patience: ClassVar[float]
    """Seconds for anything that takes one or two, unless the machine is busy."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Then `__exit__` is not called; a process that took too long would stay, and slow down all that follow.
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Children of an operator end with it only if it has the time to end them, or dies.
        self.kill()

    # ---- life ----------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> None:
        """Start it; its log goes on where the one before ended."""

    def run(self, command: list[str], env: dict[str, str] | None = None) -> None:
        """Start this command."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=env)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit code. Raises ProcessError."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait until it has ended by itself; returns the exit code. Raises ProcessError."""
        assert self.process is not None
        try:
            return self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"the {self.what} does not end:\n{self.last_lines()}") from None

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Any other signal."""
        assert self.process is not None
        self.process.send_signal(number)

    # ---- what it says --------------------------------------------------------------------------

    def get(self, path: str) -> Page:
        """A page that it serves. Raises OSError, HTTPException."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return Page(answer.status, answer.read().decode())

    def status(self) -> dict[str, Any]:
        """/status."""
        found: dict[str, Any] = json.loads(self.get("/status").text)
        return found

    def records(self, message: str | None = None) -> list[dict[str, Any]]:
        """The records of its log, those of its own children included; with a message: those that say it.

        The last line may be half written.
        """
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if message is None or record.get("msg") == message:
                    found.append(record)
        return found

    def last_lines(self, count: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])

    # ---- waiting -------------------------------------------------------------------------------

    def until(self, is_so: Callable[[], bool], what: str, patience: float | None = None) -> None:
        """Wait for something. Raises ProcessError if the process ends before, or it takes too long."""
        assert self.process is not None
        patience = self.patience if patience is None else patience
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if is_so():
                    return
            code = self.process.poll()
            if code is not None:
                text = f"the {self.what} ended with exit code {code} before {what}"
                raise ProcessError(f"{text}:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{what}: not after {patience:.0f} s:\n{self.last_lines()}")
            time.sleep(0.05)
