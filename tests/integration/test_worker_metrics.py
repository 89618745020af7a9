"""Metrics beside those of the real kube-scheduler: the same names, types, labels, buckets; and what a worker serves."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from integration.control_plane import API_SERVER, HOST, SCHEDULER, ControlPlane
from integration.kube_api import Manifest, sure
from integration.scheduling_load import create_all, node, pod
from integration.worker_process import WorkerProcess, worker_configuration
from stowplan_operator.worker.metric_table import KUBE_SCHEDULER

pytestmark = [pytest.mark.rig, pytest.mark.slow]

OURS: Final = "dense"
THEIRS: Final = "default-scheduler"
SCHEDULER_FLAGS: Final = (
    # It tells its metrics only to those who may see them, and asks the API server who may.
    *("--authentication-kubeconfig", "kubeconfig", "--authorization-kubeconfig", "kubeconfig"),
    *("--leader-elect=true", "--feature-gates", "SchedulerAsyncAPICalls=true"),
)


SMALL: Final = 80
"""Pods that are simply placed. kube-scheduler measures plugins in one attempt of ten, by chance: one is among them."""


class Family(NamedTuple):
    """What a metric is like, whatever its values are. `buckets`: upper bounds."""

    type: str
    labels: frozenset[str]
    buckets: tuple[float, ...]


@pytest.fixture(scope="module")
def plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    flags = {SCHEDULER: SCHEDULER_FLAGS, API_SERVER: ("--disable-admission-plugins", "TaintNodesByCondition")}
    with ControlPlane(rig, tmp_path_factory.mktemp("metrics"), components=(SCHEDULER,), flags=flags) as made:
        create_all(made, [node("node-a", cpu="4"), node("node-b", cpu="4"), priority_class()])
        yield made


def priority_class() -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }


@pytest.fixture(scope="module")
def worker(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One that has done what there is to count: pods bound, pods that fit nowhere, a preemption."""
    with WorkerProcess(plane, tmp_path_factory.mktemp("worker"), worker_configuration(OURS)) as made:
        made.wait_leading()
        for scheduler in (OURS, THEIRS):
            busy(plane, scheduler)
        yield made


def busy(plane: ControlPlane, scheduler: str) -> None:
    """Pods that fit, one that fits nowhere, one that evicts another: each kind of count."""
    with contextlib.closing(plane.api) as api:
        name = scheduler[:5]
        low = pod(f"{name}-low", scheduler, cpu="3")
        create_all(plane, [pod(f"{name}-{number}", scheduler, cpu="1m", memory="1Mi") for number in range(SMALL)])
        create_all(plane, [pod(f"{name}-huge", scheduler, cpu="64"), low])
        wait_for_node(plane, f"{name}-low")
        other = pod(f"{name}-other", scheduler, cpu="3")
        sure(api.create(other))
        wait_for_node(plane, f"{name}-other")
        sure(api.create(pod(f"{name}-urgent", scheduler, cpu="3", priorityClassName="urgent")))
        wait_for_node(plane, f"{name}-urgent")
        for each in (low, other, pod(f"{name}-urgent", scheduler)):
            api.delete(each)


def wait_for_node(plane: ControlPlane, name: str) -> None:
    done = plane.kubectl("wait", "--for=condition=PodScheduled", f"pod/{name}", "--timeout=60s")
    assert done.returncode == 0, done.stderr


def exposition(plane: ControlPlane) -> str:
    """kube-scheduler's metrics; its certificate is of its own making."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(HOST, plane.scheduler_port, context=context, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {plane.token}"})
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()


def families(text: str) -> dict[str, Family]:
    """What is exposed, by name. A metric without samples is not."""
    found = {}
    for family in text_string_to_metric_families(text):
        labels: set[str] = set()
        buckets: dict[frozenset[tuple[str, str]], list[float]] = defaultdict(list)
        for sample in family.samples:
            labels |= sample.labels.keys() - {"le"}
            if "le" in sample.labels:
                rest = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
                buckets[rest].append(float(sample.labels["le"]))
        if family.samples:
            bounds = tuple(next(iter(buckets.values()))) if buckets else ()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = Family(family.type, frozenset(labels), bounds)
    return found


def test_metrics_with_names_of_kube_scheduler_are_like_kube_schedulers(
    plane: ControlPlane, worker: WorkerProcess
) -> None:
    theirs, ours = families(exposition(plane)), families(worker.get("/metrics").text)
    named = {metric.name for metric in KUBE_SCHEDULER}
    compared = named & theirs.keys() & ours.keys()
    assert {name: ours[name] for name in sorted(compared)} == {name: theirs[name] for name in sorted(compared)}
    # Each metric of the table was compared, but for one that neither of the two has had an occasion for.
    assert named - compared <= {"scheduler_pod_scheduled_after_flush_total"}


def test_counts_are_those_of_what_was_done(worker: WorkerProcess) -> None:
    lines = worker.get("/metrics").text.splitlines()
    for line in (
        'scheduler_schedule_attempts_total{profile="dense",result="scheduled"} 83',
        "scheduler_preemption_attempts_total 1",
        "scheduler_preemption_victims_sum 1.0",
        'scheduler_pending_pods{queue="unschedulable"} 1',
        'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="dense"} 1',
        'scheduler_cache_size{type="nodes"} 2',
        'scheduler_cache_size{type="assumed_pods"} 0',
        'stowplan_binds_total{code="201"} 83',
        'leader_election_master_status{name="stowplan-worker-default"} 1',
    ):
        assert line in lines


def test_the_preempted_pod_was_told_why(plane: ControlPlane, worker: WorkerProcess) -> None:
    """One event about the victim, as kube-scheduler writes it."""
    with contextlib.closing(plane.api) as api:
        events = sure(api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    preempted = {
        (each["reportingController"], each["action"], each["type"], each["note"].partition(" by pod ")[0])
        for each in events
        if each["reason"] == "Preempted"
    }
    assert preempted == {(OURS, "Preempting", "Normal", "Preempted"), (THEIRS, "Preempting", "Normal", "Preempted")}


def test_health_and_documents(worker: WorkerProcess) -> None:
    assert worker.get("/healthz") == (200, "ok")
    assert worker.get("/livez?verbose") == (200, "[+]loop ok\nlivez check passed\n")
    assert worker.get("/readyz?verbose") == (200, "[+]loop ok\n[+]informers ok\nreadyz check passed\n")
    profiles = json.loads(worker.get("/configz").text)["kubescheduler.config.k8s.io"]["profiles"]
    assert [profile["schedulerName"] for profile in profiles] == [OURS]
    status = worker.status()
    assert (status["nodes"], status["leading"], status["synced"], status["error"]) == (2, True, True, "")
    assert status["profiles"][0]["pending"] == 1
