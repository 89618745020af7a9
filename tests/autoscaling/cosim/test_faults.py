"""Nodes that fall silent, zones, cordons: what controllers, pods and requests make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscaling.cosim.scenes import deployment, play, scene, steps, visits
from stowplan_autoscaling.results import NodeSample, ServiceSample

WEB = "Deployment shop/web"


def states(rows: list[NodeSample], node: str) -> list[tuple[float, str]]:
    """The states of a node, each with the sample that showed it first."""
    found: list[tuple[float, str]] = []
    for row in rows:
        if row.node == node and (not found or found[-1][1] != row.state):
            found.append((row.seconds, row.state))
    return found


def spread() -> dict[str, Any]:
    """Two replicas that must not share a node."""
    web = deployment(replicas=2)
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    return web


def test_a_lost_node_is_found_out_its_pods_replaced_and_its_requests_lost(tmp_path: Path) -> None:
    """Silent at 60 s. The node is NotReady after 50 s without a lease, at a pass every 5 s: between 105 and 116 s.

    Until then its pod counts as ready, and half of the requests go to it and are lost. 300 s after the taint the pod is
    deleted and another one is made; when the node is heard again, its kubelet removes the old one.
    """
    simulation = scene(
        spread(),
        demand=[visits(steps(("0s", 40)))],
        nodes=3,
        duration="12m",
        faults=[{"at": "1m", "duration": "9m", "nodeLost": {"names": ["node-1"]}}],
        sampling={"period": "5s"},
    )
    played = play(tmp_path, simulation)
    lost = [pod for pod in played.pods(WEB) if pod.node == "node-1"]
    assert len(lost) == 1
    found = states(played.rows(NodeSample), "node-1")
    assert [state for _, state in found] == ["Ready", "NotReady", "Ready"]
    not_ready = found[1][0]
    assert 105 <= not_ready <= 120
    assert 600 <= found[2][0] <= 615
    services = {row.seconds: row for row in played.rows(ServiceSample)}
    assert (services[60].failed, services[60].served) == pytest.approx((0, 40))
    assert (services[90].failed, services[90].served) == pytest.approx((20, 20))
    assert services[not_ready + 10].failed == 0
    replacement = played.pods(WEB)[-1]
    assert not_ready + 290 <= replacement.created <= not_ready + 305
    assert replacement.node == "node-3"
    ended = lost[0].ended
    assert ended is not None
    assert 600 <= ended <= 605
    assert lost[0].end == "NodeLost"
    assert played.report.contention.nodes_lost == 1


def test_a_pod_that_had_finished_before_its_node_was_lost_ended_well(tmp_path: Path) -> None:
    """The Job is done after 11 s, which its node sees within a second. The node falls silent
    at 60 s, and the eviction removes the finished pod, too.
    """
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once", "namespace": "shop"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "once:1"}]}}},
    }
    target = {"kind": "Job", "namespace": "shop", "name": "once"}
    simulation = scene(
        job,
        duration="12m",
        faults=[{"at": "1m", "duration": "9m", "nodeLost": {"names": ["node-1"]}}],
        workloads={"objects": [job], "tasks": [{"target": target, "runTime": {"median": "10s"}}]},
    )
    played = play(tmp_path, simulation)
    (pod,) = played.pods("Job shop/once")
    assert pod.ended == pytest.approx(11.5, abs=0.5)
    assert pod.end == "Succeeded"


def test_a_lost_zone_takes_all_of_its_nodes(tmp_path: Path) -> None:
    """Zone a has nodes 1 and 3."""
    simulation = scene(deployment(), nodes=4, faults=[{"at": "1m", "zoneLost": {"zone": "a"}}])
    simulation["spec"]["cluster"]["nodeGroups"][0]["zones"] = ["a", "b"]
    played = play(tmp_path, simulation)
    silent = {event.object for event in played.sink.events if event.reason == "NodeLost"}
    assert silent == {"Node node-1", "Node node-3"}
    assert played.report.contention.nodes_lost == 2


def test_a_cordoned_node_keeps_its_pods_and_gets_no_more(tmp_path: Path) -> None:
    """Two pods must go to two nodes; while one is cordoned the second pod waits, and its back-off is counted."""
    web = spread()
    simulation = scene(
        web,
        nodes=2,
        duration="3m",
        faults=[{"at": "0s", "duration": "2m", "cordon": {"names": ["node-2"]}}],
        controllers={"scheduler": {"attempt": "10ms"}},
    )
    played = play(tmp_path, simulation)
    first, second = sorted(played.pods(WEB), key=lambda pod: pod.node)
    assert (first.node, second.node) == ("node-1", "node-2")
    assert second.scheduled is not None
    assert second.attempts >= 2
    assert states(played.rows(NodeSample), "node-2") == [(0, "Cordoned"), (120, "Ready")]
