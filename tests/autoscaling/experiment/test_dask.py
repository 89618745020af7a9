"""Comparisons on a real Dask cluster: a scheduler and workers as processes of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.experiment import (
    Cell,
    DaskExecutor,
    ExecutorError,
    LocalExecutor,
    WorkerLostError,
    compare,
    plan_of,
    read_comparison,
)
from stowplan_autoscaling.experiment import dask as dask_module
from stowplan_autoscaling.experiment.comparison import COMPARISON_FILE
from support.dask_cluster import DaskCluster
from support.experiments import WEB, Heard, comparison, contents, written
from support.simulations import write

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask: pip install 'stowplan[dask]'")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    found = DaskCluster(tmp_path_factory.mktemp("dask"), workers=2)
    yield found
    found.close()


class Killer(Heard):
    """Kills workers when the first run is finished."""

    def __init__(self, cluster: DaskCluster, count: int) -> None:
        super().__init__()
        self._doomed = cluster.workers[:count]

    def progress(self, cell: Cell, share: float) -> None:
        super().progress(cell, share)
        while self._doomed:
            self._doomed.pop().send_signal(signal.SIGKILL)


def test_a_cluster_gives_the_same_bytes_as_this_machine(cluster: DaskCluster, tmp_path: Path) -> None:
    """Results come back as files; the workers need no folder of ours."""
    plan = plan_of(written(tmp_path, seeds=1))
    compare(plan, str(tmp_path / "dask"), DaskExecutor(cluster.dask_address))
    compare(plan, str(tmp_path / "here"), LocalExecutor(1))
    assert contents(tmp_path / "dask") == contents(tmp_path / "here")


def test_runs_of_a_worker_that_dies_begin_again_on_another(cluster: DaskCluster, tmp_path: Path) -> None:
    """It is said once, and the comparison is complete."""
    heard = Killer(cluster, 1)
    plan = plan_of(write(tmp_path, _long(seeds=2)))
    report = compare(plan, str(tmp_path / "out"), DaskExecutor(cluster.address), listener=heard)
    assert report.is_complete
    [note] = heard.notes
    assert note.startswith("Dask worker tcp://127.0.0.1:")
    assert " is gone" in note


def test_without_any_worker_left_the_comparison_ends_with_what_there_is(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon, with one message."""
    monkeypatch.setattr(dask_module, "_PATIENCE", 2.0)
    monkeypatch.setattr(dask_module, "_FETCH", 2.0)
    plan = plan_of(write(tmp_path, _long(seeds=2)))
    with pytest.raises(WorkerLostError, match=r"the Dask cluster at tcp://127.*has no worker left for .*\(seed \d\)"):
        compare(plan, str(tmp_path / "out"), DaskExecutor(cluster.address), listener=Killer(cluster, 2))
    report = read_comparison((tmp_path / "out" / COMPARISON_FILE).read_bytes())
    there = sum(run.is_complete for each in report.candidates for run in each.runs)
    assert 1 <= there < 4


def test_a_result_that_dies_with_its_worker_is_not_waited_for(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers die when the first run has ended, and before its result was fetched."""
    monkeypatch.setattr(dask_module, "_PATIENCE", 2.0)
    monkeypatch.setattr(dask_module, "_FETCH", 1.0)
    distributed = import_module("distributed")
    result = distributed.Future.result

    def doomed(future: Any, timeout: float) -> Any:
        for worker in cluster.workers:
            worker.send_signal(signal.SIGKILL)
        return result(future, timeout)

    monkeypatch.setattr(distributed.Future, "result", doomed)
    with pytest.raises(WorkerLostError, match=r"has no worker left for today \(seed \d\)"):
        compare(plan_of(written(tmp_path, seeds=1)), str(tmp_path / "out"), DaskExecutor(cluster.address))


def test_runs_end_soon_when_they_are_no_longer_wanted(cluster: DaskCluster, tmp_path: Path) -> None:
    """A second comparison finds the workers free, although the first one's runs would have taken for ever."""
    endless = plan_of(write(tmp_path, _long(duration="4000h"), "endless.yaml"))
    asked = iter([False] * 15)
    report = compare(endless, str(tmp_path / "endless"), DaskExecutor(cluster.address), stop=lambda: next(asked, True))
    assert not any(run.is_complete for each in report.candidates for run in each.runs)
    report = compare(plan_of(written(tmp_path, seeds=1)), str(tmp_path / "out"), DaskExecutor(cluster.address))
    assert report.is_complete


def test_a_cluster_without_workers_is_named(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time in which they may still come."""
    monkeypatch.setattr(dask_module, "_PATIENCE", 1.0)
    cluster = DaskCluster(tmp_path_factory.mktemp("empty"), workers=0)
    try:
        with pytest.raises(ExecutorError, match=r"the Dask cluster at tcp://127.* has no workers"):
            compare(plan_of(written(tmp_path)), str(tmp_path / "out"), DaskExecutor(cluster.address))
    finally:
        cluster.close()


def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address."""
    monkeypatch.setattr(dask_module, "_CONNECT", "1s")
    with pytest.raises(ExecutorError, match=r"no Dask scheduler answers at dask://127\.0\.0\.1:9"):
        compare(plan_of(written(tmp_path)), str(tmp_path / "out"), DaskExecutor("dask://127.0.0.1:9"))


def test_another_version_on_a_worker_is_refused() -> None:
    """Its results would not be comparable."""
    with pytest.raises(ImportError, match=r"it has version .*, 0\.0\.0-other is needed"):
        dask_module.run_remotely(b"", "0.0.0-other", "token")


def _long(**fields: object) -> dict[str, object]:
    """Two candidates with runs that take a second or so each, so that there is something to kill."""
    candidates = [{"name": "today"}, {"name": "lean", "requests": [{"target": WEB, "cpu": "250m"}]}]
    return comparison(**{"duration": "3h", "candidates": candidates, **fields})
