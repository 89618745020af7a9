"""Resource amounts as columns of integers.

Amounts in nano units are exact, but memory in them does not fit 64 bits. In a column, cpu is counted in nano cores and
everything else in thousandths; a request that is finer still rounds up, an offer down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan_scheduler.objects import Quantity
from stowplan_scheduler.quantity import parse_quantity

Amounts = Mapping[str, int]
"""Resource name -> nano units."""

Demand = tuple[tuple[int, int], ...]
"""(column, amount) of everything that is asked for, above 0."""

NODES: Final = "nodes"
"""The resource of a pool's limits that counts its nodes."""

_MILLION: Final = 10**6


def nano_amounts(quantities: Mapping[str, Quantity] | None) -> dict[str, int]:
    """A list of Kubernetes quantities in nano units. Raises QuantityError."""
    return {name: parse_quantity(amount) for name, amount in quantities.items()} if quantities else {}


def asked(name: str, nanos: int) -> int:
    """A request in the unit of its column."""
    return nanos if name == "cpu" else -(-nanos // _MILLION)


def offered(name: str, nanos: int) -> int:
    """An offer in the unit of its column."""
    return nanos if name == "cpu" else nanos // _MILLION


class Axis:
    """Which resource stands in which column. Columns are only ever added."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        for name in ("cpu", "memory", "pods", "ephemeral-storage"):
            self.column(name)

    def __len__(self) -> int:
        return len(self._columns)

    def column(self, name: str) -> int:
        """The column of a resource; a new one if it was not seen before."""
        return self._columns.setdefault(name, len(self._columns))

    def name(self, column: int) -> str:
        """The resource of a column."""
        return next(name for name, number in self._columns.items() if number == column)

    def items(self) -> tuple[tuple[str, int], ...]:
        """(name, column) of all."""
        return tuple(self._columns.items())

    def demand(self, requests: Amounts) -> Demand:
        """What is asked for, column by column."""
        return tuple((self.column(name), asked(name, nanos)) for name, nanos in requests.items() if nanos > 0)


def add(total: dict[str, int], more: Amounts) -> None:
    """Add amounts in place."""
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def subtracted(amounts: Amounts, less: Amounts) -> dict[str, int]:
    """The amounts less others; what only the others name is left out (upstream's Subtract)."""
    return {name: nanos - less.get(name, 0) for name, nanos in amounts.items()}
