"""What pods demand, and which pods need a place beside those of candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stowplan_autoscaling.supply.karpenter.amounts import Demand
from stowplan_autoscaling.supply.karpenter.claims import Claim
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue, Engine
from stowplan_autoscaling.supply.karpenter.shapes import Footing
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod


class PodLoad(NamedTuple):
    """Pods by what they demand, and what they demand together, by column."""

    counts: dict[Demand, int]
    totals: dict[int, int]
    have_begun: bool
    """Whether none of them is still to start."""


def load_of(pods: Iterable[KnownPod]) -> PodLoad:
    """What pods demand."""
    counts: dict[Demand, int] = {}
    have_begun = True
    for known in pods:
        demand = known.shape.demand
        counts[demand] = counts.get(demand, 0) + 1
        have_begun = have_begun and known.has_begun
    return PodLoad(counts, _totals(counts), have_begun)


def together(loads: Sequence[PodLoad]) -> PodLoad:
    """What several lots of pods demand."""
    if len(loads) == 1:
        return loads[0]
    counts: dict[Demand, int] = {}
    for load in loads:
        for demand, count in load.counts.items():
            counts[demand] = counts.get(demand, 0) + count
    return PodLoad(counts, _totals(counts), all(load.have_begun for load in loads))


def _totals(counts: dict[Demand, int]) -> dict[int, int]:
    totals: dict[int, int] = {}
    for demand, count in counts.items():
        for column, amount in demand:
            totals[column] = totals.get(column, 0) + count * amount
    return totals


def others_load(engine: Engine, catalogue: Catalogue, snapshot: Snapshot, leaving: Sequence[KnownPod]) -> PodLoad:
    """What those pods demand that find a place in every round that is of use, beside the pods of candidates.

    `leaving`: the pods of nodes that are on their way out anyway. Of pods that wait, those that a machine can be had
    for whatever else the round does.
    """
    waiting: Iterable[KnownPod] = snapshot.pending
    if snapshot.holders() or any(known.shape.keeps_others_out for known in waiting):
        # Where pods keep others out of their domains, it is not clear that a pod can go to a new machine.
        return load_of(leaving)
    return load_of((*leaving, *(known for known in waiting if _gets_a_machine(engine, catalogue, known))))


def _gets_a_machine(engine: Engine, catalogue: Catalogue, known: KnownPod) -> bool:
    footing = known.shape.footing
    if footing is None or known.shape.has_terms:
        return False
    verdict = catalogue.launchable.get(footing)
    if verdict is None:
        verdict = catalogue.launchable[footing] = _is_launchable(engine, catalogue, footing)
    return verdict


def _is_launchable(engine: Engine, catalogue: Catalogue, footing: Footing) -> bool:
    """Whether a pool without limits has a machine for a pod that looks at nothing but the node."""
    for template in catalogue.templates:
        if template.pool.limits is not None or not engine.taints.tolerated(template.taints, footing.tolerations):
            continue
        merged = engine.algebra.on_machine(template.requirements, footing.requirements)
        if merged is None or merged.has_min_values:
            continue
        if Claim(template, template.mask, "").fitting(merged, footing.demand).any():
            return True
    return False
