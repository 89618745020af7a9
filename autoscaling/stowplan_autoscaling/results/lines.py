"""Rows of the results as lines of CSV, a batch at a time: what a column holds is decided once, not cell by cell.

Numbers without a fraction have no point, others go to the microsecond or millionth; None is an empty cell.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Any, Final

from .records import TABLES, Row, Waiting, shown

_WITH_PARTS: Final = frozenset(table for table in TABLES if "waiting" in table._fields)
"""Tables with a column that stands for several."""


def lines_of(rows: Sequence[Row]) -> str:
    """The lines of rows of one table, each with its end."""
    values: Iterable[Iterable[Any]] = rows if type(rows[0]) not in _WITH_PARTS else map(_in_parts, rows)
    columns = [_column(column) for column in zip(*values, strict=True)]
    lines = StringIO()
    csv.writer(lines, lineterminator="\n").writerows(zip(*columns, strict=True))
    return lines.getvalue()


def _in_parts(row: Row) -> Iterator[Any]:
    for value in row:
        if isinstance(value, Waiting):
            yield from value
        else:
            yield value


def _column(values: tuple[Any, ...]) -> Iterable[Any]:
    """What is not a float is written as it is, None as an empty cell."""
    types = set(map(type, values))
    if float not in types:
        return values
    if len(types) == 1:
        return shown(values)
    numbers = iter(shown(value for value in values if type(value) is float))
    return [next(numbers) if type(value) is float else value for value in values]
