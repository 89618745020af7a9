"""Node pools as the engine takes them: what their machines may be, how many, and how they may be disrupted.

Durations are nanoseconds. Follows pkg/apis/v1/nodepool.go and pkg/utils/nodepool/nodepool.go of Karpenter core v1.15.0,
without static pools (`spec.replicas`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import Taint

from .requirement import Requirement

WHEN_EMPTY: Final = "WhenEmpty"
WHEN_EMPTY_OR_UNDERUTILIZED: Final = "WhenEmptyOrUnderutilized"
BALANCED: Final = "Balanced"

DEFAULT_EXPIRE_AFTER: Final = 720 * 3600 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many nodes of the pool may be on their way out at once: a number, or a percentage that rounds up.

    `reasons`: Underutilized, Empty, Drifted; None: all. With `schedule` (cron, UTC) and `duration` (nanoseconds) the
    budget holds only for that long after each hit.
    """

    nodes: str = "10%"
    reasons: tuple[str, ...] | None = None
    schedule: str | None = None
    duration: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """When nodes may be taken away. `consolidate_after` None: never."""

    policy: str = WHEN_EMPTY_OR_UNDERUTILIZED
    consolidate_after: int | None = 0
    budgets: tuple[Budget, ...] = (Budget(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A pool. `labels` stand on its nodes; `limits` in nano units per resource, "nodes" counts nodes.

    `expire_after` None: never; `termination_grace_period` None: as long as it takes. `marks`: labels that the provider
    puts on every node of the pool, such as the name of its node class.
    """

    name: str
    requirements: tuple[Requirement, ...] = ()
    weight: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Mapping[str, int] | None = None
    disruption: Disruption = Disruption()
    expire_after: int | None = DEFAULT_EXPIRE_AFTER
    termination_grace_period: int | None = None
    marks: Mapping[str, str] = field(default_factory=dict)


def by_weight(pools: Iterable[NodePool]) -> list[NodePool]:
    """The heaviest first; of equal weights the name that comes last in the alphabet."""
    return sorted(sorted(pools, key=lambda pool: pool.name, reverse=True), key=lambda pool: -pool.weight)


def exceeded(limits: Mapping[str, int] | None, usage: Mapping[str, int]) -> str | None:
    """The first resource, by name, of which the pool uses more than its limit; no claim may then be made."""
    for name in sorted(usage):
        if limits and name in limits and usage[name] > limits[name]:
            return name
    return None
