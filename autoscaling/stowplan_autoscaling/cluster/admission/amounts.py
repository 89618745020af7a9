"""Quantities that remember how they were written, for sums whose texts are those of an API server.

A quantity is written with decimal suffixes ("500m", "2k"), binary ones ("1Gi") or an exponent ("1e3"); a sum is written
like its first term that is not 0. A quantity that upstream takes for canonical when it reads it keeps its text, even if
it is not ("1e0", "1.500"). Follows staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go (ParseQuantity, Add,
CanonicalizeBytes) of Kubernetes v1.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from stowplan_scheduler.objects import Quantity, ResourceMap
from stowplan_scheduler.quantity import NANOS, NANOS_PER_MILLI, milli_value, parse_quantity

DECIMAL: Final = ""
BINARY: Final = "i"
EXPONENT: Final = "e"

_PARTS: Final = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]+|[a-zA-Z]*)")
_DECIMAL_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENTS: Final = {suffix: exponent for exponent, suffix in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MOST_DIGITS: Final = 18
_KIBI: Final = 1024


class Amount(NamedTuple):
    """A quantity in nano units, and how it is written. `written`: the text that it keeps until it is changed."""

    nanos: int
    form: str = DECIMAL
    written: str = ""

    def plus(self, other: Amount, times: int = 1) -> Amount:
        """The sum, written like the first of the two that is not 0."""
        return Amount(self.nanos + times * other.nanos, self.form if self.nanos else other.form)

    @property
    def text(self) -> str:
        """As an API server writes it."""
        return self.written or _text(self.nanos, self.form)


ZERO: Final = Amount(0)
ONE: Final = Amount(NANOS)

Amounts = dict[str, Amount]


@lru_cache(maxsize=65536)
def parse_amount(quantity: Quantity) -> Amount:
    """The amount of a quantity. Raises QuantityError."""
    nanos = parse_quantity(quantity)
    text = quantity.strip() if isinstance(quantity, str) else repr(quantity)
    match = _PARTS.fullmatch(text)
    if match is None:
        return Amount(nanos)
    number, fraction, suffix = match.group(1) or "0", match.group(2) or "", match.group(3)
    if suffix.endswith("i"):
        return Amount(nanos, BINARY, text if _is_kept_binary(number, fraction, suffix) else "")
    has_exponent = len(suffix) > 1
    exponent = int(suffix[1:]) if has_exponent else _EXPONENTS[suffix]
    keeps = _is_kept_decimal(number, fraction, exponent)
    return Amount(nanos, EXPONENT if has_exponent else DECIMAL, text if keeps else "")


def _is_kept_decimal(number: str, fraction: str, exponent: int) -> bool:
    digits = number + fraction
    scale = exponent - len(fraction)
    if len(digits) > _MOST_DIGITS or scale < -9 or scale % 3:
        return False
    return not digits.endswith("000") and not digits.startswith("0")


def _is_kept_binary(number: str, fraction: str, suffix: str) -> bool:
    """Upstream looks at the lowest three bits only: an even number of 1024ths may slip through."""
    power = 10 * _BINARY_SUFFIXES.index(suffix)
    if fraction or 15 - len(number) - power * 3 // 10 - 1 < 0:
        return False
    return int(number) & 7 != 0


def parse_amounts(quantities: ResourceMap | None) -> Amounts:
    """All amounts of a resource list. Raises QuantityError."""
    return {name: parse_amount(quantity) for name, quantity in (quantities or {}).items()}


def in_whole_milli(quantities: ResourceMap) -> ResourceMap:
    """The list with amounts finer than a milli rounded up to one, as the API server stores it. Raises QuantityError.

    Follows SetDefaults_ResourceList of pkg/apis/core/v1/defaults.go.
    """
    parsed = {name: parse_quantity(quantity) for name, quantity in quantities.items()}
    fine = {name: f"{milli_value(nanos)}m" for name, nanos in parsed.items() if nanos % NANOS_PER_MILLI}
    return {**quantities, **fine} if fine else quantities


def texts(amounts: Mapping[str, Amount]) -> ResourceMap:
    """The amounts as an API object carries them."""
    return {name: amount.text for name, amount in amounts.items()}


def add(total: Amounts, other: Mapping[str, Amount], times: int = 1) -> None:
    """Add amounts, `times` over, to a total in place."""
    for name, amount in other.items():
        total[name] = total[name].plus(amount, times) if name in total else _times(amount, times)


def _times(amount: Amount, times: int) -> Amount:
    return amount if times == 1 else ZERO.plus(amount, times)


def raise_to(total: Amounts, other: Mapping[str, Amount]) -> None:
    """Raise the amounts of a total, in place, to those of another list where these are greater."""
    for name, amount in other.items():
        if name not in total or amount.nanos > total[name].nanos:
            total[name] = amount


def masked(amounts: Mapping[str, Amount], names: Iterable[str]) -> Amounts:
    """The amounts of these names only."""
    wanted = frozenset(names)
    return {name: amount for name, amount in amounts.items() if name in wanted}


def same(left: Mapping[str, Amount], right: Mapping[str, Amount]) -> bool:
    """Whether both name the same resources and amounts, however they are written."""
    return left.keys() == right.keys() and all(amount.nanos == right[name].nanos for name, amount in left.items())


def listed(amounts: Mapping[str, Amount]) -> str:
    """For messages: name=amount, sorted by name."""
    return ",".join(f"{name}={amounts[name].text}" for name in sorted(amounts))


@lru_cache(maxsize=65536)
def _text(nanos: int, form: str) -> str:
    if nanos == 0:
        return "0"
    is_whole = nanos % NANOS == 0
    if form == BINARY and is_whole and abs(nanos) >= _KIBI * NANOS:
        number, times = _without_factors(nanos // NANOS, _KIBI)
        extra = max(0, times - len(_BINARY_SUFFIXES) + 1)
        return f"{number * _KIBI**extra}{_BINARY_SUFFIXES[times - extra]}"
    number, times = _without_factors(nanos, 10)
    exponent = times - 9
    while exponent % 3:
        number, exponent = number * 10, exponent - 1
    if form == EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    extra = max(0, exponent - 18)
    return f"{number * 10**extra}{_DECIMAL_SUFFIXES[exponent - extra]}"


def _without_factors(number: int, base: int) -> tuple[int, int]:
    times = 0
    while number % base == 0:
        number, times = number // base, times + 1
    return number, times
