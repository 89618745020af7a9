"""Rows of the results as lines of CSV, a batch at a time: what a column holds is decided once, not cell by cell.

Numbers without a fraction have no point, others go to the microsecond or millionth; None is an empty cell; text is
quoted where it must be, as the csv module does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from .records import TABLES, Row, Waiting, text_of

_WITH_PARTS: Final = frozenset(table for table in TABLES if "waiting" in table._fields)
"""Tables with a column that stands for several."""

_SPECIAL: Final = re.compile('[",\r\n]')


def lines_of(rows: Sequence[Row]) -> str:
    """The lines of rows of one table, each with its end."""
    values: Iterable[Iterable[Any]] = rows if type(rows[0]) not in _WITH_PARTS else map(_in_parts, rows)
    columns = [_column(column) for column in zip(*values, strict=True)]
    return "\n".join(map(",".join, zip(*columns, strict=True))) + "\n"


def _in_parts(row: Row) -> Iterator[Any]:
    for value in row:
        if isinstance(value, Waiting):
            yield from value
        else:
            yield value


def _column(values: tuple[Any, ...]) -> Iterable[str]:
    kinds = set(map(type, values))
    if kinds == {int}:
        return map(repr, values)
    if kinds == {str}:
        return values if _SPECIAL.search("\0".join(values)) is None else map(_quoted, values)
    if str in kinds:
        return (_quoted(value) if isinstance(value, str) else text_of(value) for value in values)
    return map(text_of, values)


def _quoted(text: str) -> str:
    return text if _SPECIAL.search(text) is None else '"' + text.replace('"', '""') + '"'
