"""`stowplan worker` as a process beside a real control plane, and what a test wants to know of it.

with WorkerProcess(plane, folder, worker_configuration("dense")) as worker:
    worker.wait_leading()
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from integration.control_plane import HOST, ControlPlane
from integration.stowplan_process import StowplanProcess

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


class WorkerProcess(StowplanProcess):
    """One worker. `kubeconfig`: by default the one with every right. `label` tells logs of one folder apart."""

    what = "worker"
    patience = PATIENCE

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
        super().__init__(folder / f"{label}.log")
        self._kubeconfig = (kubeconfig or plane.kubeconfig).absolute()
        self._options = tuple(options)
        self._ready = folder / f"{label}.ready"
        self.config = folder / f"{label}.json"
        self.configure(configuration)

    def configure(self, configuration: Mapping[str, Any] | str) -> None:
        """Put another file in the place of the one there is, at once and whole."""
        text = configuration if isinstance(configuration, str) else json.dumps(configuration)
        scratch = self.config.with_suffix(".new")
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(self.config)

    def start(self) -> None:
        """Start it and wait until it listens. Its log goes on where the one before ended. Raises ProcessError."""
        self._ready.unlink(missing_ok=True)
        self.run(
            [
                *(sys.executable, "-m", "stowplan_operator", "worker", "--tether", str(os.getpid())),
                *("--config", str(self.config), "--kubeconfig", str(self._kubeconfig)),
                *("--bind", f"{HOST}:0", "--ready-file", str(self._ready)),
                *self._options,
            ]
        )
        self.until(self._ready.exists, "it listens")
        self.port = json.loads(self._ready.read_text(encoding="utf-8"))["port"]

    def wait_ready(self) -> None:
        """Until /readyz is ok. Raises ProcessError."""
        self.until(lambda: self.get("/readyz").code == 200, "it is ready")

    def wait_leading(self) -> None:
        """Until it leads and decides by a fresh view. Raises ProcessError."""

        def leads() -> bool:
            status = self.status()
            return bool(status["leading"] and status["fresh"])

        self.until(leads, "it leads")
