"""price: what an option costs for what its pods are worth, weighed by how well its nodes suit the size of the cluster.

Follows pkg/expander/price of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import tanh
from typing import Final

from stowplan_autoscaling.supply.cluster_autoscaler.pods import gpu_resource
from stowplan_scheduler.resources import Resource

from .base import Option, PodPrices

_STABILIZER: Final = Resource(milli_cpu=500, memory=500 << 20)
"""A pod whose price is added above and below the line, so that pods without requests do not divide by nothing."""

_NOT_EXISTING: Final = 2.0
_GPU_UNFITNESS: Final = 1000.0

_PREFERRED: Final = ((2, 1000), (6, 2000), (20, 4000), (60, 8000), (200, 16_000))
_LARGEST: Final = 32_000


def preferred_cpu(cluster_size: int) -> int:
    """The milli cores of the node that suits a cluster of so many nodes."""
    return next((cpu for most, cpu in _PREFERRED if cluster_size <= most), _LARGEST)


def suppressed_unfitness(unfitness: float, node_count: int) -> float:
    """Unfitness matters less the more nodes are added."""
    return (unfitness - 1.0) * (1.0 - tanh(float(node_count - 1) / 15.0)) + 1.0


def cheapest(options: Sequence[Option], prices: PodPrices, cluster_size: int) -> list[Option]:
    """Those with the lowest score; groups without a price are passed over."""
    best: list[Option] = []
    lowest = 0.0
    preferred = preferred_cpu(cluster_size)
    for option in options:
        if option.group.price is None:
            continue
        score = _score(option, option.group.price, prices, preferred)
        if not best or score == lowest:
            best.append(option)
            lowest = score
        elif score < lowest:
            best, lowest = [option], score
    return best


def _score(option: Option, price: float, prices: PodPrices, preferred: int) -> float:
    stabilizer = prices.of(_STABILIZER)
    worth = 0.0
    for pod in option.pods:
        worth += prices.of(pod.shape.node_requested)
    money = (price * float(option.node_count) + stabilizer) / (worth + stabilizer)
    node = option.template.node
    cpu = Resource.from_map(node.status.capacity).milli_cpu
    unfitness = max(preferred / cpu, cpu / preferred) if cpu else float("inf")
    suppressed = suppressed_unfitness(unfitness, option.node_count)
    if gpu_resource(node) is not None:
        suppressed = _GPU_UNFITNESS
    score = suppressed * money
    return score if option.group.exists else score * _NOT_EXISTING
