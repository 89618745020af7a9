"""Instance types, their offerings, and the table in which the solver looks them up.

A claim in the solver is a mask over the rows of one table. What requirements leave of the rows is remembered per
requirement of one label, so a decision costs a few vector operations whatever the catalogue's size.

Follows pkg/cloudprovider/types.go (InstanceType, Offering, WorstLaunchPrice, SatisfiesMinValues) and
filterInstanceTypesByRequirements of pkg/controllers/provisioning/scheduling/nodeclaim.go, Karpenter core v1.15.0.
Left out: reserved capacity and offerings that override the capacity of their type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .amounts import Axis, asked, offered, subtracted
from .labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE
from .requirement import Requirement, one_of
from .requirements import Requirements

Mask = NDArray[np.bool_]
Column = NDArray[np.int64]
Prices = NDArray[np.float64]

MAX_INSTANCE_TYPES: Final = 600
"""How many types a claim may name when it is launched."""

_LAUNCH_ORDER: Final = (
    Requirements.of([one_of(CAPACITY_TYPE, SPOT)]),
    Requirements.of([one_of(CAPACITY_TYPE, ON_DEMAND)]),
)
"""Which kind of capacity a launch takes first; the price of a launch is bounded by the kind that will be taken."""

_MEMO_LIMIT: Final = 1 << 14


class Offering(NamedTuple):
    """A type can be had in a zone on some terms. `price` per hour; `available`: it is in stock as far as known.

    `requirements`: what else an offering says about its nodes, beside zone and capacity type.
    """

    zone: str
    capacity_type: str
    price: float
    available: bool = True
    requirements: Requirements | None = None

    @property
    def labels(self) -> Requirements:
        """What the offering says about its nodes."""
        own = Requirements.of([one_of(CAPACITY_TYPE, self.capacity_type), one_of(ZONE, self.zone)])
        return own if self.requirements is None else own.adding(self.requirements)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A type of machine. `requirements`: the values that its nodes' labels may have. Amounts in nano units.

    `overhead`: what the system keeps for itself.
    """

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Mapping[str, int]
    overhead: Mapping[str, int] = field(default_factory=dict)

    @property
    def allocatable(self) -> dict[str, int]:
        """What pods can have; huge pages are taken out of the memory."""
        result = subtracted(self.capacity, self.overhead)
        for name, nanos in self.capacity.items():
            if name.startswith("hugepages-"):
                result["memory"] = max(result.get("memory", 0) - nanos, 0)
        return result

    def price(self, zone: str, capacity_type: str) -> float | None:
        """The price of the offering in a zone on some terms; None without one."""
        for offering in self.offerings:
            if offering.zone == zone and offering.capacity_type == capacity_type:
                return offering.price
        return None


class TypeTable:
    """The types that a pool may choose from, as columns.

    `undefined`: the labels that a machine may get although nobody mentions them. Prices are per hour, infinite where
    there is no offering.
    """

    def __init__(self, types: Sequence[InstanceType], axis: Axis, undefined: frozenset[str]) -> None:
        self.types = tuple(types)
        self.axis = axis
        self.rows = {item.name: row for row, item in enumerate(self.types)}
        self._undefined = undefined
        self._offers = [(row, offer) for row, item in enumerate(self.types) for offer in item.offerings]
        self._labels = [offer.labels for _, offer in self._offers]
        self._owners = np.array([row for row, _ in self._offers], dtype=np.intp)
        self._prices: Prices = np.array([offer.price for _, offer in self._offers], dtype=np.float64)
        self._available: Mask = np.array([offer.available for _, offer in self._offers], dtype=np.bool_)
        self._allocatable: dict[int, Column] = {}
        self._capacity: dict[int, Column] = {}
        allocatable = [item.allocatable for item in self.types]
        for name, column in axis.items():
            self._allocatable[column] = _column(name, allocatable)
        self.sound: Mask = np.array([all(n >= 0 for n in amounts.values()) for amounts in allocatable], dtype=np.bool_)
        self._amounts = allocatable
        self._type_key_masks: dict[Requirement, Mask] = {}
        self._offer_key_masks: dict[Requirement, Mask] = {}
        self._masks: dict[Requirements, Mask] = {}
        self._offer_masks: dict[Requirements, Mask] = {}
        self._cheapest: dict[Requirements, Prices] = {}
        self._type_keys = sorted({key for item in self.types for key in item.requirements.keys})
        self._offer_keys = sorted({key for labels in self._labels for key in labels.keys})

    def __len__(self) -> int:
        return len(self.types)

    def allocatable(self, column: int) -> Column:
        """What each type has of a resource."""
        known = self._allocatable.get(column)
        if known is None:
            name = self.axis.name(column)
            known = self._allocatable[column] = _column(name, self._amounts)
        return known

    def within(self, limits: Mapping[str, int]) -> Mask:
        """The types of which one more stays within the limits, nano units per resource."""
        mask: Mask = np.ones(len(self.types), dtype=np.bool_)
        for name, nanos in limits.items():
            column = self.axis.column(name)
            known = self._capacity.get(column)
            if known is None:
                known = self._capacity[column] = np.array(
                    [asked(name, item.capacity.get(name, 0)) for item in self.types], dtype=np.int64
                )
            mask &= known <= offered(name, nanos)
        return mask

    def mask_of(self, types: Sequence[InstanceType]) -> Mask:
        """The rows of some of the types."""
        mask: Mask = np.zeros(len(self.types), dtype=np.bool_)
        mask[[self.rows[item.name] for item in types]] = True
        return mask

    def most(self, mask: Mask, name: str) -> int:
        """The most that one of the types has of a resource, in nano units."""
        return max((self.types[row].capacity.get(name, 0) for row in np.flatnonzero(mask)), default=0)

    def allowed(self, requirements: Requirements) -> Mask:
        """The types that agree with the requirements and have an available offering that does."""
        known = self._masks.get(requirements)
        if known is not None:
            return known
        mask: Mask = self.sound.copy()
        for key in self._type_keys:
            requirement = requirements.find(key)
            if requirement is not None:
                mask &= self._types_agreeing(requirement)
        mask &= self.stocked(requirements)
        mask.setflags(write=False)
        if len(self._masks) > _MEMO_LIMIT:
            self._masks.clear()
        self._masks[requirements] = mask
        return mask

    def stocked(self, requirements: Requirements) -> Mask:
        """The types with an available offering that agrees with the requirements."""
        mask: Mask = np.zeros(len(self.types), dtype=np.bool_)
        mask[self._owners[self.offers(requirements)]] = True
        return mask

    def offers(self, requirements: Requirements) -> Mask:
        """The available offerings that agree with the requirements."""
        known = self._offer_masks.get(requirements)
        if known is not None:
            return known
        mask: Mask = self._available & self._compatible(requirements)
        mask.setflags(write=False)
        if len(self._offer_masks) > _MEMO_LIMIT:
            self._offer_masks.clear()
        self._offer_masks[requirements] = mask
        return mask

    def _compatible(self, requirements: Requirements) -> Mask:
        mask: Mask = np.ones(len(self._offers), dtype=np.bool_)
        for key in self._offer_keys:
            requirement = requirements.find(key)
            if requirement is not None:
                mask &= self._offers_agreeing(requirement)
            elif key not in self._undefined:
                mask &= np.array(
                    [key not in labels or labels.get(key).tolerates_absence for labels in self._labels], dtype=np.bool_
                )
        return mask

    def _types_agreeing(self, requirement: Requirement) -> Mask:
        known = self._type_key_masks.get(requirement)
        if known is None:
            own = [item.requirements.find(requirement.key) for item in self.types]
            known = np.array([r is None or r.agrees(requirement) for r in own], dtype=np.bool_)
            self._type_key_masks[requirement] = known
        return known

    def _offers_agreeing(self, requirement: Requirement) -> Mask:
        known = self._offer_key_masks.get(requirement)
        if known is None:
            own = [labels.find(requirement.key) for labels in self._labels]
            known = np.array([r is None or r.agrees(requirement) for r in own], dtype=np.bool_)
            self._offer_key_masks[requirement] = known
        return known

    def cheapest(self, requirements: Requirements) -> Prices:
        """The lowest price of each type among its offerings that agree."""
        known = self._cheapest.get(requirements)
        if known is None:
            known = np.full(len(self.types), np.inf)
            mask = self.offers(requirements)
            np.minimum.at(known, self._owners[mask], self._prices[mask])
            known.setflags(write=False)
            if len(self._cheapest) > _MEMO_LIMIT:
                self._cheapest.clear()
            self._cheapest[requirements] = known
        return known

    def worst_launch(self, requirements: Requirements) -> Prices:
        """The highest price that a launch of each type may end up with: of spot offerings, else of on-demand ones."""
        found: Prices = np.full(len(self.types), np.inf)
        open_: Mask = np.ones(len(self.types), dtype=np.bool_)
        mask = self.offers(requirements)
        for kind in _LAUNCH_ORDER:
            chosen = mask & self._compatible(kind)
            highest: Prices = np.full(len(self.types), -np.inf)
            np.maximum.at(highest, self._owners[chosen], self._prices[chosen])
            taken = open_ & (highest > -np.inf)
            found[taken] = highest[taken]
            open_ &= ~taken
        return found

    def in_order(self, mask: Mask, requirements: Requirements) -> list[InstanceType]:
        """The types of a mask by price; of equal prices in the order of the catalogue."""
        rows = np.flatnonzero(mask)
        prices = self.cheapest(requirements)[rows]
        return [self.types[row] for row in rows[np.argsort(prices, kind="stable")]]


def available_offerings(item: InstanceType, requirements: Requirements, undefined: frozenset[str]) -> list[Offering]:
    """The offerings of a type that are in stock and agree with the requirements."""
    return [offer for offer in item.offerings if offer.available and requirements.compatible(offer.labels, undefined)]


def _column(name: str, amounts: Sequence[Mapping[str, int]]) -> Column:
    return np.array([offered(name, known.get(name, 0)) for known in amounts], dtype=np.int64)
