"""Disruption budgets of pools: how many nodes may still go, by reason.

Follows GetAllowedDisruptionsByReason of pkg/apis/v1/nodepool.go and BuildDisruptionBudgetMapping of
pkg/controllers/disruption/helpers.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from stowplan_autoscaling.cluster.controllers.cron_job import Schedule, parse_schedule
from stowplan_autoscaling.cluster.int_or_percent import scaled_value
from stowplan_autoscaling.supply.karpenter.node_pools import Budget, NodePool
from stowplan_autoscaling.supply.karpenter.pool_counts import PoolCounts

UNLIMITED: Final = 2**31 - 1


def remaining(pools: Iterable[NodePool], counts: PoolCounts, reason: str, now: int) -> dict[str, int]:
    """How many more nodes of each pool may go for a reason. Those that go anyway, or are not ready, use it up."""
    return {
        pool.name: max(allowed(pool, counts.sizes.get(pool.name, 0), reason, now) - counts.going.get(pool.name, 0), 0)
        for pool in pools
    }


def allowed(pool: NodePool, size: int, reason: str, now: int) -> int:
    """The strictest of the pool's budgets for a reason; 0 if one of them, of whatever reason, does not parse."""
    least = UNLIMITED
    for budget in pool.disruption.budgets:
        try:
            value = _allowed(budget, size, now)
        except ValueError:
            return 0
        if budget.reasons is None or reason in budget.reasons:
            least = min(least, value)
    return least


def _allowed(budget: Budget, size: int, now: int) -> int:
    if not is_active(budget, now):
        return UNLIMITED
    nodes = int(budget.nodes) if budget.nodes.lstrip("+-").isdecimal() else budget.nodes
    return scaled_value(nodes, size, round_up=True)


def is_active(budget: Budget, now: int) -> bool:
    """Whether the budget holds now: its schedule hit within its duration before. Raises ScheduleError."""
    if budget.schedule is None and budget.duration is None:
        return True
    hit = _schedule(budget.schedule or "").next(now - (budget.duration or 0))
    return hit is not None and hit <= now


@lru_cache(maxsize=1024)
def _schedule(text: str) -> Schedule:
    """Karpenter puts the time zone before it, so that no other can be given."""
    return parse_schedule(f"TZ=UTC {text}")
