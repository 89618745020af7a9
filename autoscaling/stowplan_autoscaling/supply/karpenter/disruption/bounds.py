"""A cheap proof that taking nodes away cannot work, so that most candidates need no scheduling round.

Beside the pods that move there are others that find a place in every round that is of any use: on nodes, or on the one
new machine. What fits on no other node must all go to that machine: of each kind of pod as many as the nodes have no
room for, and of each resource at least what the nodes together have too little of. If no type that is cheaper than what
goes is that big, the round would end in nothing. Room on nodes only shrinks during a round, and every other rule only
makes it harder, so nothing that works is ever left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan_autoscaling.supply.karpenter.instance_types import Column, Mask
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot

from .candidates import Candidate
from .loads import PodLoad


def is_hopeless(
    snapshot: Snapshot, catalogue: Catalogue, gone: Sequence[str], moving: PodLoad, others: PodLoad, price: float,
    now: int,
) -> bool:  # fmt: skip
    """Whether no machine cheaper than `price` holds what fits on no other node. `gone`: names of the nodes."""
    needed = _needed(snapshot, gone, moving, others, now)
    if not needed:
        return False
    for template in catalogue.templates:
        mask = template.mask & (template.table.cheapest(template.requirements) < price)
        for column, amount in needed.items():
            mask &= template.free(column) >= amount
        if mask.any():
            return False
    return True


def _needed(
    snapshot: Snapshot, gone: Sequence[str], moving: PodLoad, others: PodLoad, now: int
) -> dict[int, int]:  # fmt: skip
    """By column, what the new machine must have at the least; nothing if it is not clear that one is needed."""
    rows = [snapshot.rows[name] for name in gone]
    everywhere = snapshot.table.room
    # Pods of candidates stay off nodes that have not settled; those that have not started yet may go there.
    settled = snapshot.table.settled_room(now) if moving.have_begun else everywhere
    needed: dict[int, int] = {}
    for demand, count in moving.counts.items():
        stranded = count - settled.holds(demand, rows)
        if demand in others.counts:
            stranded = max(stranded, count + others.counts[demand] - everywhere.holds(demand, rows))
        if stranded > 0:
            for column, amount in demand:
                needed[column] = needed.get(column, 0) + stranded * amount
    for column, amount in moving.totals.items():
        lacking = max(
            amount - settled.left(column, rows),
            amount + others.totals.get(column, 0) - everywhere.left(column, rows),
        )
        if lacking > needed.get(column, 0):
            needed[column] = lacking
    return needed


def are_hopeless_alone(
    snapshot: Snapshot, catalogue: Catalogue, candidates: Sequence[Candidate], others: PodLoad, now: int
) -> list[bool]:
    """Which of the candidates cannot go alone, as far as sums say so: all at once what `is_hopeless` says of one.

    Each resource is looked at for itself, so some that are hopeless are not found.
    """
    rows = [snapshot.rows[candidate.name] for candidate in candidates]
    have_begun = np.array([candidate.load.have_begun for candidate in candidates], dtype=np.bool_)
    columns = sorted({column for candidate in candidates for column in candidate.load.totals})
    needed = {}
    for column in columns:
        own = np.array([candidate.load.totals.get(column, 0) for candidate in candidates], dtype=np.int64)
        everywhere, settled = (
            amounts.sum() - amounts[rows]
            for amounts in (snapshot.table.room.amounts(column), snapshot.table.settled_room(now).amounts(column))
        )
        lacking = own - np.where(have_begun, settled, everywhere)
        needed[column] = np.maximum(lacking, own + others.totals.get(column, 0) - everywhere).clip(min=0)
    prices = np.array([candidate.price for candidate in candidates], dtype=np.float64)
    hopeless: Mask = np.zeros(len(candidates), dtype=np.bool_)
    for amounts in needed.values():
        hopeless |= amounts > 0
    for template in catalogue.templates:
        cheapest = template.table.cheapest(template.requirements)
        order = np.flatnonzero(template.mask)
        order = order[cheapest[order].argsort(kind="stable")]
        cheaper = cheapest[order].searchsorted(prices)
        fits: Mask = np.ones(len(candidates), dtype=np.bool_)
        for column, amounts in needed.items():
            fits &= amounts <= _most_of_first(template.free(column)[order])[cheaper]
        hopeless &= ~fits
    found: list[bool] = hopeless.tolist()
    return found


def _most_of_first(amounts: Column) -> Column:
    """The most among so many from the front; among none of them, less than nothing."""
    found: Column = np.maximum.accumulate(np.concatenate(([-1], amounts)))
    return found
