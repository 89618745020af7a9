"""A Dask cluster of processes on this machine, for as long as a test needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any

PATIENCE = 60.0
"""Seconds until everything must have started, on a machine that does something else as well."""


class DaskCluster:
    """A scheduler and its workers. `address` is what the scheduler says, `workers` are processes."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self._wait_for(self._file)
        self.address: str = json.loads(self._file.read_text())["address"]
        self.workers = [self.start_worker() for _ in range(workers)]
        client: Any = import_module("distributed").Client(self.address, timeout=PATIENCE, set_as_default=False)
        with client:
            if workers:
                client.wait_for_workers(workers, timeout=PATIENCE)

    @property
    def dask_address(self) -> str:
        """As the command line takes it."""
        return self.address.replace("tcp://", "dask://")

    def start_worker(self) -> subprocess.Popen[bytes]:
        """One more, with one thread, and nobody who starts it again."""
        return self._start("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")

    def close(self) -> None:
        """All processes are gone afterwards."""
        for process in (*self.workers, self._scheduler):
            process.kill()
            process.wait()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self._file)]
        command += ["--no-dashboard", *options]
        log = (self._folder / f"{what}.log").open("ab")
        with log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def _wait_for(self, path: Path) -> None:
        began = monotonic()
        while not path.exists() or not path.read_text().strip():
            if monotonic() - began > PATIENCE or self._scheduler.poll() is not None:
                raise RuntimeError((self._folder / "scheduler.log").read_text())
            sleep(0.1)
