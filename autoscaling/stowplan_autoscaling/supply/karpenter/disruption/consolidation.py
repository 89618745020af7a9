"""What consolidation of one or several nodes has in common: who may go, in which order, and what replaces them.

Follows pkg/controllers/disruption/consolidation.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from stowplan_autoscaling.supply.karpenter.claims import Claim
from stowplan_autoscaling.supply.karpenter.cluster_state import ClusterState
from stowplan_autoscaling.supply.karpenter.labels import CAPACITY_TYPE, ON_DEMAND, SPOT
from stowplan_autoscaling.supply.karpenter.min_values import types_needed
from stowplan_autoscaling.supply.karpenter.node_pools import WHEN_EMPTY
from stowplan_autoscaling.supply.karpenter.requirement import one_of
from stowplan_autoscaling.supply.karpenter.scheduler import Results

from .candidates import Candidate, is_priceable, total_price
from .commands import UNDERUTILIZED, Command
from .simulation import Scene

_turn = attrgetter("turn")

MIN_TYPES_FOR_SPOT_TO_SPOT: Final = 15
"""So many cheaper types a single spot node must have before another spot node replaces it."""


class Memo:
    """Whether anything relevant has changed since a method last found nothing to do."""

    def __init__(self) -> None:
        self._seen: int | None = None

    def is_consolidated(self, state: ClusterState, now: int) -> bool:
        """Whether nothing has changed."""
        return self._seen is not None and self._seen == state.consolidation_state(now)

    def mark(self, state: ClusterState, now: int) -> None:
        """There was nothing to do."""
        self._seen = state.consolidation_state(now)


class VainLook:
    """A look that found nothing to do. Another one at the very same things would find nothing either.

    Where budgets hold nodes back, a method looks again every ten seconds (see `Memo`), mostly at the same things.
    """

    def __init__(
        self, scene: Scene, candidates: Sequence[Candidate], budgets: Mapping[str, int], now: int, *, held_back: bool
    ) -> None:
        self.held_back = held_back
        """Whether a budget held a node back."""
        self._snapshot = scene.snapshot
        self._candidates = candidates
        self._budgets = budgets
        self._now = now

    def is_repeated_by(
        self, scene: Scene, candidates: Sequence[Candidate], budgets: Mapping[str, int], now: int
    ) -> bool:
        """Whether a look at these would be the same: nothing has changed, and no node has settled in between.

        The same list of candidates also says that nothing else in the cluster runs out with time.
        """
        if candidates is not self._candidates or scene.snapshot is not self._snapshot or budgets != self._budgets:
            return False
        return self._snapshot.table.none_settles_between(self._now, now)


def may_consolidate(candidate: Candidate) -> bool:
    """Whether the node may be consolidated; empty ones are the matter of Emptiness."""
    rules = candidate.pool.disruption
    if candidate.claim.consolidatable is None or rules.consolidate_after is None or candidate.is_empty:
        return False
    return rules.policy != WHEN_EMPTY and is_priceable(candidate)


def by_ratio(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The most saved per disruption first; equals by name, which upstream leaves to chance."""
    return sorted(candidates, key=_turn)


def consolidate(scene: Scene, candidates: Sequence[Candidate], now: int) -> Command | None:
    """Take the candidates away, for nothing or for one cheaper machine; None if that is not possible."""
    results = scene.without(candidates, now, consolidating=True)
    if results is None or not results.all_bound_pods_placed:
        return None
    if not results.claims:
        return Command(UNDERUTILIZED, candidates, results=results)
    if len(results.claims) != 1:
        return None
    claim = results.claims[0]
    claim.priced_by = claim.requirements
    price = total_price(candidates)
    may_be_spot = claim.requirements.get(CAPACITY_TYPE).has(SPOT)
    if may_be_spot and all(candidate.capacity_type == SPOT for candidate in candidates):
        return _spot_to_spot(scene, candidates, results, price)
    if not cheaper_than(claim, price) or not claim.mask.any():
        return None
    if may_be_spot and claim.requirements.get(CAPACITY_TYPE).has(ON_DEMAND):
        # The prices were those of spot machines, so nothing else may come of it.
        claim.pin(one_of(CAPACITY_TYPE, SPOT))
    return Command(UNDERUTILIZED, candidates, [claim], results)


def cheaper_than(claim: Claim, price: float) -> bool:
    """Leave only the types that are cheaper even at the worst; False where minValues no longer hold then."""
    return claim.narrow(claim.template.table.worst_launch(claim.requirements) < price)


def _spot_to_spot(scene: Scene, candidates: Sequence[Candidate], results: Results, price: float) -> Command | None:
    if not scene.engine.options.spot_to_spot:
        return None
    claim = results.claims[0]
    claim.pin(one_of(CAPACITY_TYPE, SPOT))
    claim.mask = claim.mask & claim.template.table.stocked(claim.requirements)
    if not cheaper_than(claim, price) or not claim.mask.any():
        return None
    if len(candidates) == 1:
        types = claim.types
        if len(types) < MIN_TYPES_FOR_SPOT_TO_SPOT:
            return None
        # Fewer choices now, so that the machine that comes is not at once replaced by one of those that were dearer.
        kept = max(MIN_TYPES_FOR_SPOT_TO_SPOT, types_needed(types, claim.requirements))
        claim.mask = claim.template.table.mask_of(types[:kept])
    return Command(UNDERUTILIZED, candidates, [claim], results)
