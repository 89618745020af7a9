"""RFC 3339 texts, as API objects carry them, and nanoseconds since 1970-01-01T00:00:00Z."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

NANOSECONDS: Final = 10**9
"""Nanoseconds in a second."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY: Final = 86_400

_RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


class TimestampError(ValueError):
    """A text that is not an RFC 3339 time."""


@lru_cache(maxsize=65536)
def parse_time(text: str) -> int:
    """Nanoseconds since the epoch, negative before it. Digits beyond nanoseconds are cut off.

    Raises TimestampError.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise TimestampError(f"{text!r} is not an RFC 3339 time such as 2006-01-02T15:04:05Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    if hour > 23 or minute > 59 or second > 59 or int(offset_hour or 0) > 24 or int(offset_minute or 0) > 59:
        raise TimestampError(f"{text!r}: hour, minute, second or offset out of range")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise TimestampError(f"{text!r}: {error}") from error
    offset = int(offset_hour or 0) * 3600 + int(offset_minute or 0) * 60
    seconds = days * _DAY + hour * 3600 + minute * 60 + second - (-offset if sign == "-" else offset)
    return seconds * NANOSECONDS + int((fraction or "").ljust(9, "0")[:9])


def format_time(ns: int) -> str:
    """The RFC 3339 text in UTC; the fraction is printed only if there is one, without zeros at its end.

    Raises TimestampError outside the years 1 to 9999.
    """
    seconds, fraction = divmod(ns, NANOSECONDS)
    days, rest = divmod(seconds, _DAY)
    try:
        day = _date_text(days)
    except (ValueError, OverflowError) as error:
        raise TimestampError(f"{ns} ns lies outside the years 1 to 9999") from error
    tail = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{day}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}{tail}Z"


@lru_cache(maxsize=1024)
def _date_text(days: int) -> str:
    """The date so many days after 1970-01-01."""
    return date.fromordinal(days + _EPOCH_DAY).isoformat()
