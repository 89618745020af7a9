"""Whatever dies or hangs while pods are being placed: afterwards each of them is bound, and was bound exactly once.

The API server's audit log says what was bound. The worker has the rights of its ServiceAccount and no more, so after a
restart of the API server it is refused (403) for a moment, as in life, and finds its versions too old (410). Moments
are drawn from a seed that a failure shows.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from integration.control_plane import API_SERVER, ETCD
from integration.fault_seeds import MORE
from integration.kube_api import KubeApi, sure
from integration.scheduling_load import NAMESPACE
from integration.worker_account import ACCOUNT
from integration.worker_bench import NODES, Bench, Load, bound_once, open_bench
from integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.rig, pytest.mark.slow]


@pytest.fixture(scope="module")
def bench(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(rig, tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize("seed", [1, 2, *MORE])
def test_a_worker_that_is_killed_and_started_again(bench: Bench, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Load(bench.plane, f"killed-{seed}") as load, bench.worker(tmp_path) as worker:
        for _ in range(2):
            worker.wait_leading()
            load.wait_created(5)
            time.sleep(rng.uniform(0.0, 0.5))
            worker.kill()
            worker.start()
        worker.wait_leading()
        bound_once(bench, worker, load, answers_lost=True)


@pytest.mark.parametrize(
    ("program", "seed"),
    [(API_SERVER, 3), (API_SERVER, 4), (ETCD, 5), *product((API_SERVER, ETCD), MORE)],
)
def test_an_api_server_or_etcd_that_is_killed_and_started_again(
    bench: Bench, tmp_path: Path, program: str, seed: int
) -> None:
    rng = random.Random(seed)
    with Load(bench.plane, f"restarted-{seed}") as load, bench.worker(tmp_path) as worker:
        worker.wait_leading()
        load.wait_created(10)
        time.sleep(rng.uniform(0.0, 0.5))
        bench.plane.kill(program)
        time.sleep(rng.uniform(0.2, 2.0))
        bench.plane.restart(program)
        load.wait_created(20)
        bound_once(bench, worker, load, answers_lost=True)
        assert worker.process is not None
        assert worker.process.poll() is None, "the worker itself must not have ended"


def test_an_api_server_that_hangs_for_longer_than_the_lease(bench: Bench, tmp_path: Path) -> None:
    """Bindings without an answer are read back; the worker stops leading, and leads again."""
    with Load(bench.plane, "frozen") as load, bench.worker(tmp_path) as worker:
        worker.wait_leading()
        load.wait_created(10)
        bench.plane.freeze(API_SERVER)
        time.sleep(5)
        assert not worker.status()["leading"]
        bench.plane.thaw(API_SERVER)
        load.wait_created(20)
        bound_once(bench, worker, load)
        said = [record["msg"] for record in worker.records() if record["logger"].endswith("lease_runner")]
        assert said[:3] == ["leading", "not leading any more", "leading"]


def refusals(worker: WorkerProcess) -> int:
    """How many of its bindings were answered with 409."""
    found = re.search(r'stowplan_binds_total{code="409"} (\d+)', worker.get("/metrics").text)
    return int(found[1]) if found else 0


class ContendedLoad(Load):
    """Binds each pod itself, as soon as it is created: as fast as the worker can, or a little faster."""

    def __init__(self, bench: Bench, seed: int) -> None:
        super().__init__(bench.plane, "contended")
        self._rng = random.Random(seed)

    def after(self, api: KubeApi, name: str) -> None:
        time.sleep(self._rng.uniform(0.0, 0.01))
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{self._rng.randrange(NODES):02d}"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding", binding)


def test_somebody_else_binds_the_same_pods(bench: Bench, tmp_path: Path) -> None:
    """Whoever comes first wins, and the worker keeps right accounts of what others took."""
    with ContendedLoad(bench, seed=6) as load, bench.worker(tmp_path) as worker:
        worker.wait_leading()
        load.wait_created(20)
        worker.until(lambda: refusals(worker) >= 5, "bindings collide", 120)
        bound_once(bench, worker, load)


def test_rights_that_are_taken_away_and_given_back(bench: Bench, tmp_path: Path) -> None:
    """403 for everything: the worker waits, and goes on when it may."""
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT}}
    with (
        contextlib.closing(bench.plane.api) as api,
        Load(bench.plane, "forbidden") as load,
        bench.worker(tmp_path) as worker,
    ):
        held = sure(api.read(kind))
        worker.wait_leading()
        load.wait_created(10)
        sure(api.delete(kind))
        load.wait_created(20)
        sure(api.create({**held, "metadata": kind["metadata"]}))
        load.wait_created(20)
        bound_once(bench, worker, load)
