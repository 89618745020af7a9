"""A way to scale up, and what an expander is.

Follows pkg/expander/expander.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import NodeGroup
from stowplan_autoscaling.supply.cluster_autoscaler.templates import TemplateNode
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.resources import Resource


class ExpanderError(ValueError):
    """A chain of expanders that cannot be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """So many new nodes of a group would take these pods. `similar`: groups that would share the nodes."""

    group: NodeGroup
    template: TemplateNode
    node_count: int
    pods: tuple[PodInfo, ...]
    similar: tuple[NodeGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPrices:
    """What a pod's requests are worth per hour: per core and per GiB of memory."""

    core: float
    gib: float

    def of(self, requested: Resource) -> float:
        """The price of one hour of these requests."""
        return requested.milli_cpu / 1000 * self.core + requested.memory / (1 << 30) * self.gib


Filter = Callable[[Sequence[Option]], list[Option]]
"""Keeps the best options; several if they are equally good."""
