"""least-waste: the option whose nodes would stand empty least, by the shares of cpu and memory that no pod asks for.

Follows pkg/expander/waste/waste.go of kubernetes-sigs/cluster-autoscaler; exact ties of float64 are ties here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan_scheduler.framework.pod_info import PodInfo, PodShape
from stowplan_scheduler.resources import Resource

from .base import Option


def least_waste(options: Sequence[Option]) -> list[Option]:
    """Those of least waste."""
    best: list[Option] = []
    least = 0.0
    for option in options:
        score = _waste(option)
        if best and score == least:
            best.append(option)
        elif not best or score < least:
            best, least = [option], score
    return best


def _waste(option: Option) -> float:
    capacity = Resource.from_map(option.template.node.status.capacity)
    cpu, memory = requested_by(option.pods)
    return _share(capacity.milli_cpu * option.node_count, cpu) + _share(capacity.memory * option.node_count, memory)


def _share(available: int, requested: int) -> float:
    """As Go divides floats: nothing of nothing is not a number, which is neither less than nor equal to anything."""
    if available == 0:
        unused = available - requested
        return float("nan") if unused == 0 else float("-inf")
    return float(available - requested) / float(available)


def requested_by(pods: Iterable[PodInfo]) -> tuple[int, int]:
    """The pods' cpu in milli cores and memory in bytes."""
    counts: dict[int, tuple[PodShape, int]] = {}
    for pod in pods:
        shape = pod.shape
        _, count = counts.get(shape.number, (shape, 0))
        counts[shape.number] = (shape, count + 1)
    found = counts.values()
    return (
        sum(shape.node_requested.milli_cpu * count for shape, count in found),
        sum(shape.node_requested.memory * count for shape, count in found),
    )
