"""A cheap proof that taking nodes away cannot work, so that most candidates need no scheduling round.

What fits on no other node must all go to the one new machine: every pod that fits on none of them by itself, and of
each resource at least what the others together have too little of. If no type that is cheaper than what goes is that
big, the round would end in nothing. Room on nodes only shrinks during a round, and every other rule only makes it
harder, so nothing that works is ever left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stowplan_autoscaling.supply.karpenter.amounts import Demand
from stowplan_autoscaling.supply.karpenter.pods import PENDING
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod


class PodLoad(NamedTuple):
    """Pods by what they demand."""

    counts: dict[Demand, int]
    have_begun: bool
    """Whether none of them is still to start."""


def load_of(pods: Iterable[KnownPod]) -> PodLoad:
    """What pods demand."""
    counts: dict[Demand, int] = {}
    have_begun = True
    for known in pods:
        demand = known.shape.demand
        counts[demand] = counts.get(demand, 0) + 1
        have_begun = have_begun and known.pod.status.phase != PENDING
    return PodLoad(counts, have_begun)


def together(loads: Sequence[PodLoad]) -> PodLoad:
    """What several lots of pods demand."""
    if len(loads) == 1:
        return loads[0]
    counts: dict[Demand, int] = {}
    for load in loads:
        for demand, count in load.counts.items():
            counts[demand] = counts.get(demand, 0) + count
    return PodLoad(counts, all(load.have_begun for load in loads))


def is_hopeless(
    snapshot: Snapshot, catalogue: Catalogue, gone: Sequence[str], moving: PodLoad, price: float, now: int
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


def _needed(snapshot: Snapshot, gone: Sequence[str], moving: PodLoad, now: int) -> dict[int, int]:
    """By column, what the new machine must have at the least; nothing if it is not clear that one is needed."""
    rows = [snapshot.rows[name] for name in gone]
    # Pods of candidates stay off nodes that have not settled; those that have not started yet may go there.
    room = snapshot.settled_room(now) if moving.have_begun else snapshot.room
    total: dict[int, int] = {}
    stranded: dict[int, int] = {}
    for demand, count in moving.counts.items():
        fits = room.takes(demand, rows)
        for column, amount in demand:
            total[column] = total.get(column, 0) + count * amount
            if not fits:
                stranded[column] = stranded.get(column, 0) + count * amount
    for column, amount in total.items():
        lacking = amount - room.left(column, rows)
        if lacking > stranded.get(column, 0):
            stranded[column] = lacking
    return stranded
