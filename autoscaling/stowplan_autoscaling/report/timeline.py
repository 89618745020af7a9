"""The section "Over time": demand, pods, nodes and cost of each candidate on one axis, and all candidates together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from bokeh.plotting import figure

from stowplan_autoscaling.experiment.comparison import ComparisonReport
from stowplan_autoscaling.experiment.run_tables import Floats
from stowplan_autoscaling.results.records import PoolSample, ServiceSample, WorkloadSample

from . import palette
from .amounts import amount, short
from .curves import MAX_POINTS, Keep, Series, largest, read_series, spent
from .embedding import Documents
from .figures import Choice, Style, TimeAxis, hover, source, step_area, step_line
from .markup import Child, Markup, key, legend, tag
from .overview import overview
from .runs import CandidateRuns, RunFolder
from .sections import Tab, panel, picker, section, tabs, time_buttons

SERVICES: Final = 6
WORKLOADS: Final = 8
POOLS: Final = 8
"""So many can be chosen or told apart: the largest of the baseline."""

ALL: Final = "all workloads"
OTHER: Final = "other pools"

_THINNED: Final = (
    f"Series of more than {MAX_POINTS:,} points are cut into {MAX_POINTS:,} equal parts, of which each shows the "
    "mean of rates, the highest number of what waits, and the lowest of pods that are ready."
)

_SERVICE: Final[dict[str, Keep]] = {"offered": "mean", "served": "mean", "failed": "mean"}
_WORKLOAD: Final[dict[str, Keep]] = {
    "replicas": "highest",
    "ready": "lowest",
    "starting": "highest",
    "pending": "highest",
}
_POOL: Final[dict[str, Keep]] = {"ready": "highest", "starting": "highest", "leaving": "highest", "cost": "mean"}


@dataclass(frozen=True, slots=True)
class RunSeries:
    """What the section draws of one run."""

    candidate: CandidateRuns
    services: Series
    workloads: Series
    pools: Series


@dataclass(frozen=True, slots=True)
class Choices:
    """What is shown, the same for all candidates, and how high the axes go."""

    services: tuple[str, ...]
    service_tops: tuple[float, ...]
    workloads: tuple[str, ...]
    workload_tops: tuple[float, ...]
    pools: tuple[str, ...]
    node_top: float
    rate_top: float
    cost_top: float
    notes: tuple[str, ...]


def build(comparison: ComparisonReport, runs: Sequence[CandidateRuns], documents: Documents) -> Markup:
    """The section."""
    series = [_read(one, one.shown, comparison.duration) for one in runs if one.shown is not None]
    choices = _choose(series)
    shown = [Tab("All candidates", overview(comparison, choices.services, documents))]
    shown.extend(Tab(one.candidate.name, _details(comparison, one, choices, documents)) for one in series)
    seed = next((one.candidate.shown.seed for one in series if one.candidate.shown), None)
    notes = [
        "Drag across a figure to zoom in, double-click to go back; all figures of this page that show time follow.",
        f"“All candidates” shows the median over the seeds, and a band from {_band_words(comparison)}. "
        + ("No run can be read." if seed is None else f"The tab of a candidate shows its run with seed {seed}."),
        _THINNED,
        *choices.notes,
    ]
    return section(
        "time",
        "Over time",
        "One clock for everything: a change of demand, the pods that an autoscaler asks for, the nodes that they wait "
        "for, and what those cost.",
        tag("div", time_buttons(), class_="controls"),
        tabs("time", shown, group="candidate"),
        tag("ul", [tag("li", note) for note in notes], class_="notes"),
    )


def _band_words(comparison: ComparisonReport) -> str:
    return "the 5 % to the 95 % quantile" if len(comparison.seeds) >= 20 else "the smallest to the largest"


# ---- one candidate -------------------------------------------------------------------------------------------------


def _read(candidate: CandidateRuns, run: RunFolder, duration: float) -> RunSeries:
    folder = run.folder
    return RunSeries(
        candidate,
        read_series(folder, ServiceSample, "demand", _SERVICE, duration, since_before=True),
        read_series(folder, WorkloadSample, "workload", _WORKLOAD, duration),
        read_series(folder, PoolSample, "pool", _POOL, duration),
    )


def _choose(series: Sequence[RunSeries]) -> Choices:
    services = _ranked(
        series, lambda one: one.services, lambda these, name: float(np.nansum(these.of(name, "offered")))
    )
    workloads = _ranked(series, lambda one: one.workloads, lambda these, name: _top(these.of(name, "replicas")))
    pools = _ranked(series, lambda one: one.pools, lambda these, name: float(np.nansum(these.of(name, "ready"))))
    notes = [
        f"Of {len(found):,} {what} the {limit} largest can be chosen ({how})."
        for found, limit, what, how in (
            (services, SERVICES, "entries of demand", "by what is offered in all"),
            (workloads, WORKLOADS, "workloads", "by replicas at their peak"),
            (pools, POOLS, "node pools", f"by node hours; the rest are “{OTHER}”"),
        )
        if len(found) > limit
    ]
    chosen, named = services[:SERVICES], (ALL, *workloads[:WORKLOADS])
    rates = [one.pools.total("cost") for one in series]
    nodes = [sum(one.pools.total(column) for column in ("ready", "starting", "leaving")) for one in series]
    totals = [spent(one.pools.times, rate) for one, rate in zip(series, rates, strict=True)]
    return Choices(
        services=chosen,
        service_tops=tuple(_highest([one.services.of(name, "offered") for one in series]) for name in chosen),
        workloads=named,
        workload_tops=tuple(max((_pods_top(one.workloads, name) for one in series), default=0.0) for name in named),
        pools=pools[:POOLS] if len(pools) <= POOLS else (*pools[:POOLS], OTHER),
        node_top=_highest(nodes),
        rate_top=_highest(rates),
        cost_top=_highest(totals),
        notes=tuple(notes),
    )


def _highest(these: Sequence[Floats | float]) -> float:
    return max((_top(one) for one in these), default=0.0)


def _ranked(
    series: Sequence[RunSeries], part: Callable[[RunSeries], Series], size: Callable[[Series, str], float]
) -> tuple[str, ...]:
    """The names in all runs, the largest of any run first."""
    sizes: dict[str, float] = {}
    for one in series:
        these = part(one)
        for name in these.names:
            sizes[name] = max(sizes.get(name, 0.0), size(these, name))
    return largest(sizes, len(sizes))


def _top(values: Floats | float) -> float:
    values = np.asarray(values)
    return float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0


def _pods(these: Series, name: str, column: str) -> Floats:
    return these.total(column) if name == ALL else np.nan_to_num(these.of(name, column))


def _pods_top(these: Series, name: str) -> float:
    stacked = _pods(these, name, "ready") + _pods(these, name, "starting") + _pods(these, name, "pending")
    return max(_top(stacked), _top(_pods(these, name, "replicas")))


def _details(comparison: ComparisonReport, one: RunSeries, choices: Choices, documents: Documents) -> Child:
    axis = TimeAxis(comparison.start, comparison.duration)
    currency = comparison.currency
    rows = [
        _demand(axis, one.services, choices),
        _replicas(axis, one.workloads, choices),
        *([_nodes(axis, one.pools, choices)] if choices.pools else []),
        *(_costs(axis, one.pools, choices, currency) if choices.rate_top > 0 else []),
    ]
    places = documents.add([row.figure for row in rows], [f"{row.title}: {row.words}" for row in rows])
    return [
        panel(row.title, row.unit, place, row.words, legend(*row.entries) if row.entries else None, row.control)
        for row, place in zip(rows, places, strict=True)
    ]


class _Row(NamedTuple):
    """A figure with all that stands around it."""

    figure: figure
    title: str
    unit: str
    words: str
    entries: Sequence[Child] = ()
    control: Child = None


def _demand(axis: TimeAxis, these: Series, choices: Choices) -> _Row:
    columns = {"time": axis.moments(these.times), "zero": np.zeros(len(these.times))}
    for index, name in enumerate(choices.services):
        columns |= {f"{column}{index}": these.of(name, column) for column in _SERVICE}
    data = source(columns)
    made = axis.figure(
        max(choices.service_tops, default=0.0), tags=[{"picker": "service", "tops": choices.service_tops}]
    )
    words: list[str] = []
    for index, name in enumerate(choices.services):
        choice = Choice("service", index)
        step_area(made, data, "zero", f"served{index}", palette.SERVED, style="pale", choice=choice)
        step_line(made, data, f"served{index}", palette.SERVED, choice=choice)
        line = step_line(made, data, f"offered{index}", palette.OFFERED, dash="dashed", choice=choice)
        form = "{0,0.[00]}"
        hover(made, line, [(what, f"@{what}{index}{form}") for what in _SERVICE])
        offered, served = float(np.nansum(these.of(name, "offered"))), float(np.nansum(these.of(name, "served")))
        share = amount(served / offered if offered else None, "share")
        words.append(
            f"{name}: {share} of the demand served, at most {short(_top(these.of(name, 'offered')))} per second offered"
        )
    entries: list[Child] = [key(palette.OFFERED, "offered", "dashes"), key(palette.SERVED, "served")]
    words_of_all = f"{'; '.join(words)}."
    control = picker("service", "Demand", choices.services)
    return _Row(made, "Demand and what is served", "per second", words_of_all, entries, control)


def _replicas(axis: TimeAxis, these: Series, choices: Choices) -> _Row:
    columns = {"time": axis.moments(these.times), "zero": np.zeros(len(these.times))}
    for index, name in enumerate(choices.workloads):
        ready, starting = _pods(these, name, "ready"), _pods(these, name, "starting")
        pending = _pods(these, name, "pending")
        columns |= {
            f"ready{index}": ready,
            f"starting{index}": starting,
            f"pending{index}": pending,
            f"replicas{index}": _pods(these, name, "replicas"),
            f"up_to_starting{index}": ready + starting,
            f"up_to_pending{index}": ready + starting + pending,
        }
    data = source(columns)
    made = axis.figure(max(choices.workload_tops), tags=[{"picker": "workload", "tops": choices.workload_tops}])
    for index in range(len(choices.workloads)):
        choice = Choice("workload", index)
        step_area(made, data, "zero", f"ready{index}", palette.READY, style="pale", choice=choice)
        step_area(made, data, f"ready{index}", f"up_to_starting{index}", palette.STARTING, style="hatch", choice=choice)
        step_area(made, data, f"up_to_starting{index}", f"up_to_pending{index}", palette.PENDING, choice=choice)
        step_line(made, data, f"ready{index}", palette.READY, choice=choice)
        line = step_line(made, data, f"replicas{index}", palette.WANTED, dash="dashed", choice=choice)
        hover(made, line, [(what, f"@{what}{index}") for what in ("replicas", "ready", "starting", "pending")])
    entries: list[Child] = [
        key(palette.WANTED, "replicas wanted", "dashes"),
        key(palette.READY, "ready"),
        key(palette.STARTING, "starting", "hatch"),
        key(palette.PENDING, "pending: no node yet"),
    ]
    words = (
        f"of all workloads at most {short(_top(these.total('replicas')))} replicas wanted, "
        f"{short(_top(these.total('ready')))} ready and {short(_top(these.total('pending')))} pending."
    )
    return _Row(made, "Pods", "", words, entries, picker("workload", "Workload", choices.workloads))


_NODE_STYLES: Final[tuple[tuple[str, Style], ...]] = (("ready", "area"), ("starting", "hatch"), ("leaving", "pale"))


def _nodes(axis: TimeAxis, these: Series, choices: Choices) -> _Row:
    """Stacked: what is ready by pool, then what starts, then what is leaving."""
    members = {pool: [pool] for pool in choices.pools}
    if OTHER in members:
        members[OTHER] = [name for name in these.names if name not in choices.pools]
    columns = {"time": axis.moments(these.times), "level0": np.zeros(len(these.times))}
    layers: list[tuple[str, str, Style]] = []
    for column, style in _NODE_STYLES:
        for index, pool in enumerate(choices.pools):
            amounts = these.total(column, members[pool])
            columns[f"{column}{index}"] = amounts
            layers.append((f"{column}{index}", palette.of(index), style))
            columns[f"level{len(layers)}"] = columns[f"level{len(layers) - 1}"] + amounts
    data = source(columns)
    made = axis.figure(choices.node_top)
    for index, (name, colour, style) in enumerate(layers):
        if np.any(columns[name] > 0):
            step_area(made, data, f"level{index}", f"level{index + 1}", colour, style=style)
    line = step_line(made, data, f"level{len(layers)}", palette.GREY)
    rows = [
        (pool_name(pool), f"@ready{index} ready, @starting{index} starting, @leaving{index} leaving")
        for index, pool in enumerate(choices.pools)
    ]
    hover(made, line, rows)
    entries: list[Child] = [
        key(palette.of(index), f"{pool_name(pool)} ready") for index, pool in enumerate(choices.pools)
    ]
    entries += [key(palette.GREY, "starting", "hatch"), key(palette.GREY, "leaving, still paid for", "pale")]
    ready = these.total("ready")
    words = f"{short(float(ready.min()))} to {short(_top(ready))} ready" if ready.size else "no rows"
    words += f"; at most {short(_top(these.total('starting')))} starting at once."
    return _Row(made, "Nodes by pool", "", words, entries)


def pool_name(pool: str) -> str:
    """The pool "" is that of nodes which belong to none."""
    return pool or "no pool"


def _costs(axis: TimeAxis, these: Series, choices: Choices, currency: str) -> list[_Row]:
    rate = these.total("cost")
    total = spent(these.times, rate)
    data = source({"time": axis.moments(these.times), "zero": np.zeros(len(rate)), "rate": rate, "spent": total})
    made: list[_Row] = []
    for column, title, unit, top, values in (
        ("rate", "Cost per hour", f"{currency}/h", choices.rate_top, rate),
        ("spent", "Cost so far", currency, choices.cost_top, total),
    ):
        on = axis.figure(top, height=120)
        step_area(on, data, "zero", column, palette.COST, style="pale")
        line = step_line(on, data, column, palette.COST)
        hover(on, line, [(title.lower(), f"@{column}{{0,0.00}}")])
        end = f"{short(float(values[-1]), unit)} at the end" if len(values) else "no rows"
        made.append(_Row(on, title, unit, f"at most {short(_top(values), unit)}, {end}."))
    return made
