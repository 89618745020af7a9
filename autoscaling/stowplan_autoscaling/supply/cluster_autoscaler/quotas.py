"""Cluster-wide limits of cores and memory: how many more nodes of a kind may come, or go.

Follows pkg/resourcequotas of kubernetes-sigs/cluster-autoscaler with the one quota that its flags make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan_scheduler.objects import Node
from stowplan_scheduler.quantity import parse_quantity, value

from .options import AutoscalingOptions

QUOTA_ID: Final = "cluster-wide"

_VIRTUAL_KUBELET: Final = ("type", "virtual-kubelet")


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """`allowed`: how many of the nodes fit in; `exceeded`: the resources that do not allow all of them."""

    allowed: int
    exceeded: tuple[str, ...]


def cores_and_memory(node: Node) -> dict[str, int]:
    """A node's capacity in whole cores, rounded up, and bytes."""
    capacity = node.status.capacity
    return {name: max(0, value(parse_quantity(capacity.get(name, 0)))) for name in ("cpu", "memory")}


class QuotaTracker:
    """What is left of each resource; grows or shrinks are checked against it and may consume it."""

    def __init__(self, left: Mapping[str, int]) -> None:
        self._left = dict(left)
        self._of_group: dict[str, dict[str, int]] = {}

    @classmethod
    def to_maximum(cls, options: AutoscalingOptions, nodes: Iterable[tuple[Node, str | None]]) -> QuotaTracker:
        """Headroom to grow. `nodes`: with the ids of their groups."""
        tracker = cls({})
        used = tracker._usage(nodes)
        limits = {"cpu": options.max_cores_total, "memory": options.max_memory_total}
        tracker._left = {name: max(0, limit - used[name]) for name, limit in limits.items()}
        return tracker

    @classmethod
    def to_minimum(cls, options: AutoscalingOptions, nodes: Iterable[tuple[Node, str | None]]) -> QuotaTracker:
        """Headroom to shrink."""
        tracker = cls({})
        used = tracker._usage(nodes)
        limits = {"cpu": options.min_cores_total, "memory": options.min_memory_total}
        tracker._left = {name: max(0, used[name] - limit) for name, limit in limits.items()}
        return tracker

    def _usage(self, nodes: Iterable[tuple[Node, str | None]]) -> dict[str, int]:
        used = {"cpu": 0, "memory": 0}
        key, kind = _VIRTUAL_KUBELET
        for node, group_id in nodes:
            if node.metadata.labels.get(key) != kind:
                for name, amount in self._resources(node, group_id).items():
                    used[name] += amount
        return used

    def _resources(self, node: Node, group_id: str | None) -> dict[str, int]:
        """Of a group, the first node that is asked about stands for all."""
        if group_id is None:
            return cores_and_memory(node)
        found = self._of_group.get(group_id)
        if found is None:
            found = self._of_group[group_id] = cores_and_memory(node)
        return found

    def check(self, node: Node, group_id: str, count: int) -> QuotaCheck:
        """How many of `count` nodes like this one are allowed."""
        allowed, exceeded = count, []
        for name, amount in self._resources(node, group_id).items():
            left = self._left.get(name)
            if amount > 0 and left is not None and left < amount * count:
                allowed = min(allowed, left // amount)
                exceeded.append(name)
        return QuotaCheck(allowed, tuple(exceeded))

    def consume(self, node: Node, group_id: str, count: int) -> QuotaCheck:
        """As `check`; what is allowed as a whole is taken."""
        found = self.check(node, group_id, count)
        if found.allowed == count:
            for name, amount in self._resources(node, group_id).items():
                if name in self._left:
                    self._left[name] = max(self._left[name] - amount * count, 0)
        return found
