"""A worker without rights, or without a cluster: it goes on trying, and says once what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.accounts import kubeconfig_of
from integration.control_plane import API_SERVER, ControlPlane
from integration.kube_api import Manifest, sure
from integration.worker_account import worker_kubeconfig
from integration.worker_process import NAMESPACE, WorkerProcess, worker_configuration

pytestmark = [pytest.mark.rig, pytest.mark.slow]

LACKS, HAS = "this worker cannot work", "what this worker needs is there now"


@pytest.fixture(scope="module")
def plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(rig, tmp_path_factory.mktemp("self-check"), components=()) as made:
        yield made


def told(worker: WorkerProcess) -> list[tuple[str, str]]:
    """What it said about itself, level and text."""
    return [(each["level"], each.get("error", "")) for each in worker.records() if each["msg"] in {LACKS, HAS}]


def noise(worker: WorkerProcess) -> list[str]:
    """All else that it complained about."""
    loud = [each for each in worker.records() if each["level"] in {"warning", "error"} and each["msg"] != LACKS]
    return [each["msg"] for each in loud]


def test_a_worker_that_lacks_rights_says_which_and_works_when_it_gets_them(plane: ControlPlane, tmp_path: Path) -> None:
    account: Manifest = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "bare", "namespace": NAMESPACE},
    }
    binding: Manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bare"},
        "subjects": [{"kind": "ServiceAccount", **account["metadata"]}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }
    with closing(plane.api) as api:
        sure(api.create(account))
        kubeconfig = kubeconfig_of(plane, "bare", NAMESPACE, tmp_path)
        with WorkerProcess(plane, tmp_path, worker_configuration("dense"), kubeconfig=kubeconfig) as worker:
            worker.until(lambda: bool(told(worker)), "it says what it lacks")
            code, text = worker.get("/readyz")
            assert code == 500
            assert "[-]cluster failed: the worker may not: list/watch namespaces, list/watch services, " in text
            assert "create pods/binding" in worker.status()["problem"]
            assert worker.get("/livez").code == 200
            sure(api.create(binding))
            worker.wait_ready()
            worker.wait_leading()
            worker.until(lambda: worker.status()["problem"] == "", "nothing is missing")
            (lacks, has) = told(worker)
            assert lacks[0] == "error"
            assert has == ("info", "")
            # One line for each kind that could not be listed, not one for each try.
            assert len(noise(worker)) <= 10 + 1
            assert worker.stop() == 0
        sure(api.delete(binding))


def test_a_worker_whose_account_has_its_rights_says_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = worker_kubeconfig(plane, tmp_path)
    with WorkerProcess(plane, tmp_path, worker_configuration("dense", name="quiet"), kubeconfig=kubeconfig) as worker:
        worker.wait_ready()
        worker.wait_leading()
        assert worker.stop() == 0
        assert (told(worker), noise(worker)) == ([], [])


def test_a_worker_whose_lease_has_no_namespace_is_told_to_make_it(plane: ControlPlane, tmp_path: Path) -> None:
    configuration = worker_configuration("dense", lease={"namespace": "nowhere"})
    with WorkerProcess(plane, tmp_path, configuration) as worker:
        worker.until(lambda: bool(told(worker)), "it says what it lacks")
        expected = "there is no namespace nowhere for its Lease: kubectl create namespace nowhere"
        assert told(worker) == [("error", expected)]
        assert f"[-]cluster failed: {expected}" in worker.get("/readyz").text
        assert worker.stop() == 0


def test_a_worker_that_starts_before_its_cluster_says_so_once(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kill(API_SERVER)
    with WorkerProcess(plane, tmp_path, worker_configuration("dense")) as worker:
        worker.until(lambda: bool(told(worker)), "it says what it lacks")
        assert "does not answer" in worker.status()["problem"]
        assert noise(worker) == ["the API server does not answer"]
        plane.restart(API_SERVER)
        worker.wait_ready()
        worker.wait_leading()
        worker.until(lambda: len(told(worker)) == 2, "nothing is missing")
        assert worker.stop() == 0
