"""The tables of docs/live-check.md: what stands between two marks is written anew, the rest stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from live.comparison import Row, Step, value_at

HEADER = ("", "predicted", "observed", "allowed", "")


def with_table(page: str, name: str, table: str) -> str:
    """The page with another table between the two marks of that name. Raises ValueError if it has none."""
    mark = f"<!-- {name} -->"
    found, count = re.subn(
        rf"({re.escape(mark)}\n).*?({re.escape(mark)})", lambda m: m[1] + table + m[2], page, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"the page must have {mark} twice, around one table")
    return found


def table_of(rows: Iterable[Row]) -> str:
    """Prediction and observation side by side."""
    lines = [
        (row.what, row.predicted, row.observed, row.band, "as predicted" if row.holds else "**not**") for row in rows
    ]
    return markdown([HEADER, *lines])


def nodes_over_time(predictions: Mapping[float, tuple[int, int]], observed: Sequence[Step]) -> str:
    """The number of nodes at some moments."""
    lines = [("second", "predicted", "observed")]
    for time, (least, most) in predictions.items():
        text = str(least) if least == most else f"{least} to {most}"
        lines.append((f"{time:.0f}", text, str(value_at(observed, time))))
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table; the first line is its header."""
    rule = ["---"] * len(lines[0])
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:]))
