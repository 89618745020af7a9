"""A shadow beside the real kube-scheduler: it binds nothing, and says how often it would have decided the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.binding_audit import BindingAudit
from integration.control_plane import API_SERVER, SCHEDULER, ControlPlane
from integration.kube_api import sure
from integration.scheduling_load import create_all, node, pod, wait_bound
from integration.worker_process import WorkerProcess, worker_configuration

pytestmark = [pytest.mark.rig, pytest.mark.slow]

THEIRS: Final = "default-scheduler"
PODS: Final = 60


def packing(name: str) -> dict[str, Any]:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "weight": 100}
    return {
        "schedulerName": name,
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}], "enabled": [fit]}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}],
    }


@pytest.fixture(scope="module")
def plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("shadow")
    audit = BindingAudit(folder)
    flags = {API_SERVER: (*audit.flags, "--disable-admission-plugins", "TaintNodesByCondition")}
    with ControlPlane(rig, folder, components=(SCHEDULER,), flags=flags) as made:
        create_all(made, [node(f"node-{number}", cpu=f"{16 + number}", memory="64Gi") for number in range(6)])
        yield made


def test_shadows_count_and_bind_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """The profile that kube-scheduler runs agrees with it always; one that packs sees fuller nodes than it chose."""
    shadow = {"mode": "Shadow", "shadowOf": THEIRS}
    configuration = worker_configuration("same", packing("packing"), modes={"same": shadow, "packing": shadow})
    with WorkerProcess(plane, tmp_path, configuration) as worker, contextlib.closing(plane.api) as api:
        worker.wait_leading()
        for number in range(PODS):
            # One at a time: kube-scheduler's next decision must not come before the last one was seen by both.
            sure(api.create(pod(f"pod-{number:02d}", THEIRS, cpu=f"{100 + 50 * (number % 7)}m")))
            wait_bound(api, number + 1)
        create_all(plane, [pod("held", "same"), pod("huge", THEIRS, cpu="64")])
        worker.until(lambda: worker.status()["pending"]["held"] == 1, "a pod of a shadow waits")

        def decided() -> dict[str, Any]:
            found: dict[str, Any] = worker.status()["shadow"]
            return found

        worker.until(lambda: decided()["same"]["decided"] == PODS, "all decisions were compared")
        same, other = decided()["same"], decided()["packing"]
        # Which of several best nodes kube-scheduler takes depends on the order in which it learnt of them.
        assert same["agreed"] + same["tied"] == same["placed"] == PODS
        assert other["agreed"] + other["tied"] < PODS // 2
        assert other["fullness"] > other["realFullness"]
        assert 'stowplan_binds_total{code="201"}' not in worker.get("/metrics").text
        # Whatever it thinks, the pods of a shadow wait.
        assert "nodeName" not in sure(api.read(pod("held", "same")))["spec"]
