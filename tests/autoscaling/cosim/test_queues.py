"""Queues and their workers, KEDA, and metrics that do not come from metrics-server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscaling.cosim.scenes import deployment, hpa, play, scene, steps, visits
from stowplan_autoscaling.demand import Service
from stowplan_autoscaling.results import AutoscalerSample, ServiceSample

WORKER = "Deployment shop/worker"


def orders(series: dict[str, Any], **worker: Any) -> dict[str, Any]:
    """Messages of one second of a core."""
    return {
        "name": "orders",
        "target": {"namespace": "shop", "name": "worker"},
        "series": series,
        "worker": {"cpuPerMessage": "1", **worker},
    }


def external(name: str, value: str, target: int, kind: str = "averageValue") -> list[Any]:
    """One external metric of an HPA."""
    types = {"averageValue": "AverageValue", "value": "Value"}
    return [
        {"type": "External", "external": {"metric": {"name": name}, "target": {"type": types[kind], kind: str(target)}}}
    ]


def test_a_backlog_drains_at_the_pace_of_the_workers(tmp_path: Path) -> None:
    """60 messages wait, two pods do one a second each, nothing comes: from 1.001 s on 30 s."""
    played = play(
        tmp_path,
        scene(deployment("worker", 2), demand=[orders(steps(("0s", 0)), initialBacklog=60)], sampling={"period": "1s"}),
    )
    rows = {row.seconds: row for row in played.rows(ServiceSample)}
    assert rows[11].queue_length == pytest.approx(60 - 2 * (11 - 1.001), abs=0.01)
    assert rows[11].queue_age == pytest.approx(11)
    assert rows[31].queue_length == pytest.approx(0, abs=0.01)
    assert (rows[40].queue_length, rows[40].queue_age) == (0, 0)
    assert played.report.services[0].served == pytest.approx(60)


def test_an_hpa_follows_the_length_of_a_queue(tmp_path: Path) -> None:
    """3 a second come, a pod does 1. The target is 30 waiting messages per pod: pods are added until none waits."""
    metrics: dict[str, Any] = {
        "sources": [{"name": "orders_waiting", "type": "External", "demand": "orders", "value": "QueueLength"}],
        "prometheus": {"scrapeInterval": "15s"},
    }
    simulation = scene(
        deployment("worker"),
        hpa("worker", metrics=external("orders_waiting", "QueueLength", 30)),
        demand=[orders(steps(("0s", 0), ("1m", 3)))],
        duration="20m",
        metrics=metrics,
        nodes=2,
    )
    played = play(tmp_path, simulation)
    (scaler,) = played.report.autoscalers
    assert scaler.scale_ups >= 2
    assert scaler.desired.maximum >= 3
    syncs = played.rows(AutoscalerSample)
    assert all(row.metric == "orders_waiting" and row.target == 30 for row in syncs)
    ages = [row.age for row in syncs if row.value is not None]
    assert len(ages) > 60
    assert all(age is not None and age <= 15.001 for age in ages)
    grown = [pod for pod in played.pods(WORKER) if pod.waiting.autoscaler or pod.waiting.metric]
    assert grown
    assert all(pod.waiting.metric >= 0 and pod.waiting.autoscaler >= 0 for pod in grown)


def test_the_age_of_the_oldest_message_is_an_external_metric_with_freshness(tmp_path: Path) -> None:
    """Scraped every minute; a value older than 30 s is an error, so half of the syncs see none."""
    source = {
        "name": "orders_age",
        "type": "External",
        "demand": "orders",
        "value": "QueueAge",
        "whenStale": "Error",
        "freshFor": "30s",
    }
    simulation = scene(
        deployment("worker"),
        hpa("worker", metrics=external("orders_age", "QueueAge", 100, "value")),
        demand=[orders(steps(("0s", 0)), initialBacklog=500)],
        duration="5m",
        metrics={"sources": [source]},
    )
    syncs = {round(row.seconds): row for row in play(tmp_path, simulation).rows(AutoscalerSample)}
    assert (syncs[75].value, syncs[75].age) == pytest.approx((60, 15))
    assert (syncs[90].value, syncs[90].age) == pytest.approx((60, 30))
    assert (syncs[105].value, syncs[105].reason) == (None, "FailedGetExternalMetric")


def test_requests_per_pod_are_a_custom_metric(tmp_path: Path) -> None:
    """60 a second, 20 per pod wanted: three pods. The rate needs two scrapes of a pod, so it takes a minute or two."""
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "20"}},
    }
    simulation = scene(
        deployment(),
        hpa(metrics=[metric]),
        demand=[visits(steps(("0s", 60)))],
        metrics={
            "sources": [{"name": "rps", "type": "Pods", "demand": "visits", "value": "Rate"}],
            "prometheus": {"scrapeInterval": "15s"},
        },
        nodes=2,
    )
    played = play(tmp_path, simulation)
    assert played.report.workloads[0].ready.final == 3
    last = played.rows(AutoscalerSample)[-1]
    assert (last.value, last.desired) == pytest.approx((20, 3), rel=0.02)


def test_keda_wakes_a_target_from_zero_and_puts_it_to_sleep(tmp_path: Path) -> None:
    """Polls at 1 ms and every 30 s after. Messages come from 65 s on: the poll at 90 s scales to one.

    A second later the pod runs, and 35 messages are done at 126 s. The last active poll is that of 120 s; the cool-down
    of 60 s is over at the poll of 180.001 s.
    """
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "worker", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"name": "worker"},
            "minReplicaCount": 0,
            "maxReplicaCount": 1,
            "cooldownPeriod": 60,
            "triggers": [
                {"type": "rabbitmq", "name": "orders_waiting", "metadata": {"queueName": "orders", "value": "10"}}
            ],
        },
    }
    simulation = scene(
        deployment("worker", 0),
        scaled,
        demand=[orders(steps(("0s", 0), ("65s", 1), ("100s", 0)))],
        metrics={
            "sources": [{"name": "orders_waiting", "type": "External", "demand": "orders", "value": "QueueLength"}]
        },
        nodes=2,
    )
    played = play(tmp_path, simulation)
    assert played.times("KEDAScaleTargetActivated") == [pytest.approx(90.001, abs=1e-3)]
    first = played.pods(WORKER)[0]
    assert first.created == pytest.approx(90.001, abs=1e-3)
    (asleep,) = played.times("KEDAScaleTargetDeactivated")
    assert asleep == pytest.approx(180.001, abs=1e-3)
    assert played.report.workloads[0].ready.final == 0
    assert played.report.services[0].served == pytest.approx(35)
    (scaler,) = played.report.autoscalers
    assert (scaler.autoscaler, scaler.desired.maximum) == ("shop/keda-hpa-worker", 1)


def test_waiting_for_a_pod_that_keda_asked_for_begins_with_the_messages(tmp_path: Path) -> None:
    """Messages come from 65 s on, and the poll of 90 s wakes the workload: up to 25 s, whatever the trigger is called.

    That there are some is seen within five seconds, when the load is looked at. The HPA that
    KEDA makes calls the metric s0-rabbitmq-orders, the source has the name of the trigger.
    """
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "worker", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"name": "worker"},
            "maxReplicaCount": 4,
            "triggers": [{"type": "rabbitmq", "name": "waiting", "metadata": {"queueName": "orders", "value": "10"}}],
        },
    }
    simulation = scene(
        deployment("worker", 0),
        scaled,
        demand=[orders(steps(("0s", 0), ("65s", 4)))],
        metrics={"sources": [{"name": "waiting", "type": "External", "demand": "orders", "value": "QueueLength"}]},
    )
    played = play(tmp_path, simulation)
    first, *others = played.pods(WORKER)
    assert first.created == pytest.approx(90.001, abs=1e-3)
    assert 20 <= first.waiting.metric + first.waiting.autoscaler <= 25.01
    assert others
    assert all(pod.waiting.metric + pod.waiting.autoscaler > 15 for pod in others)


def test_a_database_caps_what_pods_can_do_however_many_there_are(tmp_path: Path) -> None:
    """10 connections held for 100 ms: 100 requests a second, of which 200 come; five pods with two each."""
    demand = visits(steps(("0s", 200)), timeout="2s", downstreams=["db"])
    simulation = scene(
        deployment(replicas=8),
        demand=[demand],
        downstreams=[{"name": "db", "connections": {"pool": 10, "perPod": 2, "held": "100ms"}}],
    )
    played = play(tmp_path, simulation)
    assert played.rows(ServiceSample)[-1].served == pytest.approx(100)
    model = played.run.assembly.loads.entries["visits"].model
    assert isinstance(model, Service)
    assert model.sample().limited_by == "db"
