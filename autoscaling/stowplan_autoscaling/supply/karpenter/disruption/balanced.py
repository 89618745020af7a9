"""The Balanced policy: a move must save at least half as large a share of its pool as it disrupts.

Follows pkg/controllers/disruption/balanced.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from stowplan_autoscaling.supply.karpenter.node_pools import BALANCED

from .candidates import Candidate, PoolTotals, total_price
from .commands import Command

K: Final = 2


class Score(NamedTuple):
    """The shares of its pool that a move saves and disrupts."""

    savings: float = 0.0
    disruption: float = 0.0

    @property
    def value(self) -> float:
        """Savings per disruption; 0 if nothing is saved."""
        if self.savings <= 0:
            return 0.0
        return math.inf if self.disruption == 0 else self.savings / self.disruption

    @property
    def is_approved(self) -> bool:
        """Whether the move is worth it."""
        return self.value >= 1.0 / K


def score(savings: float, cost: float, totals: PoolTotals) -> Score:
    """The score of a move that saves so much per hour and costs so much disruption."""
    if totals.price <= 0 or totals.cost <= 0:
        return Score()
    return Score(savings / totals.price, cost / totals.cost)


def scores(command: Command, totals: Mapping[str, PoolTotals], undefined: frozenset[str]) -> dict[str, Score]:
    """The score for each Balanced pool that the command touches; savings are shared by what the nodes cost."""
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in command.candidates:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    found: dict[str, Score] = {}
    if not any(group[0].pool.disruption.policy == BALANCED for group in by_pool.values()):
        return found
    savings, price = command.savings(undefined), command.source_price
    for pool, group in by_pool.items():
        if group[0].pool.disruption.policy != BALANCED:
            continue
        share = savings * (total_price(group) / price) if price > 0 and len(by_pool) > 1 else savings
        cost = 0.0
        for candidate in group:
            cost += candidate.cost
        found[pool] = score(share, cost, totals.get(pool, PoolTotals(0.0, 0.0)))
    return found


def approves(command: Command, totals: Mapping[str, PoolTotals], undefined: frozenset[str]) -> bool:
    """Whether every Balanced pool that the command touches approves."""
    return all(result.is_approved for result in scores(command, totals, undefined).values())


def may_pass(candidate: Candidate, totals: Mapping[str, PoolTotals]) -> bool:
    """Whether taking the node away without replacement would be approved: nothing else scores higher."""
    if candidate.pool.disruption.policy != BALANCED:
        return True
    known = totals.get(candidate.pool.name)
    if known is None or known.price <= 0:
        return True
    return score(candidate.price, candidate.cost, known).is_approved
