"""Our worker and the real kube-scheduler on one cluster, each with its own pods; nodes and kubelets by kwok.

Two schedulers cannot see each other's decisions before they are bound: in that moment both may take the last room of
a node, here as with two kube-schedulers. A real kubelet refuses such a pod. Where there is room left, as here, no node
may come out with more than it has.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import pytest

from integration.control_plane import CONTROLLER_MANAGER, SCHEDULER, ControlPlane
from integration.scheduling_load import NAMESPACE, create_all, node, overcommitted, pod, pods_of, wait_bound
from integration.worker_process import WorkerProcess, worker_configuration
from live.peers import Peers

pytestmark = [pytest.mark.rig, pytest.mark.slow]

OURS: Final = "dense"
THEIRS: Final = "default-scheduler"
NODES: Final = 50
PODS: Final = 1000
"""Of each scheduler."""


def test_2000_pods_of_two_schedulers_fit_on_the_nodes(rig: Path, kwok: Path, tmp_path: Path) -> None:
    """16 cores for each of 50 nodes; 2,000 pods ask for 0.3 cores on average: three quarters of all there is."""
    with (
        ControlPlane(rig, tmp_path, components=(CONTROLLER_MANAGER, SCHEDULER)) as plane,
        Peers(plane, kwok.parent) as peers,
        contextlib.closing(plane.api) as api,
    ):
        peers.start_kwok()
        nodes = [node(f"node-{number:02d}", cpu="16", memory="64Gi", fake=True) for number in range(NODES)]
        create_all(plane, nodes)
        with WorkerProcess(plane, tmp_path, worker_configuration(OURS)) as worker:
            worker.wait_leading()
            create_all(
                plane,
                (
                    pod(f"{kind}-{number:04d}", scheduler, cpu=f"{100 * (1 + number % 5)}m", memory="256Mi")
                    for number in range(PODS)
                    for kind, scheduler in (("ours", OURS), ("theirs", THEIRS))
                ),
            )
            pods = wait_bound(api, 2 * PODS)
            bound = len([each for each in pods_of(api, OURS) if each["spec"]["nodeName"]])
            assert worker.status()["error"] == ""

            assert overcommitted(api.all("v1", "Node", ""), pods) == {}
            assert bound == PODS
            # Pods of ours ran through our worker, the others did not: the events say who reports.
            events = api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events").body["items"]
            scheduled = {
                (each["regarding"]["name"].partition("-")[0], each["reportingController"])
                for each in events
                if each["reason"] == "Scheduled"
            }
            assert scheduled == {("ours", OURS), ("theirs", THEIRS)}
