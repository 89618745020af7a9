"""The rows of a demand file: which columns matter, what a time stamp says, what a value may be.

| dialect | columns | time |
|---|---|---|
| plain | timestamp, time, t or ts; value | ISO 8601, `YYYY-MM-DD HH:MM:SS`, seconds or milliseconds (beyond 1e11) |
| NAB | timestamp, value | `YYYY-MM-DD HH:MM:SS` |
| Azure LLM | TIMESTAMP, ContextTokens, GeneratedTokens: a row per request | with 7 decimals |
| VASIM | TIMESTAMP, CPU_USAGE_ACTUAL | `YYYY.MM.DD-HH:MM:SS:ffffff` |

Names of columns in any case and order; a stamp without a zone is UTC. Times are integers of nanoseconds, so that
differences are exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import BinaryIO, Final

from stowplan_autoscaling.inputs.csv_lines import csv_lines
from stowplan_autoscaling.inputs.errors import InputError, shown

TIME_COLUMNS: Final = ("timestamp", "time", "t", "ts")
VALUE_COLUMNS: Final = ("value", "cpu_usage_actual")
TOKEN_COLUMNS: Final = ("contexttokens", "generatedtokens")

_NANO: Final = 10**9
_MILLISECONDS_FROM: Final = 10**11
"""Larger numbers are milliseconds: as seconds they would be beyond the year 5000."""

_LARGEST: Final = 1e15
"""Sums over a year of it still have a fraction."""

_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_STAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d\d:?\d\d)?)?"
)
_VASIM: Final = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)-(\d\d):(\d\d):(\d\d)(?::(\d{1,9}))?()")
_VALUE: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_TIME_RULE: Final = 'must be a time such as 2026-01-31T08:00:00Z, "2026-01-31 08:00:00", or a number of seconds'


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The positions of the columns that matter, and the names of those that do not."""

    time: int
    values: tuple[int, ...]
    names: tuple[str, ...]
    """The header's names for time and values, for messages."""
    tokens: bool
    """One row per request, values are its context and generated tokens."""
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its line, its time in nanoseconds (since 1970, or since whatever its seconds count from), its values."""

    line: int
    time: int
    values: tuple[float, ...]


def read_rows(stream: BinaryIO, source: str, value_column: str = "") -> tuple[Columns, list[Row]]:
    """All rows of a file. `value_column` names another column for the value. Raises InputError with file and line."""
    # Line by line, so that an error in the encoding has its line.
    lines = csv_lines((line.decode("utf-8") for line in stream), source)
    first = next(lines, None)
    if first is None:
        raise InputError(source, "", "", "the file is empty: a header such as timestamp,value and rows are expected")
    columns = _columns(first[1], f"{source}: line {first[0]}", value_column)
    rows = [_row(line, cells, columns, first[1], source) for line, cells in lines]
    if not rows:
        raise InputError(source, "", "", "there are no rows after the header")
    return columns, rows


def _columns(header: Sequence[str], place: str, value_column: str) -> Columns:
    names = [name.strip().lower() for name in header]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(place, "", "", f"two columns are called {shown(twice[0])}")
    time = next((name for name in TIME_COLUMNS if name in names), None)
    if time is None:
        expected = ", ".join(TIME_COLUMNS)
        raise InputError(place, "", "", f"no column for the time: the header must have one of {expected}")
    tokens = not value_column and set(TOKEN_COLUMNS) <= set(names)
    wanted = TOKEN_COLUMNS if tokens else (_value_column(names, place, value_column),)
    used = {time, *wanted}
    return Columns(
        time=names.index(time),
        values=tuple(names.index(name) for name in wanted),
        names=tuple(header[names.index(name)].strip() for name in (time, *wanted)),
        tokens=tokens,
        ignored=tuple(name.strip() for name in header if name.strip().lower() not in used),
    )


def _value_column(names: Sequence[str], place: str, wanted: str) -> str:
    if wanted:
        if wanted.strip().lower() not in names:
            raise InputError(place, "", "", f"no column {shown(wanted)}: there are {', '.join(names)}")
        return wanted.strip().lower()
    found = next((name for name in VALUE_COLUMNS if name in names), None)
    if found is None:
        expected = "value, CPU_USAGE_ACTUAL, or ContextTokens and GeneratedTokens"
        raise InputError(place, "", "", f"no column for the value: the header must have {expected}, or name the column")
    return found


def _row(line: int, cells: list[str], columns: Columns, header: Sequence[str], source: str) -> Row:
    place = f"{source}: line {line}"
    if len(cells) != len(header):
        raise InputError(place, "", "", f"has {len(cells)} columns, the header has {len(header)}")
    try:
        time = parse_time(cells[columns.time])
    except ValueError as error:
        raise InputError(place, "", columns.names[0], str(error)) from None
    values = []
    for position, name in zip(columns.values, columns.names[1:], strict=True):
        try:
            values.append(parse_value(cells[position]))
        except ValueError as error:
            raise InputError(place, "", name, str(error)) from None
    return Row(line, time, tuple(values))


def parse_value(text: str) -> float:
    """A number of at least 0. Raises ValueError that says so."""
    text = text.strip()
    if not text:
        raise ValueError("is empty: must be a number of at least 0")
    number = float(text) if _VALUE.fullmatch(text) else math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{shown(text)}: must be a number of at least 0")
    if number > _LARGEST:
        raise ValueError(f"{shown(text)}: must be at most {_LARGEST:g}")
    return number


def parse_time(text: str) -> int:
    """A time stamp in nanoseconds. Raises ValueError that says what a stamp may be."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return _seconds(text)
    match = _STAMP.fullmatch(text) or _VASIM.fullmatch(text)
    if match is None:
        raise ValueError(f"{shown(text)}: {_TIME_RULE}")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=_zone(zone)
        )
    except ValueError as error:
        raise ValueError(f"{shown(text)}: {error}") from None
    whole = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    return whole * _NANO + int((fraction or "0").ljust(9, "0"))


def _seconds(text: str) -> int:
    whole, _, fraction = text.partition(".")
    nanos = int(whole) * _NANO + int(fraction.ljust(9, "0") or 0)
    return nanos // 1000 if int(whole) > _MILLISECONDS_FROM else nanos


def _zone(text: str | None) -> timezone:
    if not text or text == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def time_text(nanos: int) -> str:
    """A time stamp for messages: as a date where it is one, else in seconds."""
    if nanos < 10**8 * _NANO:  # before 1973: seconds that somebody counted from 0
        return f"{nanos / _NANO:g}"
    whole, rest = divmod(nanos, _NANO)
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=whole)).strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0") if rest else text
