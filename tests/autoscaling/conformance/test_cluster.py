"""Scenarios of recorded timelines: how their objects are read, and one small world worked out by hand."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.apps import Deployment
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.conformance.cluster import decode, run_cluster
from stowplan_autoscaling.inputs.decode import without_nulls

AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}
NODE = {"metadata": {"name": "n1"}, "status": {"capacity": AMOUNTS}}

TEMPLATE = {"metadata": {"name": "auto-"}, "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS}}


def deployment(replicas: int, cpu: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]},
            },
        },
    }


def scenario(**fields: Any) -> dict[str, Any]:
    """Pods start 2 s after their binding and are ready 3 s later; they take 4 s to stop. Reports every 10 s."""
    objects = {"nodes": [NODE], "deployments": [deployment(2)], **fields.pop("objects", {})}
    return {
        "id": "s",
        "until": 60,
        "cycle": 0.001,
        "hpaStart": 0,
        "sample": 10,
        "kubelet": {"startup": 2, "ready": 3, "terminate": 4},
        "metrics": {"interval": 15, "phase": 15, "window": 15},
        "objects": objects,
        **fields,
    }


def test_absent_and_null_are_the_same() -> None:
    """As for the API server, at any depth; other empty values stay."""
    assert without_nulls({"a": None, "b": [{"c": None, "d": 0}], "e": ""}) == {"b": [{"d": 0}], "e": ""}


def test_objects_get_the_defaults_of_the_api_server() -> None:
    """The namespace, a node's allocatable amounts, and the defaults of a template's pods."""
    node = decode(Node, NODE, namespaced=False)
    assert node.status.allocatable == node.status.capacity
    web = decode(Deployment, deployment(2), namespaced=True)
    assert web.metadata.namespace == "default"
    assert web.spec.template.spec.scheduler_name == "default-scheduler"
    other = decode(Deployment, {**deployment(2), "metadata": {"name": "web", "namespace": "x"}}, namespaced=True)
    assert other == replace(other, metadata=replace(other.metadata, namespace="x"))


def test_what_the_api_server_would_refuse_is_no_scenario() -> None:
    """The line says why."""
    hpa = {
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 0, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    refused = run_cluster(scenario(objects={"hpas": [hpa]}))
    assert set(refused) == {"id", "invalid"}
    assert "maxReplicas" in refused["invalid"]
    refused = run_cluster(scenario(scheduler={"kind": "KubeSchedulerConfiguration", "apiVersion": "x/v1"}))
    assert set(refused) == {"id", "invalid"}


def test_two_pods_from_creation_to_readiness() -> None:
    """Cycles of 1 ms: bound at 1 and 2 ms, running 2 s later, ready 3 s after that."""
    found = run_cluster(scenario())
    assert [
        (pod["name"], pod["revision"], pod["created"], pod["scheduled"], pod["running"], pod["ready"], pod["node"])
        for pod in found["pods"]
    ] == [("web-1", 1, 0, 0.001, 2.001, 5.001, "n1"), ("web-2", 1, 0, 0.002, 2.002, 5.002, "n1")]
    assert found["timeline"][0] == {"t": 10, "nodes": 1, "pending": 0, "deployments": {"web": [2, 2, 2, 2]}}
    assert [entry["t"] for entry in found["timeline"]] == [10, 20, 30, 40, 50, 60]
    assert found["hpa"] == []


def test_a_script_scales_and_pods_take_their_time_to_stop() -> None:
    """Down at 20 s, half a millisecond before: deleted then, gone 4 s later. Which of two equals goes the order of
    creation decides.
    """
    found = run_cluster(scenario(script=[{"t": 20, "op": "scale", "name": "web", "n": 1}]))
    (gone,) = [pod for pod in found["pods"] if "gone" in pod]
    assert (gone["deleted"], gone["gone"]) == (19.999, 23.999)
    assert found["timeline"][-1]["deployments"] == {"web": [1, 1, 1, 1]}


def test_a_pod_without_room_makes_the_supply_bring_a_node() -> None:
    """4 cores, 5 pods: the order is placed 2 s after the first failure, the node comes 10 s after that, and the pod is
    tried again when its back-off of a second has long ended. The node goes when it has been empty for 5 s.
    """
    supply = {"batch": 2, "delay": 10, "retry": 5, "idle": 5, "max": 3, "template": TEMPLATE}
    found = run_cluster(
        scenario(
            objects={"deployments": [deployment(5)]},
            supply=supply,
            script=[{"t": 30, "op": "scale", "name": "web", "n": 0}],
        )
    )
    events = [(round(event["t"], 1), event["type"]) for event in found["events"] if event["type"] != "scheduled"]
    assert events == [(0, "nodeAdded"), (0, "unschedulable"), (2, "order"), (12, "nodeAdded"), (39, "nodeRemoved")]
    assert [pod["node"] for pod in found["pods"]].count("n1") == 4
    assert found["timeline"][0]["pending"] == 1


def test_pods_of_a_node_that_is_deleted_go_at_the_second_check() -> None:
    """Deleted at 25 s: missed at 40 s, collected at 80 s; the Deployment replaces the pods then."""
    second = {**TEMPLATE, "metadata": {"name": "n2"}}
    found = run_cluster(
        scenario(
            until=120,
            script=[{"t": 25, "op": "deleteNode", "name": "n1"}, {"t": 26, "op": "addNode", "node": second}],
        )
    )
    assert [(pod["deleted"], pod["gone"]) for pod in found["pods"][:2]] == [(80, 80), (80, 80)]
    assert [(pod["created"], pod["node"]) for pod in found["pods"][2:]] == [(80, "n2"), (80, "n2")]


def test_pods_of_a_node_that_comes_back_are_measured_again() -> None:
    """Ready at 5 s, their first sample that counts is that of 30 s. The node is gone from 40 to 50 s: the scrape at 45
    finds nothing, and no pod is collected.
    """
    hpa = {
        "metadata": {"name": "web"},
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    }
    found = run_cluster(
        scenario(
            objects={"hpas": [hpa]},
            workloads={"web": {"cpu": {"perPod": [[0, 500]]}}},
            script=[{"t": 40, "op": "deleteNode", "name": "n1"}, {"t": 50, "op": "addNode", "node": NODE}],
        )
    )
    active = [(sync["t"], sync["active"] == "ValidMetricFound") for sync in found["hpa"]]
    assert active == [(0, False), (15, False), (30, True), (45, False), (60, True)]
    assert len(found["pods"]) == 2
