"""Making the pods of a node not ready (MarkPodsNotReady of pkg/controller/util/node/controller_utils.go, v1.37.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_autoscaling.cluster.pods import FALSE, ClusterPod
from stowplan_autoscaling.kernel import whole_seconds

from .taints import Outcome

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client


def mark_not_ready(client: Client, pods: Iterable[ClusterPod]) -> Outcome:
    """Make pods not ready, as they were seen; returns whether one of them had changed meanwhile."""
    failed = False
    server = client.server
    for pod in pods:
        if pod.ready in {"", FALSE}:
            continue
        yield from client.turn()
        stored: ClusterPod | None = server.find("Pod", pod.key)
        if stored is None:
            continue
        if stored.version != pod.version:
            failed = True
        else:
            server.put("Pod", replace(stored, ready=FALSE, ready_since=whole_seconds(client.kernel.now)))
        client.event("Pod", pod, "NodeNotReady", "Node is not ready", warning=True)
    return failed
