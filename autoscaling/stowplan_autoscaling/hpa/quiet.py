"""Syncs that end as the one before them did: the same proposal for the same replicas, and nothing to do.

What such a sync says follows from the spec, the conditions that it finds, the replicas, the proposal and the stabilised
proposal, but for the numbers of its metric. Where all of that is as it was, and the sync before left the conditions as
it had found them, this one leaves them, too: only the numbers are new. Most syncs of a cluster are of this kind.
"""

from __future__ import annotations

from typing import NamedTuple

from .objects import HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition
from .plan import HPAPlan


class Quiet(NamedTuple):
    """The last sync of an autoscaler, if it changed neither replicas nor conditions."""

    plan: HPAPlan
    conditions: tuple[HorizontalPodAutoscalerCondition, ...]
    current: int
    proposal: int
    stable: int
    """The proposal after stabilisation."""
    metric: str

    def is_repeated_by(self, hpa: HorizontalPodAutoscaler, plan: HPAPlan, current: int, proposal: int) -> bool:
        """Whether a sync that finds this is of the same kind, as far as it does not depend on stabilisation."""
        return (
            proposal == self.proposal
            and current == self.current
            and plan is self.plan
            and hpa.status.conditions is self.conditions
        )
