"""Node groups that are as good as one: which they are, and how new nodes are spread over them.

Follows pkg/processors/nodegroupset of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan_autoscaling.supply.go_sort import go_sorted
from stowplan_scheduler.objects import Node
from stowplan_scheduler.quantity import milli_value, parse_quantity
from stowplan_scheduler.resources import Resource

from .node_groups import GroupTable, NodeGroup
from .options import AutoscalingOptions
from .templates import HOST_NAME, TemplateNode

IGNORED_LABELS: Final = frozenset(
    {
        HOST_NAME,
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    }
)


@dataclass(slots=True)
class ScaleUpInfo:
    """A group with its size now and to be."""

    group: NodeGroup
    current_size: int
    new_size: int
    max_size: int

    @property
    def increase(self) -> int:
        """New nodes."""
        return self.new_size - self.current_size


class GroupComparator:
    """Whether the nodes of two groups are alike (upstream CreateGenericNodeInfoComparator)."""

    def __init__(self, options: AutoscalingOptions) -> None:
        self._options = options
        self._ignored = IGNORED_LABELS | frozenset(options.balancing_ignore_label)

    def are_similar(self, one: TemplateNode, other: TemplateNode) -> bool:
        """Same capacity but for a little memory, nearly the same allocatable and free amounts, same labels."""
        if self._options.balancing_label:
            return self._same_chosen_labels(one.node, other.node)
        return (
            self._same_capacity(one.node, other.node)
            and _within(
                _milli(one.node.status.allocatable),
                _milli(other.node.status.allocatable),
                self._options.max_allocatable_difference_ratio,
            )
            and _within(_free(one), _free(other), self._options.max_free_difference_ratio)
            and self._labels(one.node) == self._labels(other.node)
        )

    def _same_chosen_labels(self, one: Node, other: Node) -> bool:
        labels, others = one.metadata.labels, other.metadata.labels
        return all(
            label in labels and label in others and labels[label] == others[label]
            for label in self._options.balancing_label
        )

    def _same_capacity(self, one: Node, other: Node) -> bool:
        amounts, others = one.status.capacity, other.status.capacity
        if amounts.keys() != others.keys():
            return False
        for name in amounts:
            left, right = parse_quantity(amounts[name]), parse_quantity(others[name])
            if name == "memory":
                if not _close(milli_value(left), milli_value(right), self._options.memory_difference_ratio):
                    return False
            elif left != right:
                return False
        return True

    def _labels(self, node: Node) -> dict[str, str]:
        return {key: text for key, text in node.metadata.labels.items() if key not in self._ignored}


def _milli(amounts: Mapping[str, str | float]) -> dict[str, int]:
    return {name: milli_value(parse_quantity(amount)) for name, amount in amounts.items()}


def _free(template: TemplateNode) -> dict[str, int]:
    """Allocatable minus what the pods of the template ask for, in thousandths; resources that upstream always lists."""
    requested: Resource = template.info.requested
    allocatable = _milli(template.node.status.allocatable)
    names = ("cpu", "memory", "pods", "ephemeral-storage", *requested.scalar)
    return {name: allocatable.get(name, 0) - requested.get(name) * (1 if name == "cpu" else 1000) for name in names}


def _within(one: Mapping[str, int], other: Mapping[str, int], ratio: float) -> bool:
    return one.keys() == other.keys() and all(_close(one[name], other[name], ratio) for name in one)


def _close(one: int, other: int, ratio: float) -> bool:
    larger, smaller = max(float(one), float(other)), min(float(one), float(other))
    return larger - smaller <= larger * ratio


def balance(table: GroupTable, groups: Sequence[NodeGroup], new_nodes: int) -> list[ScaleUpInfo]:
    """Add nodes one by one to the smallest group that may grow; only groups that change are returned.

    Groups of equal size take turns in the order in which upstream's rotation visits them.
    """
    infos: list[ScaleUpInfo] = []
    for group in groups:
        size = table.target(group.id)
        if size != group.max_size:
            infos.append(ScaleUpInfo(group, size, size, group.max_size))
    left = min(new_nodes, sum(max(0, info.max_size - info.current_size) for info in infos))
    infos = go_sorted(infos, lambda info: info.current_size)
    start = current = 0
    while left > 0:
        info = infos[current]
        if info.new_size < info.max_size:
            info.new_size += 1
            left -= 1
        else:
            # Groups before `start` are full; all from there to `current` have one size.
            infos[start], infos[current] = infos[current], infos[start]
            start += 1
            info = infos[current]
        if current < len(infos) - 1 and info.new_size > infos[current + 1].new_size:
            current += 1
        else:
            current = start
    return [info for info in infos if info.increase]
