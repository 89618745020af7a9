"""The methods of disruption, in the order in which they are tried: Emptiness, Drift, multi-node, single-node.

Follows pkg/controllers/disruption (emptiness.go, drift.go, multinodeconsolidation.go, singlenodeconsolidation.go) of
Karpenter core v1.15.0. Left out: static pools, node repair, terminate-first, and time-outs, which virtual time does not
know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from stowplan_autoscaling.supply.karpenter.claims import Claim
from stowplan_autoscaling.supply.karpenter.node_claims import NodeClaim
from stowplan_autoscaling.supply.karpenter.requirements import Requirements
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot

from .balanced import approves, may_pass
from .candidates import Candidate, CandidateFinder, PoolTotals
from .commands import DRIFTED, EMPTY, UNDERUTILIZED, Command
from .consolidation import Memo, VainLook, by_ratio, cheaper_than, consolidate, may_consolidate
from .simulation import Scene
from .validation import Validator

_MAX_PARALLEL: Final = 100
"""The binary search goes over one node more than this."""


class Method(ABC):
    """One way to find nodes to take away. `kind` tells methods of one reason apart.

    `eventual`: the pool's termination grace period bounds the disruption, so pods that refuse to go do not block it.
    """

    reason: ClassVar[str]
    kind: ClassVar[str] = ""
    eventual: ClassVar[bool] = False

    def __init__(self, finder: CandidateFinder, taken: Callable[[str], bool]) -> None:
        self._finder = finder
        self._taken = taken
        self._validator = Validator(finder, self.wants, taken, self.reason)
        self._uninteresting: Snapshot | None = None
        """The last one without a node that the method looks at."""

    def candidates(self, scene: Scene, now: int) -> tuple[list[Candidate], dict[str, PoolTotals]]:
        """The nodes that the method may choose from, by name, and the totals of their pools."""
        snapshot = scene.snapshot
        if snapshot is self._uninteresting:
            return [], {}
        if not any(node.claim is not None and self.looks_at(node.claim) for node in snapshot.nodes):
            self._uninteresting = snapshot
            return [], {}
        return self._finder.find(snapshot, scene.catalogue, self.wants, now, self._taken, eventual=self.eventual)

    def is_idle(self, scene: Scene, now: int) -> bool:
        """Whether nothing has changed since the method last found nothing to do."""
        return False

    def looks_at(self, claim: NodeClaim) -> bool:
        """Whether a node's claim is of any interest; what is not looked at is not wanted either."""
        return claim.consolidatable is not None

    @staticmethod
    @abstractmethod
    def wants(candidate: Candidate) -> bool:
        """Whether the method may choose the node."""

    @abstractmethod
    def propose(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> Command | None:  # fmt: skip
        """A command, or nothing. `budgets`: how many nodes of each pool may still go; it is used up."""

    def confirm(self, scene: Scene, command: Command, now: int) -> Command | None:
        """The command as it stands 15 seconds later; None if it no longer holds."""
        return command if self._validator.still_holds(scene, command, now) else None

    needs_confirmation: ClassVar[bool] = True


class Consolidation(Method):
    """Looks for less; after a look in vain that no budget has cut short, not again until the cluster has changed.

    `search` may use `budgets` up. It returns a command, and whether a budget held a node back.
    """

    def __init__(self, finder: CandidateFinder, taken: Callable[[str], bool]) -> None:
        super().__init__(finder, taken)
        self._memo = Memo()
        self._vain: VainLook | None = None

    def is_idle(self, scene: Scene, now: int) -> bool:
        return self._memo.is_consolidated(scene.state, now)

    @staticmethod
    def wants(candidate: Candidate) -> bool:
        return may_consolidate(candidate)

    def propose(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> Command | None:  # fmt: skip
        if self.is_idle(scene, now):
            return None
        if self._vain is not None and self._vain.is_repeated_by(scene, candidates, budgets, now):
            held_back = self._vain.held_back
        else:
            known = dict(budgets)
            command, held_back = self.search(scene, by_ratio(candidates), totals, budgets, now)
            if command is not None:
                return command
            self._vain = VainLook(scene, candidates, known, now, held_back=held_back)
        if not held_back:
            self._memo.mark(scene.state, now)
        return None

    @abstractmethod
    def search(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> tuple[Command | None, bool]:  # fmt: skip
        """`candidates`: the most worthwhile first."""


class Emptiness(Consolidation):
    """Takes away nodes on which nothing runs that would be missed, as many as the budgets allow."""

    reason = EMPTY
    kind = "empty"

    @staticmethod
    def wants(candidate: Candidate) -> bool:
        if not candidate.is_empty or candidate.pool.disruption.consolidate_after is None:
            return False
        return candidate.claim.consolidatable is not None

    def search(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> tuple[Command | None, bool]:  # fmt: skip
        chosen, held_back = within_budgets(candidates, budgets)
        return Command(self.reason, chosen) if chosen else None, held_back

    def confirm(self, scene: Scene, command: Command, now: int) -> Command | None:
        return self._validator.still_empty(scene, command, now)


class Drift(Method):
    """Replaces one node that no longer is what its pool wants: empty ones first, then those that drifted first."""

    reason = DRIFTED
    eventual = True
    needs_confirmation = False

    def looks_at(self, claim: NodeClaim) -> bool:
        return claim.drifted is not None

    @staticmethod
    def wants(candidate: Candidate) -> bool:
        return candidate.claim.drifted is not None

    def propose(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> Command | None:  # fmt: skip
        ordered = sorted(candidates, key=lambda c: (bool(c.pods), c.claim.drifted or 0, c.name))
        for candidate in ordered:
            if not budgets[candidate.pool.name]:
                continue
            results = scene.without([candidate], now, consolidating=False)
            if results is not None and results.all_bound_pods_placed:
                return Command(self.reason, [candidate], results.claims, results)
        return None


class MultiNode(Consolidation):
    """Takes away as many of the most worthwhile nodes as fit elsewhere and on at most one new machine."""

    reason = UNDERUTILIZED
    kind = "multi"

    def search(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> tuple[Command | None, bool]:  # fmt: skip
        chosen, held_back = within_budgets(candidates, budgets)
        return self._longest(scene, chosen, totals, now), held_back

    def _longest(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], now: int
    ) -> Command | None:
        """The longest front part of the list that works, by binary search; one node alone is not tried."""
        found = None
        low, high = 1, min(_MAX_PARALLEL, len(candidates) - 1)
        while low <= high:
            middle = (low + high) // 2
            command = self._attempt(scene, candidates[: middle + 1], totals, now)
            if command is None:
                high = middle - 1
            else:
                found = command
                low = middle + 1
        return found

    @staticmethod
    def _attempt(
        scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], now: int
    ) -> Command | None:
        command = consolidate(scene, candidates, now)
        if command is None:
            return None
        if command.replacements and not without_own_types(command.replacements[0], candidates, scene.undefined):
            return None
        return command if approves(command, totals, scene.undefined) else None


class SingleNode(Consolidation):
    """Takes away one node, or replaces it by a cheaper one. Pools take turns by name, in no set order upstream."""

    reason = UNDERUTILIZED
    kind = "single"

    def search(
        self, scene: Scene, candidates: Sequence[Candidate], totals: Mapping[str, PoolTotals], budgets: dict[str, int],
        now: int,
    ) -> tuple[Command | None, bool]:  # fmt: skip
        held_back = False
        ordered = in_turns(candidates)
        for candidate, is_hopeless in zip(ordered, scene.are_hopeless_alone(ordered, now), strict=True):
            if not budgets[candidate.pool.name]:
                held_back = True
                continue
            if is_hopeless or not may_pass(candidate, totals):
                continue
            command = consolidate(scene, [candidate], now)
            if command is not None and approves(command, totals, scene.undefined):
                return command, held_back
        return None, held_back


def within_budgets(candidates: Sequence[Candidate], budgets: dict[str, int]) -> tuple[list[Candidate], bool]:
    """The candidates that their pools' budgets allow, in order, and whether a budget held one back."""
    chosen = []
    for candidate in candidates:
        if budgets[candidate.pool.name]:
            budgets[candidate.pool.name] -= 1
            chosen.append(candidate)
    return chosen, len(chosen) < len(candidates)


def in_turns(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first of each pool, then the second of each, and so on."""
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    longest = max(map(len, by_pool.values()), default=0)
    return [by_pool[pool][turn] for turn in range(longest) for pool in sorted(by_pool) if turn < len(by_pool[pool])]


def without_own_types(claim: Claim, candidates: Sequence[Candidate], undefined: frozenset[str]) -> bool:
    """Leave only types cheaper than the cheapest candidate whose type the replacement could have.

    Otherwise one of the candidates might as well stay. False if nothing is left.
    """
    prices: dict[str, float] = {}
    own: set[str] = set()
    for candidate in candidates:
        item = candidate.instance_type
        if item is None:
            continue
        own.add(item.name)
        labels = Requirements.of_labels(candidate.node.labels)
        for offer in item.offerings:
            if labels.compatible(offer.labels, undefined):
                prices[item.name] = min(offer.price, prices.get(item.name, offer.price))
    shared = [prices.get(item.name, 0.0) for item in claim.types if item.name in own]
    if shared and not cheaper_than(claim, min(shared)):
        return False
    return bool(claim.mask.any())
