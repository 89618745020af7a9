"""Jobs that come by chance, at times, from a recording; and pods that belong to other kinds of workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaling.cosim.scenes import play, scene
from stowplan_autoscaling.results import ServiceSample, WorkloadSample

POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "task:1", "resources": {"requests": {"cpu": "1"}}}],
}


def resize(series: dict[str, Any], **jobs: Any) -> dict[str, Any]:
    """Jobs of a minute on one core."""
    template = {"spec": {"ttlSecondsAfterFinished": 10, "template": {"spec": POD}}}
    return {
        "name": "resize",
        "series": series,
        "jobs": {"namespace": "shop", "runTime": {"median": "1m"}, "template": template, **jobs},
    }


def test_jobs_run_as_long_as_their_work_takes(tmp_path: Path) -> None:
    """One at 100 s: a millisecond to the node, a second for the sandbox, a minute of work, at most one to be seen."""
    series = {"constant": {"value": 36}, "per": "1h"}
    played = play(tmp_path, scene(demand=[resize(series, arrivals="Even")], duration="199s"))
    (pod,) = played.pods("Job shop/resize")
    assert pod.created == pytest.approx(100, abs=1e-4)
    assert pod.started == pytest.approx(101.001, abs=1e-4)
    assert pod.end == "Succeeded"
    assert pod.ended is not None
    assert 161.001 <= pod.ended <= 162.01
    rows = {row.seconds: row for row in played.rows(ServiceSample)}
    assert (rows[105].in_flight, rows[165].in_flight) == (1, 0)
    assert (rows[105].offered, rows[165].served) == pytest.approx((1 / 15, 1 / 15))


def test_tasks_that_share_a_core_take_longer(tmp_path: Path) -> None:
    """Two that want two cores each on a node with two: half the speed, so two minutes instead of one."""
    series = {"steps": {"points": [{"at": "0s", "value": 120}, {"at": "1m", "value": 0}]}, "per": "1m"}
    demand = resize({**series, "scale": "0.017"}, arrivals="Even", cpu="2")
    demand["series"] = {"steps": {"points": [{"at": "0s", "value": 2}, {"at": "1s", "value": 0}]}}
    demand["jobs"]["template"]["spec"]["template"]["spec"] = {
        **POD, "containers": [{"name": "main", "image": "task:1", "resources": {"requests": {"cpu": "100m"}}}]
    }  # fmt: skip
    played = play(tmp_path, scene(demand=[demand], cpu="2", duration="4m"))
    pods = played.pods("Job shop/resize")
    assert len(pods) == 2
    for pod in pods:
        assert pod.started is not None
        assert pod.ended is not None
        assert pod.ended - pod.started == pytest.approx(120, abs=2.1)
    used = max(row.cpu_used for row in played.rows(WorkloadSample))
    assert used == pytest.approx(2)


def test_the_part_of_a_task_that_waits_uses_no_cpu(tmp_path: Path) -> None:
    """A quarter of a minute first; then a core for 45 s."""
    demand = resize({"constant": {"value": 36}, "per": "1h"}, arrivals="Even", wait="0.25")
    played = play(tmp_path, scene(demand=[demand], duration="199s", sampling={"period": "5s"}))
    used = {row.seconds: row.cpu_used for row in played.rows(WorkloadSample)}
    assert (used[105], used[115], used[120], used[160], used[165]) == pytest.approx((0, 0, 1, 1, 0))
    assert played.pods("Job shop/resize")[0].ended == pytest.approx(161.5, abs=0.51)


def test_finished_jobs_and_their_pods_go_when_their_time_is_over(tmp_path: Path) -> None:
    """Ten seconds after the end; the garbage collector takes the pods of Jobs that are gone."""
    series = {"constant": {"value": 6}, "per": "1m"}
    played = play(tmp_path, scene(demand=[resize(series)], duration="10m"))
    server = played.run.assembly.server
    assert played.report.workloads[0].pods_created > 40
    assert len(server.all("Job")) == len(server.all("Pod")) < 20


def test_a_cron_job_runs_by_the_clock(tmp_path: Path) -> None:
    """Every five minutes of the virtual clock, which begins at midnight: at 300 and 600 s, half a minute each."""
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": "shop"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}},
    }
    simulation = scene(cron, duration="12m")
    task = {"target": {"kind": "CronJob", "namespace": "shop", "name": "report"}, "runTime": {"median": "30s"}}
    simulation["spec"]["workloads"]["tasks"] = [task]
    played = play(tmp_path, simulation)
    pods = played.pods("CronJob shop/report")
    assert [round(pod.created) for pod in pods] == [300, 600]
    for pod in pods:
        assert pod.started is not None
        assert pod.ended is not None
        assert pod.ended - pod.started == pytest.approx(30, abs=1.1)


def test_daemon_sets_and_stateful_sets_have_their_pods(tmp_path: Path) -> None:
    """One per node; and one after the other, by number. Pods of the DaemonSet do not make a node count as in use."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    selector = {"matchLabels": {"app": "x"}}
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop"},
        "spec": {"selector": selector, "template": template},
    }
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"replicas": 2, "serviceName": "db", "selector": selector, "template": template},
    }
    played = play(tmp_path, scene(daemon, stateful, nodes=4, duration="1m"))
    assert len(played.pods("DaemonSet shop/agent")) == 4
    first, second = played.pods("StatefulSet shop/db")
    assert (first.pod, second.pod) == ("shop/db-0", "shop/db-1")
    assert first.ready is not None
    assert second.created == pytest.approx(first.ready, abs=1e-4)
    assert played.report.cluster.in_use.final == 2


def test_a_recording_of_objects_is_played(tmp_path: Path) -> None:
    """A Deployment that comes at 0, grows at 10 s and goes at 20 s; stretched to twice the time, begun at 30 s."""

    def web(replicas: int) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
                },
            },
        }

    gone = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    trace = {
        "version": 2,
        "config": {"trackedObjects": {"apps/v1.Deployment": {}}},
        "events": [
            {"ts": 1000, "applied_objs": [web(1)], "deleted_objs": []},
            {"ts": 1010, "applied_objs": [web(3)], "deleted_objs": []},
            {"ts": 1020, "applied_objs": [], "deleted_objs": [gone]},
        ],
        "index": {},
        "pod_lifecycles": {},
    }
    (tmp_path / "trace.sktrace").write_bytes(msgspec.msgpack.encode(trace))
    demand = {"name": "replay", "trace": {"file": "trace.sktrace", "begin": "30s", "stretch": 2}}
    played = play(tmp_path, scene(demand=[demand], duration="2m"))
    pods = played.pods("Deployment shop/web")
    assert [round(pod.created) for pod in pods] == [30, 50, 50]
    assert [pod.end for pod in pods] == ["Deleted"] * 3
    assert all(pod.ended is not None and 70 <= pod.ended <= 75 for pod in pods)
