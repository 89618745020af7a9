"""The benchmark of the virtual cluster: its scenario for memory, its verdicts, and that it runs."""

from __future__ import annotations

import pytest

from benchmarks import cluster_rate
from benchmarks.cluster_rate import Line, large_cluster, main
from benchmarks.hpa_rate import measure_rate


def test_a_ratio_below_the_target_is_reported_as_missed() -> None:
    """The table must not flatter."""
    assert Line(140, 2.0, 1.0, 9.9, 10.0).text().endswith("9.9x (target 10x missed)")
    assert Line(140, 2.0, 1.0, 10.0, 10.0).text().endswith("10.0x (target 10x reached)")


def test_without_the_real_controllers_there_is_no_ratio() -> None:
    """Ours alone is a rate."""
    assert Line(14, 2.0, 0.5, None, 5.0).text() == "   14 nodes:    4.000 simulated hours/s"


def test_the_large_cluster_has_as_many_pods_as_it_says() -> None:
    """1,000 nodes and 30,000 pods are what the target of memory is about."""
    made = large_cluster()
    assert len(made["objects"]["nodes"]) == 1000
    assert sum(app["spec"]["replicas"] for app in made["objects"]["deployments"]) == 30_000


def test_the_smallest_size_runs_without_the_real_controllers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lines: the rate of the cluster, and that of the HPA alone."""
    monkeypatch.setattr(cluster_rate, "measure_rate", lambda *_: measure_rate(10, 2, 2))
    assert main(["--nodes", "20", "--no-upstream", "--no-memory"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["14 nodes", "HPA alone"]
