"""Profiles are changed while 500 pods a minute come: none is lost, none bound twice, none waits for long."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from integration.worker_bench import NAME, Bench, Load, bound_once, group_of, open_bench
from integration.worker_process import WorkerProcess, worker_configuration

pytestmark = [pytest.mark.rig, pytest.mark.slow]

PER_MINUTE: Final = 500
LONGEST: Final = 10.0
"""Seconds that a pod may wait. It takes some hundredths; other tests' programs may be in the way."""


@pytest.fixture(scope="module")
def bench(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(rig, tmp_path_factory.mktemp("reload")) as made:
        yield made


def scoring(strategy: str, weight: int) -> dict[str, Any]:
    """A profile that packs (MostAllocated) or spreads (LeastAllocated)."""
    return {
        "schedulerName": NAME,
        "plugins": {
            "score": {
                "disabled": [{"name": "NodeResourcesFit"}],
                "enabled": [{"name": "NodeResourcesFit", "weight": weight}],
            }
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}},
            }
        ],
    }


def generation(number: int, strategy: str, folder: Path) -> dict[str, Any]:
    modes = {NAME: {"generation": number, "hash": f"hash-{number}"}}
    return worker_configuration(scoring(strategy, number), name=group_of(folder), modes=modes)


def runs(worker: WorkerProcess, number: int) -> bool:
    status = worker.status()
    return bool(status["profiles"][0]["generation"] == number and status["error"] == "")


def test_changes_of_weights_under_load_lose_no_pod(bench: Bench, tmp_path: Path) -> None:
    with (
        Load(bench.plane, "reloaded", rate=PER_MINUTE / 60) as load,
        bench.worker(tmp_path, configuration=generation(1, "LeastAllocated", tmp_path)) as worker,
    ):
        worker.wait_leading()
        load.wait_created(30)
        for number, strategy in ((2, "MostAllocated"), (3, "LeastAllocated"), (4, "MostAllocated")):
            worker.configure(generation(number, strategy, tmp_path))
            if number == 3:
                worker.signal(signal.SIGHUP)
            worker.until(partial(runs, worker, number), f"generation {number} runs")
            load.wait_created(20)

        # A file that is wrong changes nothing, and says so.
        worker.configure(json.dumps({**generation(5, "MostAllocated", tmp_path), "maxBindsInFlight": 0}))
        worker.until(lambda: "maxBindsInFlight" in worker.status()["error"], "the error is told")
        assert worker.status()["profiles"][0]["generation"] == 4
        load.wait_created(20)
        worker.configure(generation(6, "LeastAllocated", tmp_path))
        worker.until(lambda: runs(worker, 6), "generation 6 runs")
        load.wait_created(20)

        bound_once(bench, worker, load)
        assert longest_wait(worker) < LONGEST
        # Pods were placed under each of the generations, so that the changes did happen among them.
        assert {1, 2, 3, 4, 6} <= {record["generation"] for record in worker.records() if "moment" in record}
        counted = worker.get("/metrics").text
        assert 'stowplan_configuration_reloads_total{result="applied"} 4' in counted
        assert 'stowplan_configuration_reloads_total{result="refused"} 1' in counted


def longest_wait(worker: WorkerProcess) -> float:
    """Seconds from the moment in which a pod was seen to the one in which it was bound, at most."""
    seen: dict[str, float] = {}
    longest = 0.0
    for record in worker.records():
        if record.get("moment") == "seen":
            seen[record["uid"]] = seconds(record)
        elif record.get("moment") == "bound":
            longest = max(longest, seconds(record) - seen[record["uid"]])
    return longest


def seconds(record: dict[str, Any]) -> float:
    return datetime.fromisoformat(record["ts"]).timestamp()


def test_a_mounted_configmap_that_changes_is_noticed(bench: Bench, tmp_path: Path) -> None:
    """A kubelet swaps a link to a folder; the file's own path and inode stay as they are."""
    data = tmp_path / "mount"
    for number in (1, 2):
        (data / f"version-{number}").mkdir(parents=True)
        (data / f"version-{number}" / "worker.json").write_text(
            json.dumps(generation(number, "MostAllocated", tmp_path))
        )
    (data / "..data").symlink_to("version-1")
    (data / "worker.json").symlink_to(Path("..data") / "worker.json")
    worker = bench.worker(tmp_path)
    worker.config = data / "worker.json"
    with worker:
        worker.until(lambda: runs(worker, 1), "generation 1 runs")
        (data / "..data_tmp").symlink_to("version-2")
        (data / "..data_tmp").replace(data / "..data")
        worker.until(lambda: runs(worker, 2), "generation 2 runs")


def test_what_a_worker_keeps_for_life_cannot_change(bench: Bench, tmp_path: Path) -> None:
    with bench.worker(tmp_path) as worker:
        worker.wait_ready()
        worker.configure(worker_configuration(NAME, name="other"))
        worker.until(lambda: bool(worker.status()["error"]), "the error is told")
        assert worker.status()["error"].endswith("name: cannot change while the worker runs: start it anew")
        time.sleep(1.5)
        assert worker.status()["name"] == group_of(tmp_path)
