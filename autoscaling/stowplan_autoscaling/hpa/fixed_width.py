"""Integers of fixed width, as the controller's compiled code has them on linux/amd64.

Sums and products of 64 bits wrap around; a float that does not fit an integer becomes the smallest one (the answer of
CVTTSD2SL and CVTTSD2SQ). Such numbers occur with absurd targets only, but then they decide: a proposal of -2147483648
scales a workload down.
"""

from __future__ import annotations

from typing import Final

MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)


def wrap32(number: int) -> int:
    """The low 32 bits, signed."""
    return number if MIN_INT32 <= number <= MAX_INT32 else (number + 2**31) % 2**32 - 2**31


def wrap64(number: int) -> int:
    """The low 64 bits, signed."""
    return number if MIN_INT64 <= number <= MAX_INT64 else (number + 2**63) % 2**64 - 2**63


def truncated_division(number: int, divisor: int) -> int:
    """Division toward zero."""
    quotient = abs(number) // abs(divisor)
    return quotient if (number < 0) == (divisor < 0) else -quotient


def float_to_int32(number: float) -> int:
    """Toward zero; out of range and not a number: the smallest."""
    return int(number) if -2147483649.0 < number < 2147483648.0 else MIN_INT32


def float_to_int64(number: float) -> int:
    """Toward zero; out of range and not a number: the smallest."""
    return int(number) if -9223372036854775808.0 <= number < 9223372036854775808.0 else MIN_INT64


def ceiling(number: float) -> float:
    """math.Ceil of a float, which may be infinite or not a number."""
    if not -9007199254740992.0 < number < 9007199254740992.0:  # whole already, or not finite
        return number
    whole = float(int(number))
    return whole + 1.0 if whole < number else whole


def divide(number: float, divisor: float) -> float:
    """IEEE division: by zero it gives an infinity, or not a number for 0 / 0."""
    if divisor != 0.0:
        return number / divisor
    if number > 0.0:
        return float("inf")
    return float("-inf") if number < 0.0 else float("nan")
