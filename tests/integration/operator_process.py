"""`stowplan operator` as a process beside a real control plane, and what a test wants to know of it.

with OperatorProcess(plane, folder) as operator:
    operator.wait_acting()
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
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration.control_plane import HOST, ControlPlane, free_ports
from integration.kube_api import KubeApi, Manifest, sure

PATIENCE: Final = 90.0
"""Seconds for anything that takes one or two, unless the machine is busy."""

NAMESPACE: Final = "stowplan-system"
PROFILES: Final = "/apis/stowplan.io/v1alpha1/schedulerprofiles"


FAST_LEASE: Final = (
    *("--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s"),
    *("--leader-elect-retry-period", "1s"),
)
"""Others take over after four seconds: the tests need not wait for fifteen."""


class OperatorError(Exception):
    """The operator ended, or did not do in time what a test waits for; the text has the end of its log."""


class OperatorProcess:
    """One operator, from `start` to `stop` or `kill`, as often as a test likes; a context manager that ends it."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        kubeconfig: Path | None = None,
        label: str = "operator",
        options: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._kubeconfig = (kubeconfig or plane.kubeconfig).absolute()
        self._options = tuple(options)
        self.log = folder / f"{label}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            # Its workers end with it only if it has the time to end them, or dies.
            self.kill()

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it; its log goes on where the one before ended."""
        (self.port,) = free_ports(1)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "stowplan_operator", "operator"),
                    *("--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE),
                    *("--bind", f"{HOST}:{self.port}", *FAST_LEASE, *self._options),
                ],
                stdin=subprocess.DEVNULL,
                stderr=log,
                # So that a test can find, and end, whatever was started by it.
                env={**os.environ, "TMPDIR": str(self.log.parent)},
            )

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit code. Raises OperatorError."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait until it has ended by itself; returns the exit code. Raises OperatorError."""
        assert self.process is not None
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise OperatorError(f"the operator does not end:\n{self.last_lines()}") from None

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    # ---- what it says --------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, str]:
        """Code and text of a page that it serves. Raises OSError, HTTPException."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def status(self) -> dict[str, Any]:
        """/status."""
        found: dict[str, Any] = json.loads(self.get("/status")[1])
        return found

    def metric(self, name: str) -> float:
        """The sum of all samples of a metric."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def last_lines(self, count: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])

    def records(self, message: str) -> list[dict[str, Any]]:
        """The records of its log, and of its workers' log, with a message."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if record.get("msg") == message:
                    found.append(record)
        return found

    # ---- waiting -------------------------------------------------------------------------------

    def wait_acting(self) -> None:
        """Until it leads and has read everything. Raises OperatorError."""
        self.until(lambda: bool(self.status()["leading"]) and self.get("/readyz")[0] == 200, "it acts")

    def until(self, is_so: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        """Wait for something. Raises OperatorError if the operator ends before, or it takes too long."""
        assert self.process is not None
        deadline = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if is_so():
                    return
            code = self.process.poll()
            if code is not None:
                raise OperatorError(f"the operator ended with exit code {code} before {what}:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise OperatorError(f"{what}: not after {patience:.0f} s:\n{self.last_lines()}")
            time.sleep(0.1)


class Profiles:
    """The SchedulerProfiles of a control plane."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def create(self, name: str, scheduler_name: str = "", **spec: Any) -> Manifest:
        """Make one; its schedulerName is its name unless another one is given."""
        return sure(self._api.create(self._manifest(name, {"schedulerName": scheduler_name or name, **spec})))

    def edit(self, name: str, **spec: Any) -> int:
        """Merge fields into spec; returns the new generation."""
        found = sure(self._api.patch(self._manifest(name), {"spec": spec}))
        generation: int = found["metadata"]["generation"]
        return generation

    def delete(self, name: str) -> None:
        sure(self._api.delete(self._manifest(name)))

    def names(self) -> set[str]:
        return {each["metadata"]["name"] for each in sure(self._api.request("GET", PROFILES))["items"]}

    def delete_all(self) -> None:
        for name in self.names():
            self.delete(name)

    def read(self, name: str) -> Manifest:
        return sure(self._api.read(self._manifest(name)))

    def conditions(self, name: str) -> dict[str, dict[str, Any]]:
        """By type."""
        found = self.read(name).get("status", {}).get("conditions", ())
        return {each["type"]: each for each in found}

    def shows(self, name: str, **expected: str) -> bool:
        """Whether conditions have a status, as in Ready="True", or a status and a reason, as in Ready="False Invalid";
        all of them observed at the newest generation, but for Programmed.
        """
        profile = self.read(name)
        generation = profile["metadata"]["generation"]
        found = {each["type"]: each for each in profile.get("status", {}).get("conditions", ())}
        for type, wanted in expected.items():
            entry = found.get(type, {})
            text = f"{entry.get('status')} {entry.get('reason')}"
            if not text.startswith(wanted):
                return False
            if type != "Programmed" and entry.get("observedGeneration") != generation:
                return False
        return True

    @staticmethod
    def _manifest(name: str, spec: dict[str, Any] | None = None) -> Manifest:
        manifest: Manifest = {
            "apiVersion": "stowplan.io/v1alpha1",
            "kind": "SchedulerProfile",
            "metadata": {"name": name},
        }
        return manifest if spec is None else {**manifest, "spec": spec}
