"""A cheap proof that taking nodes away cannot work, so that most candidates need no scheduling round.

What fits on no other node must all go to the one new machine: every pod that fits on none of them by itself, and of
each resource at least what the others together have too little of. If no type that is cheaper than what goes is that
big, the round would end in nothing. Room on nodes only shrinks during a round, and every other rule only makes it
harder, so nothing that works is ever left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_autoscaling.supply.karpenter.pods import PENDING
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue
from stowplan_autoscaling.supply.karpenter.shapes import Shape
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod


def is_hopeless(
    snapshot: Snapshot, catalogue: Catalogue, gone: Sequence[str], moving: Sequence[KnownPod], price: float, now: int
) -> bool:
    """Whether no machine cheaper than `price` holds what fits on no other node. `gone`: names of the nodes."""
    needed = _needed(snapshot, gone, moving, now)
    if not needed:
        return False
    for template in catalogue.templates:
        mask = template.mask & (template.table.cheapest(template.requirements) < price)
        for column, amount in needed.items():
            mask &= template.free(column) >= amount
        if mask.any():
            return False
    return True


def _needed(snapshot: Snapshot, gone: Sequence[str], moving: Sequence[KnownPod], now: int) -> dict[int, int]:
    """By column, what the new machine must have at the least; nothing if it is not clear that one is needed."""
    others = snapshot.sound.copy()
    others[[snapshot.rows[name] for name in gone]] = False
    settled = others
    if snapshot.settled is not None and all(known.pod.status.phase != PENDING for known in moving):
        # Pods of candidates stay off nodes that have not settled; those that have not started yet may go there.
        settled = others & (snapshot.settled <= now)
    counts: dict[Shape, int] = {}
    for known in moving:
        counts[known.shape] = counts.get(known.shape, 0) + 1
    total: dict[int, int] = {}
    stranded: dict[int, int] = {}
    for shape, count in counts.items():
        mask, _ = snapshot.fitting(shape)
        fits = bool((mask & settled).any())
        for column, amount in shape.demand:
            total[column] = total.get(column, 0) + count * amount
            if not fits:
                stranded[column] = stranded.get(column, 0) + count * amount
    for column, amount in total.items():
        room = snapshot.column(column)[settled]
        lacking = amount - int(room[room > 0].sum())
        if lacking > stranded.get(column, 0):
            stranded[column] = lacking
    return stranded
