"""From spec.nodePools to pools with their machines and prices, and what can be wrong with them.

A price is that of the price book, else that of the type. Whoever has neither cannot be had; a pool without anything to
be had is an error, since the run would only show that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from stowplan_autoscaling.cluster.kubelet.allocatable import allocatable
from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.prices import CatalogType
from stowplan_autoscaling.supply.pools import ON_DEMAND, SPOT, MachineType, Offer, Pool
from stowplan_scheduler.quantity import parse_quantity

from .base import duplicate
from .findings import near
from .node_groups import MAX_PODS, allocatable_of
from .node_labels import check_labels, check_taints, check_value
from .node_pools import NEVER, InstanceType, NodePool
from .simulation import SimulationSpec
from .values import parse_duration

PriceOf = Callable[[str, str, str], float | None]
"""Price per hour of (type, zone, capacity type); None where the book has none."""

_KWOK_RESERVED: Final = {"cpu": "100m", "memory": "10Mi"}
"""Overhead of every instance type of Karpenter's kwok provider (kwok/cloudprovider/helpers.go)."""

KARPENTER_ZONE: Final = "zone-a"
"""Of machines of a pool without zones: Karpenter knows no machine without one."""

_DURATIONS: Final = ("consolidate_after", "expire_after")


def pools_of(spec: SimulationSpec, catalog: Mapping[str, MachineType], price_of: PriceOf) -> tuple[Pool, ...]:
    """The pools of a simulation. `catalog`: the types of spec.instanceTypesFile. Raises FieldError."""
    types = _types(spec, catalog)
    names = [group.name for group in spec.cluster.node_groups]
    found: list[Pool] = []
    for index, pool in enumerate(spec.node_pools):
        field = f"spec.nodePools[{index}]"
        if pool.name in names:
            raise FieldError(f"{field}.name", f"{shown(pool.name)}: occurs twice among node groups and pools")
        names.append(pool.name)
        _check_engine(pool, spec, field)
        _check_durations(pool, field)
        made = _pool(pool, spec, types, price_of, field)
        found.append(replace(made, changes=tuple(_changes(made, spec, types, price_of, field))))
    _check_stock_outs(spec, [replace(pool, types=pool.all_types) for pool in found], types)
    return tuple(found)


def _pool(
    pool: NodePool, spec: SimulationSpec, types: Mapping[str, MachineType], price_of: PriceOf, field: str
) -> Pool:
    """The pool as it is between two changes."""
    _check_places(pool, field)
    check_labels(pool.labels, f"{field}.labels")
    check_taints(pool.taints, f"{field}.taints")
    check_taints(pool.startup_taints, f"{field}.startupTaints")
    zones = pool.zones or ((KARPENTER_ZONE,) if spec.supply.karpenter is not None else ("",))
    chosen = _chosen(pool, types, field)
    machines = tuple(_with_offers(machine, pool, zones, price_of, field) for machine in chosen)
    if spec.supply.cluster_autoscaler is not None and len(machines) > 1:
        message = f"{len(machines)} types: nodes of one pool are alike for the Cluster Autoscaler: give it one"
        raise FieldError(f"{field}.instanceTypes", message)
    return Pool(spec=pool, types=machines)


def _changes(
    pool: Pool, spec: SimulationSpec, types: Mapping[str, MachineType], price_of: PriceOf, field: str
) -> Iterator[tuple[int, Pool]]:
    """What the pool is after each of its changes."""
    before = pool.spec
    for index, change in enumerate(pool.spec.changes):
        before = before.model_copy(update=change.fields)
        yield change.at, _pool(before, spec, types, price_of, f"{field}.changes[{index}]")


def group_prices(spec: SimulationSpec, catalog: Mapping[str, MachineType], price_of: PriceOf) -> dict[str, float]:
    """Price per hour of a node of each group: its own, or that of its instance type on demand."""
    types = _types(spec, catalog)
    found: dict[str, float] = {}
    for group in spec.cluster.node_groups:
        price = group.price
        for zone in group.zones or ("",):
            if price is None and group.instance_type:
                price = price_of(group.instance_type, zone, ON_DEMAND)
        if price is None and group.instance_type in types:
            price = _list_price(types[group.instance_type], "", ON_DEMAND)
        if price is not None:
            found[group.name] = price
    return found


def catalog_types(entries: Iterable[CatalogType]) -> dict[str, MachineType]:
    """The types of a catalogue by name, with what kwok's provider reserves of each for kubelet."""
    return {
        entry.name: MachineType(
            name=entry.name,
            capacity=entry.resources,
            allocatable=allocatable(entry.resources, kube_reserved=_KWOK_RESERVED, eviction_hard={}),
            architecture=entry.architecture,
            os=entry.os,
            offers=tuple(Offer(*offer) for offer in entry.offers),
        )
        for entry in entries
    }


def duration_of(text: str) -> int | None:
    """Nanoseconds of a duration; None for Never."""
    return None if text == NEVER else parse_duration(text)


# ---- types ---------------------------------------------------------------------------------------------------------


def _types(spec: SimulationSpec, catalog: Mapping[str, MachineType]) -> dict[str, MachineType]:
    """All types by name; those of the simulation replace those of the file."""
    found = dict(catalog)
    own: set[str] = set()
    for index, each in enumerate(spec.instance_types):
        field = f"spec.instanceTypes[{index}]"
        if each.name in own:
            raise FieldError(f"{field}.name", f"{shown(each.name)}: occurs twice")
        own.add(each.name)
        _check_type(each, field)
        found[each.name] = _machine(each, field)
    return found


def _machine(type: InstanceType, field: str) -> MachineType:
    capacity = {"pods": MAX_PODS, **type.capacity}
    offers = [Offer("", ON_DEMAND, type.price)] if type.price is not None else []
    offers += [Offer("", SPOT, type.spot_price)] if type.spot_price is not None else []
    return MachineType(
        name=type.name,
        capacity=capacity,
        allocatable=allocatable_of(capacity, type.reserved, field),
        architecture=type.architecture,
        os=type.os,
        labels=type.labels,
        offers=tuple(offers),
    )


def _chosen(pool: NodePool, types: Mapping[str, MachineType], field: str) -> Iterator[MachineType]:
    names: dict[str, None] = {}
    for index, pattern in enumerate(pool.instance_types):
        matching = [name for name in types if fnmatchcase(name, pattern)]
        if not matching:
            raise FieldError(
                f"{field}.instanceTypes[{index}]", f"no instance type {shown(pattern)}{near(pattern, sorted(types))}"
            )
        names.update(dict.fromkeys(matching))
    return (types[name] for name in sorted(names))


def _with_offers(
    machine: MachineType, pool: NodePool, zones: Sequence[str], price_of: PriceOf, field: str
) -> MachineType:
    """The type with what the pool can have of it."""
    offers = []
    for zone in zones:
        for capacity_type in pool.capacity_types:
            price = price_of(machine.name, zone, capacity_type)
            price = _list_price(machine, zone, capacity_type) if price is None else price
            if price is not None:
                offers.append(Offer(zone, capacity_type, price))
    if not offers:
        terms = " or ".join(pool.capacity_types)
        message = (
            f"{machine.name}: has no price {terms}: set price or spotPrice of the instance type, or give it a row in "
            "spec.prices.file"
        )
        raise FieldError(f"{field}.instanceTypes", message)
    return replace(machine, offers=tuple(offers))


def _list_price(machine: MachineType, zone: str, capacity_type: str) -> float | None:
    """Of the type itself: in that zone, or in any."""
    fitting = [offer for offer in machine.offers if offer.capacity_type == capacity_type and offer.zone in {zone, ""}]
    fitting = fitting or [offer for offer in machine.offers if offer.capacity_type == capacity_type]
    return min((offer.price for offer in fitting), default=None)


# ---- checks --------------------------------------------------------------------------------------------------------


def _check_engine(pool: NodePool, spec: SimulationSpec, field: str) -> None:
    if spec.supply.karpenter is not None and pool.min:
        raise FieldError(f"{field}.min", f"{pool.min}: Karpenter keeps no minimum: set initial, and a budget")
    if pool.max == 0:
        raise FieldError(f"{field}.max", "0: the pool can never have a node")
    if pool.changes and spec.supply.karpenter is None:
        raise FieldError(f"{field}.changes", "are Karpenter's: nobody else replaces nodes whose pool has changed")
    if spec.supply.cluster_autoscaler is None:
        return
    if len(pool.capacity_types) > 1:
        raise FieldError(f"{field}.capacityTypes", "the Cluster Autoscaler takes one per pool")
    if pool.limits:
        raise FieldError(f"{field}.limits", "are Karpenter's: give the Cluster Autoscaler a max")


def _check_durations(pool: NodePool, field: str) -> None:
    for name in _DURATIONS:
        text = getattr(pool.disruption, name)
        try:
            duration_of(text)
        except ValueError:
            words = name.split("_")
            camel = words[0] + "".join(word.title() for word in words[1:])
            message = f"{shown(text)}: must be a duration such as 30s, 10m or 720h, or Never"
            raise FieldError(f"{field}.disruption.{camel}", message) from None


def _check_places(pool: NodePool, field: str) -> None:
    for index, zone in enumerate(pool.zones):
        if not zone:
            raise FieldError(f"{field}.zones[{index}]", "must not be empty")
        check_value(zone, f"{field}.zones[{index}]")
    for names, part in ((pool.zones, "zones"), (pool.capacity_types, "capacityTypes")):
        twice = duplicate(names)
        if twice is not None:
            raise FieldError(f"{field}.{part}[{twice}]", f"{shown(names[twice])}: occurs twice")


def _check_type(each: InstanceType, field: str) -> None:
    check_value(each.name, f"{field}.name")
    check_value(each.architecture, f"{field}.architecture")
    check_value(each.os, f"{field}.os")
    check_labels(each.labels, f"{field}.labels")
    for name in ("cpu", "memory"):
        if name not in each.capacity:
            raise FieldError(f"{field}.capacity.{name}", "must be set: a machine without it runs no pod")
    for name in ("cpu", "memory", "pods"):
        if not parse_quantity(each.capacity.get(name, MAX_PODS)):
            message = f"{shown(each.capacity[name])}: must be greater than zero: a machine without it runs no pod"
            raise FieldError(f"{field}.capacity.{name}", message)


def _check_stock_outs(spec: SimulationSpec, pools: Sequence[Pool], types: Mapping[str, MachineType]) -> None:
    """A stock-out of what nobody could have would say nothing."""
    names = [pool.spec.name for pool in pools]
    for index, each in enumerate(spec.provider.stock_outs):
        field = f"spec.provider.stockOuts[{index}]"
        _need(each.pool, names, f"{field}.pool", "pool")
        _need(each.instance_type, sorted(types), f"{field}.instanceType", "instance type")
        offers = [
            offer
            for pool in pools
            if each.pool in {"", pool.spec.name}
            for machine in pool.types
            if each.instance_type in {"", machine.name}
            for offer in machine.offers
        ]
        if not offers:
            message = f"{shown(each.instance_type)}: no machine of it belongs to {_those(each.pool)}"
            raise FieldError(f"{field}.instanceType", message)
        zones = sorted({offer.zone for offer in offers if offer.zone})
        if each.zone and not zones:
            raise FieldError(f"{field}.zone", f"{shown(each.zone)}: machines of {_those(each.pool)} have no zones")
        _need(each.zone, zones, f"{field}.zone", "zone")
        terms = {offer.capacity_type for offer in offers if each.zone in {"", offer.zone}}
        if each.capacity_type is not None and each.capacity_type not in terms:
            message = f"{each.capacity_type}: {_those(each.pool)} rents no such machine"
            raise FieldError(f"{field}.capacityType", message)


def _those(pool: str) -> str:
    return f"pool {pool}" if pool else "any pool"


def _need(name: str, known: Sequence[str], field: str, what: str) -> None:
    if name and name not in known:
        raise FieldError(field, f"no {what} {shown(name)}{near(name, known)}")
