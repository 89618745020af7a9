"""Reads the tables of a results folder: rows of text, and numbers over time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.inputs.errors import shown
from stowplan_autoscaling.results.records import TABLES, header

from .comparison import CURVE_POINTS

Floats = NDArray[np.float64]
BOTH: Final = 2
_NUMBERS: Final = (float, int, float | None, int | None)


class DamagedTableError(ValueError):
    """A table is not as a run leaves it. The message names the file, and where it is wrong."""


def read_rows(folder: str, name: str, *columns: str) -> Iterator[tuple[str, ...]]:
    """The cells of some columns, row by row; none for a table that is not there.

    Raises DamagedTableError for a table without one of the columns, or that is no table.
    """
    path = Path(folder, name)
    if not path.exists():
        return
    line = 0
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            names = next(reader, [])
            missing = [column for column in columns if column not in names]
            if missing:
                raise DamagedTableError(f"{path}: no column {missing[0]}")
            picked = [names.index(column) for column in columns]
            for cells in reader:
                line = reader.line_num
                if len(cells) != len(names):
                    message = f"{path}: line {line} has {len(cells)} columns, the header has {len(names)}"
                    raise DamagedTableError(message)
                yield tuple(cells[index] for index in picked)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DamagedTableError(f"{path}: line {line + 1} cannot be read: {error}") from None


def check_headers(folder: str) -> None:
    """A quick look at the tables of a run that are there: their columns and first row. Raises DamagedTableError."""
    for kind, name in TABLES.items():
        next(read_rows(folder, name, *header(kind)), None)


def check_tables(folder: str) -> None:
    """Reads all tables of a run that are there, every cell. Raises DamagedTableError, which names file and row."""
    for kind, name in TABLES.items():
        columns = header(kind)
        types = get_type_hints(kind)
        # Parts of waiting have no field of their own.
        numbers = [index for index, column in enumerate(columns) if types.get(column, float) in _NUMBERS]
        for row, cells in enumerate(read_rows(folder, name, *columns), 1):
            for index in numbers:
                try:
                    number(cells[index])
                except ValueError:
                    message = f"{Path(folder, name)}: row {row}: {columns[index]}: {shown(cells[index])} is no number"
                    raise DamagedTableError(message) from None


class Held(NamedTuple):
    """A number over time: `values[i]` holds from `times[i]` until the next time, the last one to the end."""

    times: Floats
    values: Floats

    @classmethod
    def of(cls, points: Iterable[tuple[float, float]]) -> Held:
        """From (time, value), in order."""
        pairs = np.asarray(list(points), dtype=np.float64).reshape(-1, BOTH)
        return cls(pairs[:, 0], pairs[:, 1])

    @classmethod
    def since_before(cls, points: Iterable[tuple[float, float]]) -> Held:
        """From (time, mean since the time before)."""
        held = cls.of(points)
        return cls(held.times[:-1], held.values[1:])

    def at(self, moments: Floats) -> Floats:
        """The values at some moments; that of the first time before it."""
        if not len(self.times):
            return np.zeros(len(moments))
        found: Floats = self.values[np.maximum(np.searchsorted(self.times, moments, side="right") - 1, 0)]
        return found

    def integral(self, moments: Floats) -> Floats:
        """From the first time to each of some moments, in order of time."""
        if not len(self.times):
            return np.zeros(len(moments))
        end = max(float(moments[-1]), float(self.times[-1]))
        edges = np.append(self.times, end)
        sums = np.concatenate(([0.0], np.cumsum(self.values * np.diff(edges))))
        return np.interp(moments, edges, sums)

    def curve(self, duration: float, points: int = CURVE_POINTS) -> tuple[float, ...]:
        """The mean of each of so many equal parts of a duration."""
        edges = np.linspace(0.0, duration, points + 1)
        return tuple(round(float(value), 6) + 0.0 for value in np.diff(self.integral(edges)) / (duration / points))

    def mean(self, begin: float, end: float) -> float:
        """Over a span of time."""
        if end <= begin:
            return float(self.at(np.asarray([begin]))[0])
        low, high = self.integral(np.asarray([begin, end]))
        return float(high - low) / (end - begin)


def number(text: str) -> float:
    """Of a cell; an empty one is 0."""
    return float(text) if text else 0.0
