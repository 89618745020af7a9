"""Demand that was measured: a CSV file becomes a series, or single arrivals.

Rows must ascend. Of samples with the same stamp the last one counts, unless they are to be added up. A value holds
until the next row (or straight lines are drawn). A hole of more than three times the usual step is refused, since
nobody knows what happened in it, unless it is to be bridged with the last value. Files with one row per request become
rates in bins, and keep the single arrivals beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO, Final, Literal

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown
from stowplan_autoscaling.inputs.sources import MAX_CSV_BYTES, Progress, open_source

from .arrivals import Arrivals
from .checks import above, at_least
from .csv_rows import Columns, Row, read_rows, time_text
from .series import MOST_POINTS, Floats, Piecewise, Repeated, Series, held, joined

GAP_FACTOR: Final = 3.0
"""A step longer than this many median steps is a gap."""

_NANO: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file is read. Raises FieldError.

    `value`: name of the column, default the dialect's. `scale`: factor on every value. `per`: seconds that a value
    counts for (300: requests per five minutes become requests per second). `percent_of`: values are percent of this.
    `interpolation`: hold until the next row, or linear. `start`, `length`: the part of the recording to use, in
    recorded seconds since its first row. `stretch`: play it that many times as slowly. `repeat`: start over at the
    end; otherwise the last value is held (a recording of requests ends with 0). `equal`: which of samples with equal
    stamps counts. `gaps`: refuse or hold. `bin`: seconds per bin for request rows. `context_cost`, `generated_cost`:
    what a token of either kind counts for; both 0 count requests.
    """

    value: str = ""
    scale: float = 1.0
    per: float = 1.0
    percent_of: float | None = None
    interpolation: Literal["hold", "linear"] = "hold"
    start: float = 0.0
    length: float | None = None
    stretch: float = 1.0
    repeat: bool = False
    equal: Literal["last", "add"] = "last"
    gaps: Literal["refuse", "hold"] = "refuse"
    bin: float = 1.0
    context_cost: float = 0.0
    generated_cost: float = 0.0

    def __post_init__(self) -> None:
        at_least("scale", self.scale)
        above("per", self.per)
        if self.percent_of is not None:
            at_least("percentOf", self.percent_of)
        at_least("start", self.start)
        if self.length is not None:
            above("length", self.length)
        above("stretch", self.stretch)
        above("bin", self.bin)
        at_least("contextCost", self.context_cost)
        at_least("generatedCost", self.generated_cost)
        for field, value, allowed in (
            ("interpolation", self.interpolation, ("hold", "linear")),
            ("equal", self.equal, ("last", "add")),
            ("gaps", self.gaps, ("refuse", "hold")),
        ):
            if value not in allowed:
                raise FieldError(field, f"{shown(value)}: must be {' or '.join(allowed)}")

    @property
    def factor(self) -> float:
        """What every value is multiplied by."""
        share = 1.0 if self.percent_of is None else self.percent_of / 100
        return self.scale * share / self.per


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A file that was read. Times of the series are seconds since the start of the part that is used."""

    series: Series
    arrivals: Arrivals | None
    """The single requests of a file with one row per request; once, even if the series repeats."""
    began: int
    """The stamp of the first row, nanoseconds."""
    duration: float
    """Seconds that the part lasts as played."""
    rows: int
    notes: tuple[str, ...]
    """What the reader should be told: columns ignored, gaps bridged."""


def read_recording(source: str, options: ReadOptions | None = None, *, stdin: BinaryIO | None = None) -> Recording:
    """Reads a demand file, plain or gzip. Raises InputError that names file, line and column."""
    options = options or ReadOptions()
    with open_source(source, max_bytes=MAX_CSV_BYTES, stdin=stdin, progress=Progress(None, 0)) as opened:
        columns, rows = read_rows(opened.stream, opened.name, options.value)
        name = opened.name
    _check_order(rows, columns, name)
    notes = (
        [f"{name}: columns that are not needed were ignored: {', '.join(columns.ignored)}"] if columns.ignored else []
    )
    try:
        if columns.tokens:
            return _requests(rows, options, name, notes)
        return _samples(rows, options, name, notes, columns)
    except FieldError as error:
        raise InputError.of(name, "", error) from None


def _check_order(rows: Sequence[Row], columns: Columns, name: str) -> None:
    for before, row in pairwise(rows):
        if row.time < before.time:
            message = (
                f"{time_text(row.time)} is {_duration(before.time - row.time)} before line {before.line}: "
                "the clock jumped back; rows must ascend"
            )
            raise InputError(f"{name}: line {row.line}", "", columns.names[0], message)


def _duration(nanos: int) -> str:
    return f"{nanos / _NANO:.10g} s"


# ---- one row per request -------------------------------------------------------------------------------------------


def _requests(rows: Sequence[Row], options: ReadOptions, name: str, notes: list[str]) -> Recording:
    times = _seconds_since_first(rows)
    arrivals = Arrivals(times, _weights(rows, options)).window(options.start, options.length, options.stretch)
    if not len(arrivals):
        raise _outside(float(times[-1]), options, name)
    duration = (
        options.length * options.stretch
        if options.length is not None
        else _whole_bins(float(times[-1] - options.start) * options.stretch, options.bin)
    )
    if duration / options.bin > MOST_POINTS:
        raise FieldError("bin", f"{options.bin:g} s over {duration:g} s: at most {MOST_POINTS:,} bins")
    rates = arrivals.rates(options.bin, duration)
    return Recording(
        series=Repeated(rates, duration) if options.repeat else rates,
        arrivals=arrivals,
        began=rows[0].time,
        duration=duration,
        rows=len(rows),
        notes=tuple(notes),
    )


def _weights(rows: Sequence[Row], options: ReadOptions) -> Floats:
    if not options.context_cost and not options.generated_cost:
        return np.full(len(rows), options.factor)
    tokens = np.asarray([row.values for row in rows], dtype=np.float64)
    result: Floats = options.factor * (options.context_cost * tokens[:, 0] + options.generated_cost * tokens[:, 1])
    return result


def _whole_bins(seconds: float, width: float) -> float:
    """So many seconds as bins that hold the last arrival, too."""
    return (math.floor(seconds / width) + 1) * width


# ---- samples -------------------------------------------------------------------------------------------------------


def _samples(rows: Sequence[Row], options: ReadOptions, name: str, notes: list[str], columns: Columns) -> Recording:
    times = _seconds_since_first(rows)
    values = np.asarray([row.values[0] for row in rows], dtype=np.float64) * options.factor
    step = _gaps(times, rows, options, name, notes, columns)
    times, values = _without_equal(times, values, add=options.equal == "add")
    whole = held(times, values) if options.interpolation == "hold" else joined(times, values)
    span = float(times[-1]) + step
    if options.start and options.start > times[-1]:
        raise _outside(float(times[-1]), options, name)
    end = span if options.length is None else options.start + options.length
    if options.length is not None and end > span:
        notes.append(f"{name}: the recording ends {end - span:.10g} s before start + length: its last value is held")
    part = _part(whole, options, end, cut=options.length is not None)
    duration = (end - options.start) * options.stretch
    if options.repeat and not duration:
        raise InputError(name, "", "", "a single row cannot be repeated: give a length")
    return Recording(
        series=Repeated(part, duration) if options.repeat else part,
        arrivals=None,
        began=rows[0].time,
        duration=duration,
        rows=len(rows),
        notes=tuple(notes),
    )


def _part(whole: Piecewise, options: ReadOptions, end: float, *, cut: bool) -> Piecewise:
    part = whole
    if options.start or cut:
        part = whole.window(options.start, end if cut else math.inf)
    return part if options.stretch == 1 else part.stretched(options.stretch)


def _gaps(
    times: Floats, rows: Sequence[Row], options: ReadOptions, name: str, notes: list[str], columns: Columns
) -> float:
    """The median step in seconds (0 for a single row). Gaps are refused or noted."""
    steps = np.diff(times)
    steps_up = steps[steps > 0]
    if not steps_up.size:
        return 0.0
    median = float(np.median(steps_up))
    gaps: NDArray[np.int64] = np.flatnonzero(steps > GAP_FACTOR * median)
    if gaps.size:
        first = int(gaps[0])
        hole = f"no rows for {steps[first]:.10g} s where the usual step is {median:.10g} s"
        if options.gaps == "refuse":
            place = f"{name}: line {rows[first + 1].line}"
            message = f"a gap before {time_text(rows[first + 1].time)}: {hole}; `gaps: Hold` bridges it"
            raise InputError(place, "", columns.names[0], message)
        place = f"line {rows[first + 1].line}"
        notes.append(f"{name}: {gaps.size} gaps were bridged with the value before; the first, {place}: {hole}")
    return median


def _without_equal(times: Floats, values: Floats, *, add: bool) -> tuple[Floats, Floats]:
    """One value per stamp: the sum, or the last."""
    first = np.append(True, np.diff(times) > 0)
    if first.all():
        return times, values
    starts = np.flatnonzero(first)
    if add:
        return times[starts], np.add.reduceat(values, starts)
    return times[starts], values[np.append(starts[1:], times.size) - 1]


def _seconds_since_first(rows: Sequence[Row]) -> Floats:
    began = rows[0].time
    return np.asarray([row.time - began for row in rows], dtype=np.int64) / _NANO


def _outside(last: float, options: ReadOptions, name: str) -> InputError:
    message = f"{options.start:g}: nothing is recorded from there on; the last row is at {last:.10g} s"
    return InputError(name, "", "start", message)
