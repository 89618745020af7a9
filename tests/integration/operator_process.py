"""`stowplan operator` as a process beside a real control plane, and what a test wants to know of it.

with OperatorProcess(plane, folder) as operator:
    operator.wait_acting()
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from integration.control_plane import HOST, ControlPlane, free_ports
from integration.kube_api import KubeApi, Manifest, sure
from integration.stowplan_process import StowplanProcess

PATIENCE: Final = 90.0
"""Seconds for anything that takes one or two, unless the machine is busy."""

NAMESPACE: Final = "stowplan-system"
PROFILES: Final = "/apis/stowplan.io/v1alpha1/schedulerprofiles"

FAST_LEASE: Final = (
    *("--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s"),
    *("--leader-elect-retry-period", "1s"),
)
"""Others take over after four seconds: the tests need not wait for fifteen."""


class OperatorProcess(StowplanProcess):
    """One operator. Its log has the records of its workers, too."""

    what = "operator"
    patience = PATIENCE

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *,
        kubeconfig: Path | None = None,
        label: str = "operator",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder / f"{label}.log")
        self._kubeconfig = (kubeconfig or plane.kubeconfig).absolute()
        self._options = tuple(options)

    def start(self) -> None:
        """Start it; its log goes on where the one before ended."""
        (self.port,) = free_ports(1)
        self.run(
            [
                *(sys.executable, "-m", "stowplan_operator", "operator"),
                *("--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE),
                *("--bind", f"{HOST}:{self.port}", *FAST_LEASE, *self._options),
            ],
            # So that a test can find, and end, whatever was started by it.
            env={**os.environ, "TMPDIR": str(self.log.parent)},
        )

    def metric(self, name: str) -> float:
        """The sum of all samples of a metric."""
        lines = [line for line in self.get("/metrics").text.splitlines() if not line.startswith("#")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def wait_acting(self) -> None:
        """Until it leads and has read everything. Raises ProcessError."""
        self.until(lambda: bool(self.status()["leading"]) and self.get("/readyz").code == 200, "it acts")


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
