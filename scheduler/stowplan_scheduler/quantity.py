"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers.

A quantity becomes a count of nano units: the finest unit that upstream keeps, so sums are exact and the conversion to
the unit of a resource (milli cores, bytes) happens once, at the end, where upstream rounds as well.

Follows staging/src/k8s.io/apimachinery/pkg/api/resource (quantity.go, suffix.go, scale_int.go) of Kubernetes v1.37.2.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NANOS: Final = 10**9
"""Nano units in one unit."""

NANOS_PER_MILLI: Final = 10**6

MAX_INT64: Final = 2**63 - 1

_SPLIT: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")

_FORMAT_WRONG: Final = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC: Final = "unable to parse numeric part of quantity"
_SUFFIX: Final = "unable to parse quantity's suffix"

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Anything beyond overflows both value() and milli_value(); a manifest must not make us compute 10**2000000000.
_MAX_SHIFT: Final = 60


class QuantityError(ValueError):
    """A text that is not a quantity; the message is upstream's."""


@lru_cache(maxsize=65536)
def parse_quantity(value: str | float) -> int:
    """The amount in nano units.

    Precision finer than a nano rounds away from zero. With a binary suffix the amount is capped at 2^63 - 1 units, as
    upstream does. A bare JSON number is read by its shortest text. Surrounding white space is dropped (as upstream's
    JSON decoder does).

    Raises QuantityError.
    """
    text = value.strip() if isinstance(value, str) else repr(value)
    match = _SPLIT.fullmatch(text)
    if not text or match is None:
        raise QuantityError(_FORMAT_WRONG)
    sign, whole, fraction, suffix = match.groups(default="")
    nanos = _magnitude(whole, fraction, suffix)
    return -nanos if sign == "-" else nanos


def _magnitude(whole: str, fraction: str, suffix: str) -> int:
    try:
        digits = int(f"0{whole}{fraction}")
    except ValueError as error:  # more digits than Python converts
        raise QuantityError(_NUMERIC) from error
    if suffix in _BINARY:
        # Upstream's fast scanner takes a text without digits for 0, its slow one, for large scales, does not.
        if not whole and not fraction and suffix in {"Pi", "Ei"}:
            raise QuantityError(_NUMERIC)
        amount = (digits << _BINARY[suffix]) * NANOS
        return min(_divide_up(amount, 10 ** len(fraction)), MAX_INT64 * NANOS)
    shift = _decimal_exponent(suffix) - len(fraction) + 9
    if not whole and not fraction and shift < 0:
        raise QuantityError(_NUMERIC)
    if digits == 0:
        return 0
    if shift >= 0:
        return int(digits * 10 ** min(shift, _MAX_SHIFT))
    # A divisor with more digits than the number rounds up to one nano, however large it is.
    return _divide_up(digits, 10 ** min(-shift, len(whole) + len(fraction) + 1))


def _decimal_exponent(suffix: str) -> int:
    known = _DECIMAL.get(suffix)
    if known is not None:
        return known
    if len(suffix) < 2 or suffix[0] not in "eE":
        raise QuantityError(_SUFFIX)
    try:
        exponent = int(suffix[1:])
    except ValueError as error:
        raise QuantityError(_SUFFIX) from error
    if not -MAX_INT64 - 1 <= exponent <= MAX_INT64:
        raise QuantityError(_SUFFIX)
    return (exponent + 2**31) % 2**32 - 2**31  # upstream keeps the low 32 bits


def _divide_up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)


def _away_from_zero(nanos: int, unit: int) -> int:
    amount = -(-nanos // unit) if nanos >= 0 else nanos // unit
    # Upstream's scaling answers 0 when the result does not fit an int64.
    return amount if -MAX_INT64 - 1 <= amount <= MAX_INT64 else 0


def value(nanos: int) -> int:
    """Whole units, rounded away from zero; 0 where that does not fit an int64 (upstream's Quantity.Value)."""
    return _away_from_zero(nanos, NANOS)


def milli_value(nanos: int) -> int:
    """Thousandths, rounded away from zero; 0 where that does not fit an int64 (upstream's Quantity.MilliValue)."""
    return _away_from_zero(nanos, NANOS_PER_MILLI)


def quantity_text(nanos: int) -> str:
    """An exact text: parse_quantity(quantity_text(n)) == n."""
    for unit, suffix in ((NANOS, ""), (10**6, "m"), (10**3, "u")):
        if nanos % unit == 0:
            return f"{nanos // unit}{suffix}"
    return f"{nanos}n"


def format_cpu(milli: int) -> str:
    """Milli cores for humans: 1500 -> "1500m", 2000 -> "2"."""
    return f"{milli // 1000}" if milli % 1000 == 0 else f"{milli}m"


def format_bytes(n: int) -> str:
    """Bytes for humans with a binary suffix: exact if it is short ("8Gi"), else with one decimal ("7.6Gi")."""
    size = abs(n)
    for suffix, exponent in reversed(_BINARY.items()):
        unit = 1 << exponent
        if size >= unit:
            # Tenths, half away from zero, in integers: a float would print some sizes differently near a half.
            tenths = (size * 20 + unit) // (2 * unit)
            text = f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"
            return f"{'-' if n < 0 else ''}{text}{suffix}"
    return str(n)


def format_quantity(name: str, amount: int) -> str:
    """An amount in the scheduler's unit (milli cores for cpu, bytes for memory and storage) for humans."""
    if name == "cpu":
        return format_cpu(amount)
    if name in {"memory", "ephemeral-storage"} or name.startswith("hugepages-"):
        return format_bytes(amount)
    return str(amount)
