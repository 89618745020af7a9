"""Nodes of a group: capacity, what pods can have of it, labels and taints, as kubelet would register them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stowplan_autoscaling.cluster.kubelet.allocatable import allocatable
from stowplan_autoscaling.inputs.errors import FieldError
from stowplan_autoscaling.supply.pools import INSTANCE_TYPE_LABEL, ZONE_LABEL
from stowplan_scheduler.quantity import QuantityError, parse_quantity

from .cluster import NodeGroup, Reservations

GROUP_LABEL: Final = "stowplan.io/node-group"
MAX_PODS: Final = "110"
"""kubelet's --max-pods."""


def node_names(group: NodeGroup) -> list[str]:
    """The names of a group's nodes, in order."""
    prefix = group.name_prefix or f"{group.name}-"
    return [f"{prefix}{number}" for number in range(1, group.count + 1)]


def nodes_of(group: NodeGroup, field: str) -> Iterator[dict[str, Any]]:
    """The nodes as objects of the API. `field` is the path of the group. Raises FieldError."""
    capacity = {"pods": MAX_PODS, **group.capacity}
    allocatable = allocatable_of(capacity, group.reserved, field)
    taints = [taint.model_dump(exclude_defaults=True) for taint in group.taints]
    for index, name in enumerate(node_names(group)):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": _labels(group, name, index)},
            "spec": {"taints": taints} if taints else {},
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


def _labels(group: NodeGroup, name: str, index: int) -> dict[str, str]:
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        GROUP_LABEL: group.name,
    }
    if group.instance_type:
        labels[INSTANCE_TYPE_LABEL] = group.instance_type
    if group.zones:
        labels[ZONE_LABEL] = group.zones[index % len(group.zones)]
    return {**labels, **group.labels}


def allocatable_of(capacity: dict[str, str], reserved: Reservations, field: str) -> dict[str, str]:
    """What pods can have of a capacity. `field` is the path of what has both. Raises FieldError."""
    try:
        left = allocatable(
            capacity,
            kube_reserved=reserved.kube,
            system_reserved=reserved.system,
            eviction_hard=reserved.eviction_hard,
        )
    except (QuantityError, ValueError) as error:
        raise FieldError(f"{field}.reserved", str(error)) from None
    for name in ("cpu", "memory"):
        if name in left and parse_quantity(capacity[name]) and not parse_quantity(left[name]):
            raise FieldError(f"{field}.reserved", f"leaves no {name} of {capacity[name]} to pods")
    return left
