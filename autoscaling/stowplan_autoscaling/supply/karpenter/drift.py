"""Whether a node is still what its pool wants.

Follows pkg/controllers/nodeclaim/disruption/drift.go of Karpenter core v1.15.0; a provider's own reasons come on top.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import MINUTE

from .hashing import HASH_VERSION, template_hash
from .instance_types import TypeTable
from .labels import INSTANCE_TYPE, NODE_POOL_HASH, NODE_POOL_HASH_VERSION
from .node_claims import NodeClaim
from .node_pools import NodePool
from .requirements import Requirements

NODE_POOL_DRIFTED: Final = "NodePoolDrifted"
REQUIREMENTS_DRIFTED: Final = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND: Final = "InstanceTypeNotFound"

RECHECK: Final = 5 * MINUTE
_TYPE_CHECK_AGE: Final = 60 * MINUTE


def drift_reason(
    pool: NodePool, claim: NodeClaim, table: TypeTable | None, undefined: frozenset[str], now: int
) -> str | None:
    """Why the claim has drifted, if it has. Types are looked for only on claims older than an hour."""
    made_from = claim.annotations.get(NODE_POOL_HASH)
    version = claim.annotations.get(NODE_POOL_HASH_VERSION)
    if made_from is not None and version == HASH_VERSION and made_from != template_hash(pool):
        return NODE_POOL_DRIFTED
    labels = Requirements.of_labels(claim.labels)
    if not labels.compatible(Requirements.of(pool.requirements), frozenset()):
        return REQUIREMENTS_DRIFTED
    if table is None or now - claim.created <= _TYPE_CHECK_AGE:
        return None
    row = table.rows.get(claim.labels.get(INSTANCE_TYPE, ""))
    if row is None or not any(labels.compatible(o.labels, undefined) for o in table.types[row].offerings):
        return INSTANCE_TYPE_NOT_FOUND
    return None
