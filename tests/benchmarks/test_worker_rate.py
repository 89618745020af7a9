"""The benchmark of workers runs: a small turn of each scheduler on a real control plane. No speed is judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.worker_rate import KUBE_SCHEDULER, STOWPLAN, Turn, main, ratio

NODES, PODS = 10, 60


def turn(scheduler: str, seconds: float) -> Turn:
    return Turn(
        scheduler=scheduler, nodes=10, pods=100, seconds=seconds, cpu_seconds=0.2, memory=90.0, api_cpu_seconds=0.5
    )


def test_the_ratio_is_that_of_the_medians() -> None:
    """100 pods in 1, 2 and 4 s against 2, 4 and 9 s: medians of 50 and 25 pods per second."""
    ours = [turn(STOWPLAN, seconds) for seconds in (1.0, 4.0, 2.0)]
    theirs = [turn(KUBE_SCHEDULER, seconds) for seconds in (9.0, 2.0, 4.0)]
    assert ratio(ours + theirs) == 2.0


@pytest.mark.rig
@pytest.mark.slow
def test_both_schedulers_place_all_pods(
    rig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOWPLAN_RIG", str(rig))
    measured = tmp_path / "measured.json"
    assert main(["--nodes", str(NODES), "--pods", str(PODS), "--turns", "1", "--json", str(measured)]) == 0
    turns = json.loads(measured.read_text())
    assert [(each["scheduler"], each["pods"]) for each in turns] == [(KUBE_SCHEDULER, PODS), (STOWPLAN, PODS)]
    assert all(each["seconds"] > 0 and each["memory"] > 10 and each["cpu_seconds"] > 0 for each in turns)
    assert "ratio" in capsys.readouterr().out
