"""A cheap proof that taking nodes away cannot work, so that most candidates need no scheduling round.

Pods that fit on no other node as it is must all go to the one new machine, and that must be cheaper than what goes. If
no type is both big and cheap enough, the round would end in nothing. Room on nodes only shrinks during a round, and
every other rule only makes it harder, so nothing that works is ever left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod


def is_hopeless(
    snapshot: Snapshot, catalogue: Catalogue, gone: Sequence[str], moving: Sequence[KnownPod], price: float
) -> bool:
    """Whether no machine cheaper than `price` holds the pods that fit on no other node. `gone`: names of the nodes."""
    rows = [snapshot.rows[name] for name in gone]
    stranded: dict[int, int] = {}
    for known in moving:
        mask, count = snapshot.fitting(known.shape)
        if count > np.count_nonzero(mask[rows]):
            continue
        for column, amount in known.shape.demand:
            stranded[column] = stranded.get(column, 0) + amount
    if not stranded:
        return False
    for template in catalogue.templates:
        mask = template.mask & (template.table.cheapest(template.requirements) < price)
        for column, amount in stranded.items():
            mask &= template.free(column) >= amount
        if mask.any():
            return False
    return True
