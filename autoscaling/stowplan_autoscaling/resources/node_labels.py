"""Labels and taints that nodes are given, by pools, instance types and node groups: what an API server would refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan_autoscaling.inputs.decode import field_path
from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.supply.pools import (
    ARCH_LABEL,
    HOSTNAME_LABEL,
    INSTANCE_TYPE_LABEL,
    OS_LABEL,
    POOL_LABEL,
    ZONE_LABEL,
)
from stowplan_scheduler.names import label_key_errors, label_value_errors

from .cluster import NodeGroup, Taint
from .node_groups import GROUP_LABEL

_SET_ELSEWHERE: Final = {
    POOL_LABEL: "the name of the pool sets it",
    GROUP_LABEL: "it belongs to spec.cluster.nodeGroups",
    HOSTNAME_LABEL: "each node has its own name",
    ZONE_LABEL: "zones of the pool set it",
    INSTANCE_TYPE_LABEL: "the name of the instance type sets it",
    ARCH_LABEL: "architecture of the instance type sets it",
    OS_LABEL: "os of the instance type sets it",
}
"""Labels of nodes that follow from other fields."""

_KARPENTER_DOMAIN: Final = "karpenter.sh"


def check_group(group: NodeGroup, field: str) -> None:
    """The labels, taints and zones of a node group, which may set any label. Raises FieldError."""
    for key, value in group.labels.items():
        _check_key(key, f"{field}.labels")
        check_value(value, field_path(f"{field}.labels", key))
    check_taints(group.taints, f"{field}.taints")
    for index, zone in enumerate(group.zones):
        check_value(zone, f"{field}.zones[{index}]")
    check_value(group.instance_type, f"{field}.instanceType")


def check_labels(labels: Mapping[str, str], field: str) -> None:
    """Of a pool or an instance type: none that follows from another field. Raises FieldError."""
    for key, value in labels.items():
        _check_key(key, field)
        if key in _SET_ELSEWHERE:
            raise FieldError(field, f"{shown(key)}: cannot be set here: {_SET_ELSEWHERE[key]}")
        domain, slash, _ = key.partition("/")
        if slash and f".{domain}".endswith(f".{_KARPENTER_DOMAIN}"):
            message = "cannot be set here: it is Karpenter's own; name and capacityTypes of the pool set such labels"
            raise FieldError(field, f"{shown(key)}: {message}")
        check_value(value, field_path(field, key))


def check_taints(taints: Sequence[Taint], field: str) -> None:
    """Keys, values, and each key and effect once. Raises FieldError."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        _check_key(taint.key, f"{field}[{index}].key")
        check_value(taint.value, f"{field}[{index}].value")
        if (taint.key, taint.effect) in seen:
            raise FieldError(f"{field}[{index}]", f"{taint.key}:{taint.effect}: occurs twice")
        seen.add((taint.key, taint.effect))


def check_value(value: str, field: str) -> None:
    """What is to be the value of a label. Raises FieldError."""
    for error in label_value_errors(value):
        raise FieldError(field, f"{shown(value)}: {error}")


def _check_key(key: str, field: str) -> None:
    for error in label_key_errors(key):
        raise FieldError(field, f"{shown(key)}: {error}")
