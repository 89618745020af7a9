"""Reads instance types with their list prices as Karpenter's kwok provider has them (JSON).

A list of {name, architecture, operatingSystems, resources, offerings}; an offering has a Price per hour in dollars,
Available, and Requirements on the labels of capacity type and zone. Follows kwok/cloudprovider/helpers.go (v1.15.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown
from stowplan_scheduler.quantity import QuantityError, parse_quantity

CAPACITY_TYPE_LABEL: Final = "karpenter.sh/capacity-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


class CatalogOffer(NamedTuple):
    """A machine of a type can be bought in that zone, as that capacity type, at that price per hour."""

    zone: str
    capacity_type: str
    price: float


class CatalogType(NamedTuple):
    """An instance type: resources as texts of quantities, and the offers that are available."""

    name: str
    architecture: str
    os: str
    resources: dict[str, str]
    offers: tuple[CatalogOffer, ...]


class _Requirement(msgspec.Struct):
    key: str
    operator: str
    values: list[str] = []


class _Offering(msgspec.Struct):
    price: float = msgspec.field(name="Price")
    available: bool = msgspec.field(name="Available", default=True)
    requirements: list[_Requirement] = msgspec.field(name="Requirements", default_factory=list)


class _Type(msgspec.Struct, rename="camel"):
    name: str
    resources: dict[str, str]
    offerings: list[_Offering]
    architecture: str = "amd64"
    operating_systems: list[str] = msgspec.field(default_factory=lambda: ["linux"])


def read_catalog(data: bytes, source: str) -> tuple[CatalogType, ...]:
    """The types of a file, in order. Raises InputError with the entry and the field."""
    try:
        entries = msgspec.json.decode(data, type=list[Any])
    except msgspec.DecodeError as error:
        raise InputError(source, "", "", f"not a list of instance types in JSON: {error}") from None
    found: dict[str, CatalogType] = {}
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        try:
            each = _type(entry)
        except FieldError as error:
            raise InputError(f"{source}: item {index + 1}", name or "", error.field, error.message) from None
        if each.name in found:
            raise InputError(f"{source}: item {index + 1}", each.name, "name", "occurs twice")
        found[each.name] = each
    return tuple(found.values())


def _type(entry: Any) -> CatalogType:
    try:
        given = msgspec.convert(entry, _Type)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise FieldError(path.removesuffix("`").lstrip("."), message) from None
    for resource, amount in given.resources.items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            raise FieldError(f"resources[{resource}]", f"{shown(amount)}: {error}") from None
    offers: dict[CatalogOffer, None] = {}
    for index, offering in enumerate(given.offerings):
        if not offering.price >= 0:
            raise FieldError(f"offerings[{index}].Price", f"{shown(offering.price)}: must be at least 0")
        if offering.available:
            offers.update(dict.fromkeys(_offers(offering)))
    os = given.operating_systems[0] if given.operating_systems else "linux"
    return CatalogType(given.name, given.architecture, os, given.resources, tuple(offers))


def _offers(offering: _Offering) -> Iterator[CatalogOffer]:
    for zone in _values(offering, ZONE_LABEL):
        for capacity_type in _values(offering, CAPACITY_TYPE_LABEL):
            yield CatalogOffer(zone, capacity_type, offering.price)


def _values(offering: _Offering, label: str) -> list[str]:
    """The values that an offering has of a label; "" if it says nothing about it."""
    return next((each.values for each in offering.requirements if each.key == label and each.operator == "In"), [""])
