"""From spec.demand to series of the demand package: what each entry brings, per second of virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stowplan_autoscaling.demand.arrivals import Arrivals, poisson_arrivals
from stowplan_autoscaling.demand.recorded import ReadOptions, read_recording
from stowplan_autoscaling.demand.series import (
    Piecewise,
    constant,
    diurnal,
    held,
    joined,
    piecewise,
    pulse,
    ramp,
    steps,
    total,
)
from stowplan_autoscaling.demand.series import Series as Curve
from stowplan_autoscaling.demand.simkube import Trace, read_trace
from stowplan_autoscaling.inputs.errors import FieldError, InputError
from stowplan_autoscaling.streams import Streams

from .demand import CsvSeries, Demand, Diurnal, Ramp, Series, Steps
from .manifests import Files

_NANO = 10**9
_DAY = 86_400 * _NANO
_MOST_ROUNDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one entry of spec.demand brings.

    `curve`: units per second over the seconds since the start; None for a trace. `arrivals`: the single moments, where
    there are any (Jobs). `trace`: what is replayed. `notes`: what the reader should be told about the file.
    """

    curve: Curve | None = None
    arrivals: Arrivals | None = None
    trace: Trace | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What series depend on beside themselves: duration and start of the run in nanoseconds, chance, and files."""

    duration: int
    start: int
    streams: Streams
    files: Files

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.duration / _NANO


def load_of(demand: Demand, clock: Clock, field: str) -> Load:
    """The load of an entry at a path. Raises FieldError."""
    if demand.trace is not None:
        path = clock.files.path(demand.trace.file)
        try:
            clock.files.note(path)
            return Load(trace=read_trace(path))
        except InputError as error:
            raise FieldError(f"{field}.trace.file", str(error)) from None
    if demand.series is None:
        raise FieldError(f"{field}.series", "must be set")
    curve, notes = _curve(demand.series, clock, demand.name, f"{field}.series")
    arrivals = None
    if demand.jobs is not None:
        arrivals = _job_arrivals(curve, demand, clock, field)
    return Load(curve=curve, arrivals=arrivals, notes=notes)


def job_of(demand: Demand, number: int = 1) -> dict[str, Any]:
    """The n-th Job of an entry with `jobs`, as an object of the API. Raises ValueError for any other."""
    if demand.jobs is None:
        raise ValueError(f"{demand.name} makes no Jobs")
    template = demand.jobs.template
    metadata = {
        **(template.get("metadata") or {}),
        "name": f"{demand.name}-{number}",
        "namespace": demand.jobs.namespace,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", **template, "metadata": metadata}


def _job_arrivals(curve: Curve, demand: Demand, clock: Clock, field: str) -> Arrivals:
    try:
        if demand.jobs is not None and demand.jobs.arrivals == "Poisson":
            return poisson_arrivals(curve, clock.seconds, clock.streams, demand.name)
        return _even(piecewise(curve, 0.0, clock.seconds), clock.seconds)
    except FieldError as error:
        raise FieldError(f"{field}.series", error.message) from None


def _even(rate: Piecewise, length: float) -> Arrivals:
    """One each time that the integral of the rate has grown by one."""
    count = int(rate.integral(0.0, length))
    return Arrivals(np.minimum(rate.times_of(np.arange(1, count + 1)), length))


def _curve(series: Series, clock: Clock, name: str, field: str) -> tuple[Curve, tuple[str, ...]]:
    factor = series.scale / (series.per / _NANO)
    notes: tuple[str, ...] = ()
    if series.csv is not None:
        curve, notes = _recorded(series.csv, factor, clock, f"{field}.csv")
    else:
        curve = _shape(series, clock, name, field).scaled(factor)
    spikes: list[Curve] = []
    for index, spike in enumerate(series.spikes):
        with _At(f"{field}.spikes[{index}]"):
            height = spike.height / (series.per / _NANO)
            spikes.append(pulse(spike.at / _NANO, spike.duration / _NANO, height, rise=spike.rise / _NANO))
    return total(curve, *spikes), notes


def _shape(series: Series, clock: Clock, name: str, field: str) -> Piecewise:
    if series.constant is not None:
        return constant(series.constant.value)
    if series.steps is not None:
        return _steps(series.steps, f"{field}.steps")
    if series.ramp is not None:
        return _ramp(series.ramp)
    if series.diurnal is not None:
        with _At(f"{field}.diurnal"):
            return _diurnal(series.diurnal, clock, name)
    raise FieldError(field, "must have a shape")


def _steps(shape: Steps, field: str) -> Piecewise:
    points = [(point.at / _NANO, point.value) for point in shape.points]
    with _At(field):
        return ramp(points) if shape.interpolate and len(points) > 1 else steps(points)


def _ramp(shape: Ramp) -> Piecewise:
    begin, end = shape.at / _NANO, (shape.at + shape.over) / _NANO
    if shape.start == shape.end:
        return held([0.0], [shape.start])
    return joined([begin, end], [shape.start, shape.end])


def _diurnal(shape: Diurnal, clock: Clock, name: str) -> Piecewise:
    """The peak is a time of day: the curve counts from the start."""
    return diurnal(
        low=shape.low,
        high=shape.high,
        peak=(shape.peak - clock.start % _DAY) / _NANO,
        length=clock.seconds,
        period=shape.period / _NANO,
        noise=shape.noise,
        resolution=shape.noise_step / _NANO,
        streams=clock.streams,
        key=name,
    )


def _recorded(csv: CsvSeries, factor: float, clock: Clock, field: str) -> tuple[Curve, tuple[str, ...]]:
    path = clock.files.path(csv.file)
    options = ReadOptions(
        value=csv.value_column,
        scale=factor,
        percent_of=csv.percent_of,
        interpolation="linear" if csv.interpolate else "hold",
        start=csv.begin / _NANO,
        length=None if csv.length is None else csv.length / _NANO,
        stretch=csv.stretch,
        repeat=csv.repeat,
        equal="add" if csv.equal == "Add" else "last",
        gaps="hold" if csv.gaps == "Hold" else "refuse",
        bin=csv.bin / _NANO,
        context_cost=csv.context_cost,
        generated_cost=csv.generated_cost,
    )
    try:
        clock.files.note(path)
        recording = read_recording(path, options)
    except InputError as error:
        raise FieldError(f"{field}.file", str(error)) from None
    if csv.repeat and clock.seconds > recording.duration * _MOST_ROUNDS:
        message = f"{recording.duration:g} s would repeat more than {_MOST_ROUNDS:,} times in the run"
        raise FieldError(f"{field}.repeat", message)
    return recording.series, recording.notes


class _At:
    """Puts the path of a part before the field of a FieldError."""

    def __init__(self, field: str) -> None:
        self._field = field

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FieldError):
            path = f"{self._field}.{error.field}" if error.field else self._field
            raise FieldError(path, error.message) from None
