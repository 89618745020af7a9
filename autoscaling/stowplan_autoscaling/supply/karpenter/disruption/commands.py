"""Disruption commands: which nodes go, what is launched first, and what that saves.

Follows Command of pkg/controllers/disruption/types.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan_autoscaling.supply.karpenter.claims import Claim
from stowplan_autoscaling.supply.karpenter.instance_types import available_offerings
from stowplan_autoscaling.supply.karpenter.scheduler import Results

from .candidates import Candidate, total_price

EMPTY: Final = "Empty"
DRIFTED: Final = "Drifted"
UNDERUTILIZED: Final = "Underutilized"

DELETE: Final = "delete"
REPLACE: Final = "replace"


@dataclass(slots=True)
class Command:
    """Take the candidates away once the replacements are ready. `reason` Empty, Drifted or Underutilized.

    `results`: where the pods of the candidates would go.
    """

    reason: str
    candidates: Sequence[Candidate]
    replacements: Sequence[Claim] = ()
    results: Results = field(default_factory=Results)

    @property
    def decision(self) -> str:
        """delete or replace."""
        return REPLACE if self.replacements else DELETE

    @property
    def source_price(self) -> float:
        """What the candidates cost per hour."""
        return total_price(self.candidates)

    def savings(self, undefined: frozenset[str]) -> float:
        """What the command saves per hour, if each replacement becomes its cheapest type. Unknown prices count 0."""
        price = 0.0
        for claim in self.results.claims if self.replacements else ():
            types = claim.types
            if types:
                offers = available_offerings(types[0], claim.requirements, undefined)
                price += min((offer.price for offer in offers), default=0.0)
        return self.source_price - price
