"""Nodes that report, fall silent and are tainted in scenarios of mode `workloads`, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_autoscaling.conformance.workloads import run_workloads

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def node(name: str, cpu: str = "2") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}


def deployment(name: str, replicas: int, seconds: int = 20) -> dict[str, Any]:
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]
    container = {"name": "app", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"containers": [container], "tolerations": tolerations, "nodeSelector": {"kubernetes.io/hostname": "n1"}}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


def run(*script: dict[str, Any], deployments: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Two nodes, of which only n1 takes pods. They start in 2 s, are ready in 3 s and take 4 s to stop."""
    n1, n2 = node("n1"), node("n2")
    n1["metadata"]["labels"] = {"kubernetes.io/hostname": "n1"}
    return run_workloads(
        {
            "id": "s",
            "until": 200,
            "cycle": 0.001,
            "hpaStart": 0,
            "sample": 10,
            "kubelet": {"startup": 2, "ready": 3, "terminate": 4},
            "metrics": {"interval": 15, "window": 15},
            "objects": {"nodes": [n1, n2], "deployments": deployments},
            "script": script,
            **fields,
        }
    )


def taints(found: dict[str, Any]) -> list[tuple[float, str]]:
    return [(event["t"], event["message"]) for event in found["events"] if event["type"] == "taints"]


def test_a_node_that_reports_not_ready_and_ready_again() -> None:
    """Not ready at 12 s: NoSchedule at once; seen by the check of 15 s, NoExecute at the next tick of 0.1 s.

    Ready again at 28 s: NoSchedule goes at once, NoExecute with the check of 30 s, before the 20 s of pods are over.
    Whether they are ready is what this kubelet says: the controller leaves them alone.
    """
    found = run(
        {"t": 12, "op": "nodeReady", "name": "n1"},
        {"t": 28, "op": "nodeReady", "name": "n1", "on": True},
        deployments=[deployment("web", 2)],
        nodeLifecycle=True,
        sample=4,
    )
    assert taints(found) == [
        (11.999, f"{NOT_READY}:NoSchedule"),
        (15.1, f"{NOT_READY}:NoExecute,{NOT_READY}:NoSchedule"),
        (27.999, f"{NOT_READY}:NoExecute"),
        (30.0, ""),
    ]
    assert [(entry["t"], entry["deployments"]["web"][2]) for entry in found["timeline"][1:8]] == [
        (8, 2), (12, 2), (16, 2), (20, 2), (24, 2), (28, 2), (32, 2),
    ]  # fmt: skip
    assert all("deleted" not in pod for pod in found["pods"])


def test_what_a_silent_kubelet_does_shows_when_it_is_heard_again() -> None:
    """Silent from 13 s. The lease of 11.7 s was noticed at 15 s, so the check of 65 s is the first one too late.

    Its pod is not ready from then. It is deleted 20 s after the NoExecute taint of 65.1 s and has stopped at 89.1 s,
    which shows at 100 s only.
    """
    found = run(
        {"t": 13, "op": "nodeSilent", "name": "n1", "on": True},
        {"t": 100, "op": "nodeSilent", "name": "n1"},
        deployments=[deployment("web", 1)],
        nodeLifecycle=True,
    )
    assert taints(found)[:3] == [
        (65.0, f"{UNREACHABLE}:NoSchedule"),
        (65.1, f"{UNREACHABLE}:NoExecute,{UNREACHABLE}:NoSchedule"),
        (99.999, f"{UNREACHABLE}:NoExecute"),
    ]
    ready = {entry["t"]: entry["deployments"]["web"][2] for entry in found["timeline"]}
    assert (ready[60], ready[70]) == (1, 0)
    first = found["pods"][0]
    assert (first["running"], first["ready"], first["deleted"], first["gone"]) == (2.001, 5.001, 85.1, 99.999)


def test_a_pod_that_starts_during_the_silence_runs_after_it() -> None:
    """Bound at 1 ms, it would run at 2 s; its node is silent from 1 to 30 s, and it is ready 3 s after that."""
    found = run(
        {"t": 1, "op": "nodeSilent", "name": "n1", "on": True},
        {"t": 30, "op": "nodeSilent", "name": "n1"},
        deployments=[deployment("web", 1)],
        nodeLifecycle=True,
    )
    assert taints(found) == []
    assert (found["pods"][0]["running"], found["pods"][0]["ready"]) == (29.999, 32.999)


@pytest.mark.parametrize("watched", ["nodeLifecycle", "taintEviction"])
def test_pods_of_a_tainted_node_go_in_the_order_of_their_owners(watched: str) -> None:
    """All of them at once, 20 s after the taint: those of `api` first, though `web` was there before."""
    found = run(
        {"t": 50, "op": "taint", "name": "n1", "taint": {"key": "flood", "effect": "NoExecute"}},
        deployments=[deployment("web", 2), deployment("api", 1)],
        until=72,
        **{watched: True},
    )
    assert taints(found) == [(49.999, "flood:NoExecute")]
    assert [pod["deleted"] for pod in found["pods"][:3]] == [69.999] * 3
    made = [pod["name"] for pod in found["pods"][3:]]
    assert made == ["api-2", "web-3", "web-4"]


def test_without_these_fields_nobody_looks_at_the_nodes() -> None:
    """As in the scenarios that were recorded before: a NoExecute taint is then the scheduler's affair alone."""
    taint = {"t": 50, "op": "taint", "name": "n1", "taint": {"key": "flood", "effect": "NoExecute"}}
    found = run(taint, deployments=[deployment("web", 1)])
    assert taints(found) == []
    assert [pod["name"] for pod in found["pods"]] == ["web-1"]
    assert "deleted" not in found["pods"][0]
