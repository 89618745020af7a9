"""What it costs to move pods, and what a node is worth.

Follows pkg/utils/disruption/disruption.go of Karpenter core v1.15.0; PodDeletionCostManagement is off, as by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stowplan_autoscaling.cluster.deletion_order import DELETION_COST
from stowplan_autoscaling.supply.karpenter.instance_types import InstanceType
from stowplan_autoscaling.supply.karpenter.labels import CAPACITY_TYPE, DISRUPTION_COST, ZONE
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.selectors import parse_int64

NODE_COST: Final = 1.0
"""What taking away even an empty node costs."""

_COST_SCALE: Final = 2.0**27
_PRIORITY_SCALE: Final = 2.0**25
_LIMIT: Final = 10.0
_INT32: Final = range(-(2**31), 2**31)


def eviction_cost(pod: Pod) -> float:
    """What moving the pod costs, between -10 and 10: 1, more or less by annotation and priority.

    The annotation is karpenter.sh/disruption-cost, or without it the pod deletion cost; a value that is no 32-bit
    integer is ignored.
    """
    cost = 1.0
    annotations = pod.metadata.annotations
    text = annotations.get(DISRUPTION_COST, annotations.get(DELETION_COST))
    if text is not None:
        number = parse_int64(text)
        if number is not None and number in _INT32:
            cost += number / _COST_SCALE
    if pod.spec.priority is not None:
        cost += pod.spec.priority / _PRIORITY_SCALE
    return min(max(cost, -_LIMIT), _LIMIT)


def disruption_cost(pods: Iterable[Pod]) -> float:
    """What taking a node away costs: 1, and what its pods cost above 0."""
    cost = NODE_COST
    for pod in pods:
        is_plain = not pod.metadata.annotations and not pod.spec.priority
        cost += 1.0 if is_plain else max(0.0, eviction_cost(pod))
    return cost


def node_price(labels: Mapping[str, str], instance_type: InstanceType | None) -> float:
    """The price per hour of a node with these labels; 0 where the type or the offering is not known."""
    if instance_type is None:
        return 0.0
    return instance_type.price(labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")) or 0.0
