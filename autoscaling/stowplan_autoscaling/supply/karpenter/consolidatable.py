"""Conditions of a NodeClaim that follow from the clock and its pool: consolidatable, drifted, expired.

Times in nanoseconds. Follows pkg/utils/disruption/disruption.go (IsUnderConsolidateAfter) and
pkg/controllers/nodeclaim (disruption, expiration, podevents) of Karpenter core v1.15.0.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import SECOND

from .node_claims import NodeClaim
from .node_pools import NodePool

POD_EVENT_PAUSE: Final = 10 * SECOND
"""Pod events within this time of the last one are not noted."""


def is_under_consolidate_after(pool: NodePool | None, claim: NodeClaim | None, now: int) -> bool:
    """Whether the node is still left alone: too little time since a pod came or went, or since it was initialized."""
    settled = settled_at(pool, claim)
    return settled is not None and now < settled


def settled_at(pool: NodePool | None, claim: NodeClaim | None) -> int | None:
    """When the node will have been quiet for consolidateAfter; None: that does not apply."""
    if pool is None or claim is None or not pool.disruption.consolidate_after or claim.initialized is None:
        return None
    since = claim.initialized if claim.last_pod_event is None else claim.last_pod_event
    return since + pool.disruption.consolidate_after


def is_consolidatable(pool: NodePool, claim: NodeClaim, now: int) -> bool:
    """Whether the condition Consolidatable holds."""
    if pool.disruption.consolidate_after is None or claim.initialized is None:
        return False
    return not is_under_consolidate_after(pool, claim, now)


def notes_pod_event(claim: NodeClaim, now: int) -> bool:
    """Whether a pod that came, ended or began to end is noted on the claim; `last_pod_event` then becomes now."""
    return claim.last_pod_event is None or now - claim.last_pod_event >= POD_EVENT_PAUSE


def expires_at(claim: NodeClaim) -> int | None:
    """When the claim is deleted whatever runs on its node; None: never."""
    return None if claim.expire_after is None else claim.created + claim.expire_after
