"""Rows of a run's tables one by one, where a section needs them as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stowplan_autoscaling.experiment.run_tables import read_rows
from stowplan_autoscaling.results.records import TABLES, Row, header


def records(folder: Path, kind: type[Row]) -> Iterator[dict[str, str]]:
    """The rows of a table, by the names of its columns. None of a table that is not there."""
    names = header(kind)
    for cells in read_rows(str(folder), TABLES[kind], *names):
        yield dict(zip(names, cells, strict=True))


def number_of(cell: str) -> float | None:
    """A cell that may be empty."""
    return float(cell) if cell else None
