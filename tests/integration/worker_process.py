"""`stowplan worker` as a process beside a real control plane, and what a test wants to know of it.

with WorkerProcess(plane, folder, worker_configuration("dense")) as worker:
    worker.wait_leading()
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from integration.control_plane import HOST, ControlPlane

PATIENCE: Final = 60.0
"""Seconds for anything that takes one or two, unless the machine is busy."""

NAMESPACE: Final = "kube-system"
"""Of the workers' Leases: it is there from the start."""

KUBE_SCHEDULER_CONFIGURATION: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}

FAST_LEASE: Final = {"leaseDurationSeconds": 4, "renewDeadlineSeconds": 3, "retryPeriodSeconds": 1}
"""Others take over after four seconds: the tests need not wait for fifteen."""


class Page(NamedTuple):
    """An answer over HTTP."""

    code: int
    text: str


class WorkerError(Exception):
    """A worker ended, or did not do in time what a test waits for; the text has the end of its log."""


def worker_configuration(
    *profiles: str | Mapping[str, Any],
    name: str = "default",
    lease: Mapping[str, Any] | None = None,
    modes: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """A WorkerConfiguration for profiles, given as schedulerName or as a profile of a KubeSchedulerConfiguration.

    `lease`: leaderElection; by default a fast one. `modes`: further fields of entries of `profiles`, by schedulerName.
    """
    listed = [{"schedulerName": each} if isinstance(each, str) else dict(each) for each in profiles]
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "WorkerConfiguration",
        "name": name,
        "configuration": {**KUBE_SCHEDULER_CONFIGURATION, "profiles": listed},
        "profiles": [
            {"schedulerName": each["schedulerName"], "profile": each["schedulerName"], "generation": 1}
            | dict((modes or {}).get(each["schedulerName"], {}))
            for each in listed
        ],
        "leaderElection": {"namespace": NAMESPACE, **(FAST_LEASE if lease is None else lease)},
    }


class WorkerProcess:
    """One worker, from `start` to `stop` or `kill`, as often as a test likes; a context manager that ends it.

    `kubeconfig`: by default the one with every right. `label` tells logs of several workers of one folder apart.
    """

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        configuration: Mapping[str, Any],
        *,
        kubeconfig: Path | None = None,
        label: str = "worker",
        options: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._kubeconfig = (kubeconfig or plane.kubeconfig).absolute()
        self._options = tuple(options)
        self._ready = folder / f"{label}.ready"
        self.config = folder / f"{label}.json"
        self.log = folder / f"{label}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.configure(configuration)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # ---- life ----------------------------------------------------------------------------------

    def configure(self, configuration: Mapping[str, Any] | str) -> None:
        """Put another file in the place of the one there is, at once and whole."""
        text = configuration if isinstance(configuration, str) else json.dumps(configuration)
        scratch = self.config.with_suffix(".new")
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(self.config)

    def start(self) -> None:
        """Start it and wait until it listens. Its log goes on where the one before ended. Raises WorkerError."""
        self._ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "stowplan_operator", "worker", "--tether", str(os.getpid())),
                    *("--config", str(self.config), "--kubeconfig", str(self._kubeconfig)),
                    *("--bind", f"{HOST}:0", "--ready-file", str(self._ready)),
                    *self._options,
                ],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        self.until(self._ready.exists, "it listens")
        self.port = json.loads(self._ready.read_text(encoding="utf-8"))["port"]

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit code. Raises WorkerError."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise WorkerError(f"the worker did not end after SIGTERM:\n{self.last_lines()}") from None

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

    def records(self) -> list[dict[str, Any]]:
        """Its log, record by record; the last line may be half written."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        records = []
        for line in lines:
            with contextlib.suppress(ValueError):
                records.append(json.loads(line))
        return records

    def last_lines(self, count: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])

    # ---- waiting -------------------------------------------------------------------------------

    def wait_ready(self) -> None:
        """Until /readyz is ok. Raises WorkerError."""
        self.until(lambda: self.get("/readyz").code == 200, "it is ready")

    def wait_leading(self) -> None:
        """Until it leads and decides by a fresh view. Raises WorkerError."""

        def leads() -> bool:
            status = self.status()
            return bool(status["leading"] and status["fresh"])

        self.until(leads, "it leads")

    def until(self, is_so: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        """Wait for something. Raises WorkerError if the worker ends before, or it takes too long."""
        assert self.process is not None
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if is_so():
                    return
            code = self.process.poll()
            if code is not None:
                raise WorkerError(f"the worker ended with exit code {code} before {what}:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise WorkerError(f"{what}: not after {patience:.0f} s:\n{self.last_lines()}")
            time.sleep(0.05)
