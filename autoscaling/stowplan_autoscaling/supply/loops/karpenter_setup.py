"""Pools and machines in Karpenter's terms, and the offerings that are known to be out of stock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.kernel import MINUTE
from stowplan_autoscaling.resources.pool_loading import duration_of
from stowplan_autoscaling.supply.karpenter.amounts import nano_amounts
from stowplan_autoscaling.supply.karpenter.instance_types import InstanceType, Offering, TypeTable
from stowplan_autoscaling.supply.karpenter.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, WELL_KNOWN, ZONE
from stowplan_autoscaling.supply.karpenter.node_pools import Budget, Disruption, NodePool
from stowplan_autoscaling.supply.karpenter.requirement import one_of
from stowplan_autoscaling.supply.karpenter.requirements import Requirements
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue, Engine, Options
from stowplan_autoscaling.supply.pools import POOL_LABEL, MachineType, Pool

if TYPE_CHECKING:
    from stowplan_autoscaling.resources.supply import KarpenterSpec
    from stowplan_scheduler.objects import Pod

BLACKLISTED: Final = 3 * MINUTE
"""For so long an offering that was out of stock, or of which a spot machine was taken back, is not asked for (the AWS
provider's unavailable offerings cache)."""


def options_of(spec: KarpenterSpec, pools: Sequence[Pool]) -> Options:
    """The settings. Labels of machine types can be selected on although no pool mentions them."""
    own = {key for pool in pools for machine in pool.all_types for key in machine.labels}
    return Options(
        ignore_preferences=spec.preference_policy == "Ignore",
        spot_to_spot=spec.spot_to_spot_consolidation,
        batch_idle=spec.batch_idle_duration,
        batch_max=spec.batch_max_duration,
        well_known=WELL_KNOWN | own,
    )


def node_pool_of(pool: Pool, *, names_types: bool = False) -> NodePool:
    """A pool as a NodePool. A maximum of nodes is a limit.

    `names_types`: its requirements say which types it takes, of more that the provider offers it.
    """
    spec = pool.spec
    names = (one_of(INSTANCE_TYPE, *(machine.name for machine in pool.types)),) if names_types else ()
    limits = nano_amounts(spec.limits)
    if spec.max is not None:
        limits["nodes"] = spec.max * 10**9
    disruption = spec.disruption
    offers = [offer for machine in pool.types for offer in machine.offers]
    return NodePool(
        name=pool.name,
        requirements=(
            one_of(ZONE, *sorted({offer.zone for offer in offers})),
            one_of(CAPACITY_TYPE, *sorted({offer.capacity_type for offer in offers})),
            *names,
        ),
        weight=spec.weight,
        labels={POOL_LABEL: pool.name, **spec.labels},
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        limits=limits or None,
        disruption=Disruption(
            policy=disruption.consolidation_policy,
            consolidate_after=duration_of(disruption.consolidate_after),
            budgets=tuple(
                Budget(
                    nodes=each.nodes,
                    reasons=each.reasons or None,
                    schedule=each.schedule or None,
                    duration=each.duration,
                )
                for each in disruption.budgets
            ),
        ),
        expire_after=duration_of(disruption.expire_after),
        termination_grace_period=disruption.termination_grace_period,
    )


class Shelf:
    """What can be had, as far as is known: the catalogue is made anew when that changes."""

    def __init__(self, engine: Engine, pools: Sequence[Pool], node_pools: Mapping[str, NodePool]) -> None:
        self._engine = engine
        self._pools = pools
        self._node_pools = node_pools
        self._until: dict[tuple[str, str, str], int] = {}
        self._daemons: tuple[Pod, ...] = ()
        self._catalogue: Catalogue | None = None

    def set_daemons(self, pods: Sequence[Pod]) -> None:
        """A pod of each DaemonSet."""
        self._daemons = tuple(pods)
        self._catalogue = None

    def forget(self) -> None:
        """A node pool has changed."""
        self._catalogue = None

    def mark(self, machine: str, zone: str, capacity_type: str, now: int) -> None:
        """An offering is not to be had."""
        self._until[machine, zone, capacity_type] = now + BLACKLISTED
        self._catalogue = None

    def catalogue(self, now: int) -> Catalogue:
        """What can be had now."""
        over = [key for key, until in self._until.items() if until <= now]
        for key in over:
            del self._until[key]
        if self._catalogue is None or over:
            tables = {pool.name: self._table(pool) for pool in self._pools}
            engine = self._engine
            self._catalogue = Catalogue(
                [*self._node_pools.values()], tables, self._daemons, engine.options, engine.axis
            )
        return self._catalogue

    def _table(self, pool: Pool) -> TypeTable:
        return self._engine.table([self._type(machine) for machine in pool.all_types])

    def _type(self, machine: MachineType) -> InstanceType:
        offerings = tuple(
            Offering(*offer, available=(machine.name, offer.zone, offer.capacity_type) not in self._until)
            for offer in machine.offers
        )
        labels = {INSTANCE_TYPE: machine.name, ARCH: machine.architecture, OS: machine.os, **machine.labels}
        capacity, allocatable = nano_amounts(machine.capacity), nano_amounts(machine.allocatable)
        return InstanceType(
            name=machine.name,
            requirements=Requirements.of(
                [
                    *(one_of(key, value) for key, value in labels.items()),
                    one_of(ZONE, *sorted({offer.zone for offer in offerings})),
                    one_of(CAPACITY_TYPE, *sorted({offer.capacity_type for offer in offerings})),
                ]
            ),
            offerings=offerings,
            capacity=capacity,
            overhead={name: nanos - allocatable.get(name, 0) for name, nanos in capacity.items()},
        )
