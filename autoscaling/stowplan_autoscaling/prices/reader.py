"""Reads a price book (CSV, UTF-8). Names of columns in any case and order, with or without dashes, blanks, underscores.

| column | meaning |
|---|---|
| type (instanceType) | instance type; needed |
| price (pricePerHour) or pricePerMonth | of one machine per hour, or for 730 hours; one of them is needed |
| capacityType | on-demand or spot; empty: any |
| zone | empty: any |
| currency | the same in all rows |
| discount | 0.15 or 15%; taken off the price |
| committed | number of machines that are paid for whether used or not |
| committedPrice | per hour, or per month if the price is, of each of them; empty: the price after the discount |
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from stowplan_autoscaling.inputs.csv_lines import csv_lines
from stowplan_autoscaling.inputs.errors import InputError, shown

from .book import DEFAULT_CURRENCY, Commitment, Offering, PriceBook, PriceRow

HOURS_PER_MONTH: Final = 730
"""8,760 hours of a year by twelve, as price lists have it."""

_COLUMNS: Final[Mapping[str, str]] = {
    "type": "type",
    "instancetype": "type",
    "price": "price",
    "priceperhour": "price",
    "pricepermonth": "month",
    "capacitytype": "capacity",
    "zone": "zone",
    "currency": "currency",
    "discount": "discount",
    "committed": "committed",
    "committedcount": "committed",
    "committedprice": "committed price",
}
_CAPACITY_TYPES: Final = ("on-demand", "spot")
_NUMBER: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?")
_LARGEST: Final = 1e9


def read_price_book(stream: BinaryIO, source: str, currency: str = "") -> PriceBook:
    """The book. `currency`: that it must have, if it says any. Raises InputError with file, line and column."""
    lines = csv_lines((line.decode("utf-8-sig") for line in stream), source)
    first = next(lines, None)
    if first is None:
        raise InputError(source, "", "", "the file is empty: a header such as type,price and rows are expected")
    columns = _columns(first[1], f"{source}: line {first[0]}")
    rows: dict[Offering, PriceRow] = {}
    commitments: list[Commitment] = []
    told = currency
    for line, cells in lines:
        place = f"{source}: line {line}"
        if len(cells) != len(first[1]):
            raise InputError(place, "", "", f"has {len(cells)} columns, the header has {len(first[1])}")
        entry = _Entry(place, {name: cells[index].strip() for name, index in columns.items()}, first[1], columns)
        row, commitment = _row(entry)
        if row.offering in rows:
            raise entry.error("type", f"{_described(row.offering)} occurs twice")
        rows[row.offering] = row
        if commitment is not None:
            commitments.append(commitment)
        told = _currency(entry, told, currency)
    if not rows:
        raise InputError(source, "", "", "there are no rows after the header")
    return PriceBook(
        currency=told or DEFAULT_CURRENCY,
        rows=rows,
        commitments=tuple(commitments),
        unused_columns=tuple(name.strip() for index, name in enumerate(first[1]) if index not in columns.values()),
    )


def _columns(header: Sequence[str], place: str) -> dict[str, int]:
    """Positions by what a column means; others are ignored."""
    found: dict[str, int] = {}
    for index, name in enumerate(header):
        meaning = _COLUMNS.get(re.sub(r"[-_ ]", "", name.strip().lower()))
        if meaning is None:
            continue
        if meaning in found:
            raise InputError(place, "", "", f"columns {header[found[meaning]]} and {name} mean the same")
        found[meaning] = index
    if "type" not in found:
        raise InputError(place, "", "", "no column type: the header must have type, and price or pricePerMonth")
    if ("price" in found) == ("month" in found):
        raise InputError(place, "", "", "exactly one of the columns price (per hour), pricePerMonth is needed")
    if "committed price" in found and "committed" not in found:
        raise InputError(place, "", "", "committedPrice needs the column committed, the number of machines")
    return found


class _Entry:
    """The cells of a line by what they mean."""

    def __init__(self, place: str, cells: Mapping[str, str], header: Sequence[str], columns: Mapping[str, int]) -> None:
        self._place = place
        self._cells = cells
        self._names = {name: header[index].strip() for name, index in columns.items()}

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self._names

    def text(self, name: str) -> str:
        """What the cell says; nothing for one that is empty or has no column."""
        return self._cells.get(name, "")

    def error(self, name: str, message: str) -> InputError:
        """A finding about a cell."""
        return InputError(self._place, "", self._names.get(name, name), message)

    def number(self, name: str, *, needed: bool = False) -> float | None:
        """Of a cell; None for an empty one."""
        text = self.text(name)
        if not text and not needed:
            return None
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not value <= _LARGEST:
            raise self.error(name, f"{shown(text)}: must be a number from 0 to {_LARGEST:g}, with a point and no sign")
        return value


def _row(entry: _Entry) -> tuple[PriceRow, Commitment | None]:
    offering = Offering(entry.text("type"), entry.text("zone"), entry.text("capacity").lower())
    if not offering.instance_type:
        raise entry.error("type", "is empty: must be an instance type")
    if offering.capacity_type and offering.capacity_type not in _CAPACITY_TYPES:
        raise entry.error("capacity", f"{shown(entry.text('capacity'))}: must be on-demand, spot or empty (any)")
    hours = HOURS_PER_MONTH if entry.has("month") else 1
    price = entry.number("month" if entry.has("month") else "price", needed=True) or 0.0
    row = PriceRow(offering, price / hours, _discount(entry))
    return row, _commitment(entry, row, hours)


def _discount(entry: _Entry) -> float:
    text = entry.text("discount")
    if not text:
        return 0.0
    number = text.removesuffix("%").strip()
    value = float(number) if _NUMBER.fullmatch(number) else math.nan
    value = value / 100 if text.endswith("%") else value
    if not value <= 1:
        raise entry.error("discount", f"{shown(text)}: must be a share from 0 to 1, or a percentage such as 15%")
    return value


def _commitment(entry: _Entry, row: PriceRow, hours: int) -> Commitment | None:
    count, price = entry.number("committed"), entry.number("committed price")
    if count is None:
        if price is not None:
            raise entry.error("committed", "must be set beside committedPrice")
        return None
    if count != int(count):
        raise entry.error("committed", f"{shown(entry.text('committed'))}: must be a whole number of machines")
    if not count:
        return None
    return Commitment(row.offering, int(count), row.net if price is None else price / hours)


def _currency(entry: _Entry, told: str, wanted: str) -> str:
    text = entry.text("currency")
    if text and told and text != told:
        why = "spec.prices.currency is" if wanted else "an earlier row has"
        raise entry.error("currency", f"{shown(text)}: {why} {told}; amounts are not converted")
    return told or text


def _described(offering: Offering) -> str:
    terms = [text for text in (offering.zone, offering.capacity_type) if text]
    return f"{shown(offering.instance_type)}{' (' + ', '.join(terms) + ')' if terms else ''}"
