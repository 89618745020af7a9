"""An installed Stowplan, as its user meets it: kubectl alone, on whatever cluster there is.

With STOWPLAN_KUBECONFIG: the cluster of that file, in which Stowplan runs from its image (deploy/kind/up.sh). Without:
a control plane with the same manifests in it, and the operator as a process with the rights of its account and, as in
the image, a user that is only a number.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.given_cluster import GivenCluster, given_kubeconfig
from integration.kubectl import Kubectl
from integration.operator_bench import operator_bench

pytestmark = [pytest.mark.rig, pytest.mark.any_cluster]

NAMESPACE = "stowplan-installed"
LABELS = {"tests.stowplan.io/installed": "true"}
SCHEDULED = "jsonpath={.spec.nodeName}"


@pytest.fixture(scope="module")
def kubectl(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """kubectl for a cluster with Stowplan in it."""
    folder = tmp_path_factory.mktemp("installed")
    given = given_kubeconfig()
    if given is not None:
        yield Kubectl(GivenCluster(given, folder))
        return
    with (
        operator_bench(request.getfixturevalue("rig"), repository, folder) as bench,
        nameless(folder / "nameless"),
        bench.operator(folder) as operator,
    ):
        operator.wait_acting()
        yield bench.kubectl
        assert operator.stop() == 0


@contextmanager
def nameless(folder: Path) -> Iterator[None]:
    """Programs that are started now run as the image's user: a number without a name and without a home."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(UNKNOWN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as environment:
        for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
            environment.delenv(name, raising=False)
        path = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        yield


UNKNOWN = """
import pwd

def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")

pwd.getpwuid = unknown
"""


@pytest.fixture(scope="module")
def namespace(kubectl: Kubectl) -> Iterator[None]:
    apply(kubectl, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def shop(kubectl: Kubectl, namespace: None) -> Iterator[Kubectl]:
    """What a test makes goes with it."""
    yield kubectl
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    kubectl("delete", "sprof,nodepools.stowplan.io,simulations", "--selector", selector, "--timeout=50s")
    kubectl("delete", "pods,events.events.k8s.io", "--all", "--namespace", NAMESPACE, "--grace-period=0", "--force")


def apply(kubectl: Kubectl, *documents: dict[str, Any]) -> None:
    kubectl("apply", "--filename", "-", stdin=yaml.safe_dump_all(documents))


def profile(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"schedulerName": name, **spec},
    }


def pod(name: str, scheduler: str, **resources: str) -> dict[str, Any]:
    """One that would run in a namespace that takes restricted pods only; whether its image is there is no matter."""
    secure = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    requests = resources or {"cpu": "10m", "memory": "16Mi"}
    container = {"name": "main", "image": "web:1", "resources": {"requests": requests}, "securityContext": secure}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedulerName": scheduler, "automountServiceAccountToken": False, "containers": [container]},
    }


def test_a_preset_is_applied_and_places_pods(shop: Kubectl, repository: Path) -> None:
    """Under a name of its own, since the cluster may have a profile of that name."""
    (preset,) = yaml.safe_load_all((repository / "examples/profiles/pack.yaml").read_text(encoding="utf-8"))
    given = profile("installed-pack", **{**preset["spec"], "schedulerName": "installed-pack"})
    apply(shop, given)
    shop("wait", "--for=condition=Ready", "sprof/installed-pack", "--timeout=50s")
    apply(shop, *(pod(f"p{number}", "installed-pack") for number in range(4)))
    shop("wait", f"--for={SCHEDULED}", "pods", "--all", "--namespace", NAMESPACE, "--timeout=50s")
    pods = shop.get("pods", "--namespace", NAMESPACE)["items"]
    assert len({each["spec"]["nodeName"] for each in pods}) == 1, "they are packed"
    shop("wait", "--for=create", "--namespace", NAMESPACE, "events.events.k8s.io", "--all", "--timeout=50s")
    events = shop.get("events.events.k8s.io", "--namespace", NAMESPACE)["items"]
    assert {each["reportingController"] for each in events if each["reason"] == "Scheduled"} == {"installed-pack"}


def test_a_change_takes_effect_and_a_wrong_one_does_not(shop: Kubectl) -> None:
    """What ran before goes on, and status says what is wrong."""
    apply(shop, profile("installed-change"))
    shop("wait", "--for=condition=Ready", "sprof/installed-change", "--timeout=50s")
    wrong = [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1000}}]
    shop("patch", "sprof/installed-change", "--type=merge", "--patch", json.dumps({"spec": {"pluginConfig": wrong}}))
    shop("wait", "--for=condition=Accepted=False", "sprof/installed-change", "--timeout=50s")
    conditions = shop.get("sprof", "installed-change")["status"]["conditions"]
    (accepted,) = (each for each in conditions if each["type"] == "Accepted")
    assert "hardPodAffinityWeight" in accepted["message"]
    apply(shop, pod("still", "installed-change"))
    shop("wait", f"--for={SCHEDULED}", "pod/still", "--namespace", NAMESPACE, "--timeout=50s")


def test_a_profile_is_paused_and_says_when_all_workers_are(shop: Kubectl, repository: Path) -> None:
    """By the command that docs/deploy.md has for giving a schedulerName back."""
    page = (repository / "docs" / "deploy.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^ +kubectl (wait sprof/.*Paused)$", page, re.MULTILINE)
    apply(shop, profile("installed-pause"))
    shop("wait", "--for=condition=Ready", "sprof/installed-pause", "--timeout=50s")
    apply(shop, profile("installed-pause", rollout={"mode": "Paused"}))
    shop(*shlex.split(command.replace("sprof/main", "sprof/installed-pause")), "--timeout=50s")
    apply(shop, pod("waits", "installed-pause"))
    apply(shop, profile("installed-pause", rollout={"mode": "Active"}))
    shop("wait", f"--for={SCHEDULED}", "pod/waits", "--namespace", NAMESPACE, "--timeout=50s")


def test_a_pod_that_fits_nowhere_says_why_in_kube_scheduler_s_words(shop: Kubectl) -> None:
    """In its condition, for kubectl describe and for autoscalers."""
    apply(shop, profile("installed-full"), pod("huge", "installed-full", cpu="100000"))
    shop("wait", "--for=condition=PodScheduled=False", "pod/huge", "--namespace", NAMESPACE, "--timeout=50s")
    (condition,) = shop.get("pod", "huge", "--namespace", NAMESPACE)["status"]["conditions"]
    nodes = len(shop.get("nodes")["items"])
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(f"0/{nodes} nodes are available: ")
    assert "Insufficient cpu" in condition["message"]


def test_the_other_kinds_are_checked_and_say_so(shop: Kubectl, repository: Path) -> None:
    """A pool as it stands in the examples."""
    text = (repository / "examples/bookshop/node-pools.yaml").read_text(encoding="utf-8")
    pool = next(yaml.safe_load_all(text))
    apply(shop, {**pool, "metadata": {"name": "installed-pool", "labels": LABELS}})
    shop("wait", "--for=condition=Accepted", "nodepools.stowplan.io/installed-pool", "--timeout=50s")
