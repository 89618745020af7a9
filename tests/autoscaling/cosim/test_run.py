"""The run itself: the same bytes each time, stops, bounds, refusals."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoscaling.cosim.scenes import deployment, hpa, play, scene, steps, visits
from stowplan_autoscaling.cosim import run
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import (
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    MemorySink,
    PodRecord,
    UnfinishedError,
    WorkloadSample,
)
from support.simulations import write

RUN = """
import sys
from stowplan_autoscaling.cosim import run
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import FolderSink
with FolderSink(sys.argv[2]) as sink:
    run(load_simulation(sys.argv[1]), sink=sink)
"""


def lively() -> dict[str, Any]:
    """Something of everything that chance has a hand in."""
    jobs = {
        "name": "resize",
        "series": {"constant": {"value": 6}, "per": "1m"},
        "jobs": {
            "namespace": "shop",
            "runTime": {"median": "40s", "sigma": "0.5"},
            "template": {
                "spec": {
                    "ttlSecondsAfterFinished": 30,
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [
                                {"name": "main", "image": "r:1", "resources": {"requests": {"cpu": "500m"}}}
                            ],
                        }
                    },
                }
            },
        },
    }
    series = {"diurnal": {"low": 50, "high": 200, "peak": "5m", "period": "10m", "noise": "0.2", "noiseStep": "10s"}}
    return scene(
        deployment(replicas=2),
        hpa(),
        demand=[visits(series, warmup={"duration": "30s", "factor": 2}), jobs],
        nodes=3,
        cpu="4",
        seed=7,
        faults=[{"at": "2m", "duration": "3m", "nodeLost": {"names": ["node-1"]}}],
        metrics={"server": {"chance": {"missing": "0.1"}}},
        kubelet={"images": [{"name": "web:1", "size": "100Mi"}, {"name": "r:1", "size": "50Mi"}]},
        slo=[{"name": "fast", "demand": "visits", "latency": "100ms"}],
    )


def test_the_same_seed_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Whatever the order of Python's sets is in it."""
    path = write(tmp_path, lively())
    folders = [tmp_path / f"out-{number}" for number in (1, 2)]
    for number, folder in enumerate(folders):
        environment = {**os.environ, "PYTHONHASHSEED": str(number + 1)}
        subprocess.run([sys.executable, "-c", RUN, path, str(folder)], check=True, env=environment)
    names = sorted(str(file.relative_to(folders[0])) for file in folders[0].rglob("*") if file.is_file())
    assert len(names) == 12
    same, other, failed = filecmp.cmpfiles(folders[0], folders[1], names, shallow=False)
    assert (same, other, failed) == (names, [], [])


def test_another_seed_gives_other_luck(tmp_path: Path) -> None:
    """Not the same arrivals."""
    simulations = [lively(), lively()]
    simulations[1]["spec"]["seed"] = 8
    first, second = (play(tmp_path, each).report.services[1].offered for each in simulations)
    assert first != second


def test_a_run_that_is_told_to_stop_keeps_what_is_finished(tmp_path: Path) -> None:
    """After two minutes of virtual time; the pods that are there have their rows."""
    reached: list[float] = []
    sink = MemorySink()
    loaded = load_simulation(write(tmp_path, scene(deployment(replicas=2))))
    report = run(loaded, progress=reached.append, stop=lambda: bool(reached) and reached[-1] >= 120, sink=sink)
    assert (report.complete, report.stopped) == (False, "interrupted")
    assert 120 <= report.reached <= 130
    assert len([row for row in sink.rows if isinstance(row, PodRecord)]) == 2
    assert sink.reports[-1] == report


def test_too_many_pods_end_a_run_with_the_name_of_the_bound(tmp_path: Path) -> None:
    """A Deployment of five where three are allowed."""
    simulation = scene(deployment(replicas=5), bounds={"pods": 3})
    with pytest.raises(UnfinishedError, match=r"spec\.bounds\.pods: more than 3 pods exist") as caught:
        run(load_simulation(write(tmp_path, simulation)), sink=MemorySink())
    assert caught.value.report.stopped == "too many pods"


def test_what_never_settles_ends_with_the_name_of_the_bound(tmp_path: Path) -> None:
    """Twenty things in one millisecond are few: the start alone has more."""
    simulation = scene(deployment(replicas=5), bounds={"eventsPerInstant": 20})
    with pytest.raises(UnfinishedError, match=r"spec\.bounds\.eventsPerInstant: at 0\.\d+ s: more than 20 things"):
        run(load_simulation(write(tmp_path, simulation)), sink=MemorySink())


def test_a_quota_refuses_pods_and_lets_them_in_when_it_is_raised(tmp_path: Path) -> None:
    """Two pods of a core fit into two cores; the third is refused again and again, with a growing back-off."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "cores", "namespace": "shop"},
        "spec": {"hard": {"requests.cpu": "2"}},
    }
    played = play(tmp_path, scene(quota, deployment(replicas=3), demand=[visits(steps(("0s", 10)))], duration="2m"))
    assert len(played.pods("Deployment shop/web")) == 2
    refused = [event for event in played.sink.events if event.reason == "FailedCreate"]
    assert len(refused) >= 8
    assert "exceeded quota: cores, requested: requests.cpu=1, used: requests.cpu=2, limited: requests.cpu=2" in (
        refused[0].message
    )
    (workload,) = played.report.workloads
    assert (workload.replicas.maximum, workload.ready.maximum) == (3, 2)


def test_an_object_that_the_api_server_refuses_is_an_event(tmp_path: Path) -> None:
    """A bare pod of a priority class that is not there; all else goes on."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lost", "namespace": "shop"},
        "spec": {"priorityClassName": "nowhere", "containers": [{"name": "main"}]},
    }
    played = play(tmp_path, scene(deployment(), pod, duration="1m"))
    (event,) = [event for event in played.sink.events if event.object == "Pod shop/lost"]
    assert (event.reason, event.source) == ("FailedCreate", "stowplan")
    assert "no PriorityClass with name nowhere was found" in event.message
    assert len(played.rows(PodRecord)) == 1


def test_watch_latency_delays_every_hand_over(tmp_path: Path) -> None:
    """100 ms to each: deployment, replica set, and scheduler controllers see the object before; then the kubelet.

    The ReplicaSet is seen at 0.1 s and its pod made; the scheduler sees that at 0.2 s and binds it at 0.201 s; the
    kubelet sees it at 0.301 s and has the sandbox at 1.301 s.
    """
    (pod,) = play(tmp_path, scene(deployment(), controllers={"watchLatency": "100ms"}, duration="1m")).pods(
        "Deployment shop/web"
    )
    assert (pod.created, pod.scheduled, pod.ready) == pytest.approx((0.1, 0.201, 1.301), abs=1e-5)


def test_pods_of_a_snapshot_stay_where_they_are(tmp_path: Path) -> None:
    """They run from the start, as ready as the dump says; their controllers adopt them and make no others."""
    owner = {"apiVersion": "apps/v1", "controller": True}
    replica_set = deployment(replicas=1)
    replica_set |= {
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "uid": "rs-1",
            "labels": {"app": "web"},
            "ownerReferences": [{**owner, "kind": "Deployment", "name": "web", "uid": "d-1"}],
            "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
    }
    web = deployment(replicas=1)
    web["metadata"]["uid"] = "d-1"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1-abcde",
            "namespace": "shop",
            "uid": "p-1",
            "labels": {"app": "web"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{**owner, "kind": "ReplicaSet", "name": "web-1", "uid": "rs-1"}],
        },
        "spec": {**web["spec"]["template"]["spec"], "nodeName": "node-2"},
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:01Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
        },
    }
    simulation = scene(web, replica_set, pod, nodes=3, demand=[visits(steps(("0s", 50)))], duration="2m")
    played = play(tmp_path, simulation)
    assert [(row.pod, row.node, row.end) for row in played.rows(PodRecord)] == [
        ("shop/web-1-abcde", "node-2", "Running")
    ]
    (service,) = played.report.services
    assert service.failed == 0
    assert service.served == pytest.approx(50 * 120)


def test_in_a_lively_run_every_number_is_plausible(tmp_path: Path) -> None:
    """Parts of waiting are never negative and sum to the whole; times of a pod are in order; states add up to pods."""
    played = play(tmp_path, lively())
    pods = played.rows(PodRecord)
    assert len(pods) > 50
    for pod in pods:
        assert min(pod.waiting) >= -1e-9, pod
        times = [pod.created, pod.scheduled, pod.started, pod.ready]
        known = [time for time in times if time is not None]
        assert known == sorted(known), pod
        if pod.ready is not None:
            before = pod.waiting.metric + pod.waiting.autoscaler + pod.waiting.controller
            assert sum(pod.waiting) == pytest.approx(pod.ready - pod.created + before, abs=1e-6)
    for row in played.rows(WorkloadSample):
        assert row.pods == row.pending + row.starting + row.ready
        assert row.terminating >= 0
    for whole in played.rows(ClusterSample):
        workloads = [each for each in played.rows(WorkloadSample) if each.seconds == whole.seconds]
        assert whole.pods == sum(each.pods for each in workloads)
        assert whole.cpu_used == pytest.approx(sum(each.cpu_used for each in workloads))
        assert whole.cpu_used <= 12
    ends = {pod.end for pod in pods}
    assert {"Succeeded", "Running"} <= ends
    assert {row.result for row in played.rows(AttemptRecord)} >= {"Scheduled"}


def test_workloads_that_have_settled_are_ready_when_the_demand_comes(tmp_path: Path) -> None:
    """A minute before the start: no request is lost, no sample shows fewer pods, and the HPA begins with the demand."""
    simulation = scene(deployment(replicas=2), hpa(), demand=[visits(steps(("0s", 100)))], settle="1m", duration="3m")
    played = play(tmp_path, simulation)
    (service,) = played.report.services
    assert (service.failed, service.offered) == pytest.approx((0, 18_000))
    (workload,) = played.report.workloads
    assert workload.ready.minimum == 2
    assert played.rows(AttemptRecord) == []
    assert [round(pod.created) for pod in played.pods("Deployment shop/web")] == [-60, -60]
    syncs = played.rows(AutoscalerSample)
    assert round(syncs[0].seconds) == 0
    assert syncs[-1].value == 50
