"""What a node's conditions say, and what they say when nothing is known of it any more."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.node_faults import READY
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import UNKNOWN
from stowplan_scheduler.objects import Node, NodeCondition

_KUBELET_CONDITIONS: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")


def ready_status(node: Node) -> str | None:
    """The status of the condition Ready; None without it."""
    found = condition_of(node.status.conditions, READY)
    return None if found is None else found.status


def as_unknown(node: Node) -> Node:
    """The node with Unknown in every condition that its kubelet reports, or never reported."""
    held = {condition.type for condition in node.status.conditions}
    conditions = tuple(map(_unknown, node.status.conditions))
    never = tuple(
        NodeCondition(type=kind, status=UNKNOWN, reason="NodeStatusNeverUpdated")
        for kind in _KUBELET_CONDITIONS
        if kind not in held
    )
    return replace(node, status=replace(node.status, conditions=(*conditions, *never)))


def _unknown(condition: NodeCondition) -> NodeCondition:
    if condition.type not in _KUBELET_CONDITIONS or condition.status == UNKNOWN:
        return condition
    return replace(condition, status=UNKNOWN, reason="NodeStatusUnknown")
