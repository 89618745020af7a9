"""Is a node ready, and since when?

Follows pkg/utils/kubernetes/ready.go of kubernetes-sigs/cluster-autoscaler. Our conditions carry no times: whoever
observes the node tells since when it is as it is.
"""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.objects import Node

_NOT_READY_TAINTS: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
    }
)
_BAD_IF_TRUE: Final = frozenset({"DiskPressure", "NetworkUnavailable"})


def is_ready(node: Node) -> bool:
    """Whether the autoscaler counts the node as ready; a node without the condition Ready is not."""
    ready, found = True, False
    for condition in node.status.conditions:
        if condition.type == "Ready":
            found = True
            ready = ready and condition.status not in {"False", "Unknown"}
        elif condition.type in _BAD_IF_TRUE and condition.status == "True":
            ready = False
    return found and ready and not any(taint.key in _NOT_READY_TAINTS for taint in node.spec.taints)


def is_suspended(node: Node) -> bool:
    """Whether the node has been put to sleep."""
    for condition in node.status.conditions:
        if condition.type == "Suspended":
            return condition.status == "True"
    return False
