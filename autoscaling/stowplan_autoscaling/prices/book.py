"""A price book: prices per hour by type, zone and capacity type, and machines that are paid for whether used or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

DEFAULT_CURRENCY: Final = "USD"


class Offering(NamedTuple):
    """What a machine is bought as. In a row of a book, "" is any zone, any capacity type."""

    instance_type: str
    zone: str
    capacity_type: str


class PriceRow(NamedTuple):
    """A price per hour, before the discount (a share from 0 to 1)."""

    offering: Offering
    price: float
    discount: float

    @property
    def net(self) -> float:
        """Per hour, as it is paid."""
        return self.price * (1 - self.discount)


class Commitment(NamedTuple):
    """So many machines are paid for at that price per hour each, used or not; the next ones cost what the row says."""

    offering: Offering
    machines: int
    price: float


class NodeTime(NamedTuple):
    """A machine and the time for which it is paid, in seconds."""

    offering: Offering
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """Prices of one currency. The row that says most about a machine counts: type with zone and capacity type, then
    with capacity type, then with zone, then the type alone. `unused_columns`: of the file, that mean nothing.
    """

    currency: str = DEFAULT_CURRENCY
    rows: Mapping[Offering, PriceRow]
    commitments: tuple[Commitment, ...] = ()
    unused_columns: tuple[str, ...] = ()

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Per hour after the discount, without commitments; None if the book has no row for it."""
        for found in (
            self.rows.get(Offering(instance_type, zone, capacity_type)),
            self.rows.get(Offering(instance_type, "", capacity_type)),
            self.rows.get(Offering(instance_type, zone, "")),
            self.rows.get(Offering(instance_type, "", "")),
        ):
            if found is not None:
                return found.net
        return None

    def rate(self, running: Mapping[Offering, int], prices: Mapping[Offering, float] | None = None) -> float:
        """Per hour while so many machines run.

        Commitments first cover what is dearest among the machines that they are for; the rest is paid by its price.
        `prices`: for offerings of which the book says nothing. Raises KeyError for a machine without any price.
        """
        priced = {offering: self._price(offering, prices) for offering, count in running.items() if count}
        left = {offering: running[offering] for offering in priced}
        total = 0.0
        for commitment in self.commitments:
            total += commitment.machines * commitment.price
            spare = commitment.machines
            fitting = [offering for offering in left if _covers(commitment.offering, offering)]
            for offering in sorted(fitting, key=lambda each: (-priced[each], each)):
                taken = min(spare, left[offering])
                left[offering] -= taken
                spare -= taken
        return total + sum(count * priced[offering] for offering, count in sorted(left.items()))

    def cost(self, nodes: Iterable[NodeTime], until: float, prices: Mapping[Offering, float] | None = None) -> float:
        """Of machines over a run of `until` seconds, commitments over the whole run. Raises KeyError as `rate`."""
        nodes = list(nodes)
        moments = sorted({0.0, until, *(min(moment, until) for node in nodes for moment in (node.start, node.end))})
        changes: dict[float, dict[Offering, int]] = {}
        for node in nodes:
            for moment, step in ((min(node.start, until), 1), (min(node.end, until), -1)):
                at = changes.setdefault(moment, {})
                at[node.offering] = at.get(node.offering, 0) + step
        running: dict[Offering, int] = {}
        total = 0.0
        for begin, end in pairwise(moments):
            for offering, step in changes.get(begin, {}).items():
                running[offering] = running.get(offering, 0) + step
            total += self.rate(running, prices) * (end - begin) / 3600
        return total

    def _price(self, offering: Offering, prices: Mapping[Offering, float] | None) -> float:
        found = self.price(*offering)
        if found is not None:
            return found
        return (prices or {})[offering]


NO_PRICES: Final = PriceBook(rows={})
"""The book of whoever has none."""


def _covers(committed: Offering, offering: Offering) -> bool:
    """Nobody commits to spot machines, unless the row says so."""
    return (
        committed.instance_type == offering.instance_type
        and committed.zone in {"", offering.zone}
        and (
            committed.capacity_type == offering.capacity_type
            or (not committed.capacity_type and not _is_spot(offering))
        )
    )


def _is_spot(offering: Offering) -> bool:
    return offering.capacity_type == "spot"
