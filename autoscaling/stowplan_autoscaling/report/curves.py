"""Series of a run, read from its tables, and thinned out where there are more points than a screen shows.

The rule, which the page states: a series of more than MAX_POINTS points is cut into MAX_POINTS equal parts of the run,
and each part shows its mean (rates and amounts), its highest value (what waits) or its lowest (what is ready).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from stowplan_autoscaling.experiment.run_tables import Floats, Held, read_rows
from stowplan_autoscaling.results.records import TABLES, Row

MAX_POINTS: Final = 2880
"""A day at 30 seconds."""

Keep = Literal["mean", "highest", "lowest"]


@dataclass(frozen=True, slots=True)
class Series:
    """Columns of a table over time, for each of the things it is about.

    times: seconds, ascending, T of them. columns: per column T x K, with NaN where a thing has no row. names: the K
    things in the order of their first rows.
    """

    times: Floats
    names: tuple[str, ...]
    columns: Mapping[str, Floats]

    def of(self, name: str, column: str) -> Floats:
        """A column of one thing; zeros for one that is not there."""
        if name not in self.names:
            return np.zeros(len(self.times))
        return self.columns[column][:, self.names.index(name)]

    def total(self, column: str, names: Sequence[str] | None = None) -> Floats:
        """A column over all things, or over some."""
        values = self.columns[column]
        if names is not None:
            values = values[:, [index for index, name in enumerate(self.names) if name in names]]
        return np.asarray(np.nansum(values, axis=1), dtype=np.float64)


def read_series(
    folder: Path, kind: type[Row], key: str, keep: Mapping[str, Keep], duration: float, *, since_before: bool = False
) -> Series:
    """Columns of a table of a run's folder, thinned out; no points if the table is not there.

    key: the column that names the thing, "" for a table about one thing only. keep: by column, what a part shows.
    since_before: rows are about the time since the row before, and are moved to its beginning.
    """
    cells = _read(folder, TABLES[kind], key, tuple(keep))
    moments, places = np.unique(np.array(cells.times, dtype=np.float64), return_inverse=True)
    of = np.array(cells.of, dtype=np.int64)
    columns: dict[str, Floats] = {}
    for column, values in cells.columns.items():
        columns[column] = np.full((len(moments), len(cells.names)), np.nan)
        columns[column][places, of] = values
    if since_before:
        moments, columns = moments[:-1], {column: values[1:] for column, values in columns.items()}
    return thinned(Series(moments, cells.names, columns), keep, duration)


@dataclass(slots=True)
class _Cells:
    """The cells of some columns, and of which moment and thing they are."""

    columns: dict[str, array[float]]
    times: array[float] = field(default_factory=lambda: array("d"))
    of: array[int] = field(default_factory=lambda: array("q"))
    names: tuple[str, ...] = ()


def _read(folder: Path, name: str, key: str, columns: Sequence[str]) -> _Cells:
    cells = _Cells({column: array("d") for column in columns})
    index: dict[str, int] = {}
    keys = (key,) if key else ()
    for row in read_rows(str(folder), name, "seconds", *keys, *columns):
        cells.times.append(float(row[0]))
        cells.of.append(index.setdefault(row[1] if key else "", len(index)))
        for column, cell in zip(columns, row[1 + len(keys) :], strict=True):
            cells.columns[column].append(float(cell) if cell else np.nan)
    cells.names = tuple(index)
    return cells


def thinned(series: Series, keep: Mapping[str, Keep], duration: float, limit: int = MAX_POINTS) -> Series:
    """The series with no more than `limit` points; a part of the run without a point is left out."""
    times = series.times
    if len(times) <= limit or duration <= 0:
        return series
    part = np.minimum((times * (limit / duration)).astype(np.int64), limit - 1)
    starts = np.flatnonzero(np.r_[True, part[1:] != part[:-1]])
    columns: dict[str, Floats] = {}
    for column, values in series.columns.items():
        match keep[column]:
            case "highest":
                columns[column] = np.fmax.reduceat(values, starts)
            case "lowest":
                columns[column] = np.fmin.reduceat(values, starts)
            case "mean":
                sums = np.add.reduceat(np.nan_to_num(values), starts)
                counts = np.add.reduceat((~np.isnan(values)).astype(np.float64), starts)
                columns[column] = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return Series(times[starts], series.names, columns)


def largest(sizes: Mapping[str, float], limit: int) -> tuple[str, ...]:
    """The names of the largest; of equal ones the first by name."""
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name))[:limit])


def spent(times: Floats, rate: Floats) -> Floats:
    """What a rate per hour has added up to at each moment; it holds until the next one. times in seconds."""
    return Held(times, np.nan_to_num(rate)).integral(times) / 3600
