"""A command is looked at once more 15 seconds later, before anything is done.

Follows pkg/controllers/disruption/validation.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stowplan_autoscaling.kernel import SECOND

from .budgets import remaining
from .candidates import Candidate, CandidateFinder
from .commands import Command
from .simulation import Scene

VALIDATION_DELAY: Final = 15 * SECOND


class Validator:
    """Looks at commands again. `wanted`: the method's own condition; `taken`: nodes that a command holds already."""

    def __init__(
        self, finder: CandidateFinder, wanted: Callable[[Candidate], bool], taken: Callable[[str], bool], reason: str
    ) -> None:
        self._finder = finder
        self._wanted = wanted
        self._taken = taken
        self._reason = reason

    def still_empty(self, scene: Scene, command: Command, now: int) -> Command | None:
        """The command with those of its empty nodes that may still go; None if there are none."""
        current = self._current(scene, command.candidates, now)
        budgets = self._budgets(scene, now)
        kept = []
        for candidate in current:
            if not candidate.node.is_nominated(now) and budgets[candidate.pool.name]:
                budgets[candidate.pool.name] -= 1
                kept.append(candidate)
        return Command(command.reason, kept, command.replacements, command.results) if kept else None

    def still_holds(self, scene: Scene, command: Command, now: int) -> bool:
        """Whether all candidates may still go and the pods would still need no more than the command launches."""
        current = self._all_valid(scene, command.candidates, now)
        if not current:
            return False
        results = scene.without(current, now, consolidating=True)
        if results is None or not results.all_bound_pods_placed:
            return False
        if len(results.claims) != len(command.replacements) or len(results.claims) > 1:
            return False
        if results.claims:
            planned, found = command.replacements[0], results.claims[0]
            if not {item.name for item in planned.types} <= {item.name for item in found.types}:
                return False
        return bool(self._all_valid(scene, current, now))

    def _all_valid(self, scene: Scene, candidates: Sequence[Candidate], now: int) -> list[Candidate]:
        current = self._current(scene, candidates, now)
        if len(current) != len(candidates):
            return []
        budgets = self._budgets(scene, now)
        for candidate in current:
            if candidate.node.is_nominated(now) or not budgets[candidate.pool.name]:
                return []
            budgets[candidate.pool.name] -= 1
        return current

    def _current(self, scene: Scene, candidates: Sequence[Candidate], now: int) -> list[Candidate]:
        names = {candidate.name for candidate in candidates}
        found, _ = self._finder.find(scene.snapshot, scene.catalogue, self._wanted, now, self._taken, eventual=False)
        return [candidate for candidate in found if candidate.name in names]

    def _budgets(self, scene: Scene, now: int) -> dict[str, int]:
        return remaining(scene.catalogue.pools, scene.snapshot.pool_counts(), self._reason, now)
