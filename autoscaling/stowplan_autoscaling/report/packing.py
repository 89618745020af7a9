"""The section "Packing": how full nodes were by pool, what was stranded, and how single nodes stood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from bokeh.models import HoverTool, NumeralTickFormatter, Range1d

from stowplan_autoscaling.experiment.comparison import ComparisonReport
from stowplan_autoscaling.experiment.run_tables import Floats
from stowplan_autoscaling.results.records import NodeRecord, PoolSample
from stowplan_autoscaling.results.report import NodeReport, PoolReport

from . import palette
from .amounts import amount, listed, short
from .curves import Keep, Series, largest, read_series
from .embedding import Documents
from .figures import Choice, TimeAxis, hover, plain, source, step_area, step_line
from .markup import Child, Markup, key, legend, table, tag
from .rows import number_of, records
from .runs import CandidateRuns
from .sections import Tab, panel, picker, section, tabs
from .timeline import pool_name

POOLS: Final = 8
NODES: Final = 2000
"""So many nodes stand in the scatter of a candidate: those with the most node hours."""

ALL: Final = "all pools"
_RESOURCES: Final = ("cpu", "memory")
_COLUMNS: Final[dict[str, Keep]] = {
    f"{resource}_{part}": "mean" for resource in _RESOURCES for part in ("used", "requested", "allocatable", "stranded")
}


class _Dot(NamedTuple):
    """A node of the scatter."""

    node: str
    pool: str
    cpu: float
    memory: float
    price: float
    hours: float


def build(comparison: ComparisonReport, runs: Sequence[CandidateRuns], documents: Documents) -> Markup:
    """The section."""
    series = {
        one.name: read_series(one.shown.folder, PoolSample, "pool", _COLUMNS, comparison.duration)
        for one in runs
        if one.shown is not None
    }
    sizes: dict[str, float] = {}
    for these in series.values():
        for name in these.names:
            sizes[name] = max(sizes.get(name, 0.0), float(np.nansum(these.of(name, "cpu_allocatable"))))
    pools = largest(sizes, POOLS)
    choices = (ALL, *pools) if len(pools) > 1 else pools
    if not series:
        return section("packing", "Packing", "No run can be read.")
    content: list[Child] = []
    if choices:
        shown = [Tab(name, _over_time(comparison, these, choices, documents)) for name, these in series.items()]
        content += [
            tag("div", picker("pool", "Nodes of", [pool_name(name) for name in choices]), class_="controls"),
            tabs("packing", shown, group="candidate"),
        ]
    if len(sizes) > POOLS:
        content.append(tag("p", f"Of {len(sizes):,} node pools the {POOLS} with most cpu are shown.", class_="note"))
    content += [_scatter(runs, pools, documents), _pool_table(runs, comparison.currency)]
    return section(
        "packing",
        "Packing",
        "What pods request and use of what the nodes have to give. Stranded is what is free on nodes that no typical "
        "pod fits, because another resource is short.",
        *content,
    )


# ---- over time -----------------------------------------------------------------------------------------------------


def _over_time(comparison: ComparisonReport, these: Series, choices: Sequence[str], documents: Documents) -> Child:
    axis = TimeAxis(comparison.start, comparison.duration)
    columns: dict[str, Floats] = {"time": axis.moments(these.times), "zero": np.zeros(len(these.times))}
    for index, name in enumerate(choices):
        for resource in _RESOURCES:
            used, requested, stranded = (
                _share(these, name, resource, part) for part in ("used", "requested", "stranded")
            )
            columns |= {
                f"{resource}_used{index}": used,
                f"{resource}_requested{index}": requested,
                f"{resource}_stranded{index}": stranded,
                f"{resource}_both{index}": requested + stranded,
            }
    data = source(columns)
    figures, words = [], []
    for resource in _RESOURCES:
        made = axis.figure(1.0, share=True, y_range=Range1d(start=0, end=1.02))
        made.yaxis.formatter = NumeralTickFormatter(format="0%")
        for index in range(len(choices)):
            choice = Choice("pool", index)
            low, high = f"{resource}_requested{index}", f"{resource}_both{index}"
            step_area(made, data, "zero", low, palette.REQUESTED, style="pale", choice=choice)
            step_area(made, data, low, high, palette.STRANDED, style="hatch", choice=choice)
            step_line(made, data, f"{resource}_used{index}", palette.USED, choice=choice)
            line = step_line(made, data, low, palette.REQUESTED, choice=choice)
            parts = ("requested", "used", "stranded")
            hover(made, line, [(part, f"@{resource}_{part}{index}{{0.0%}}") for part in parts])
        figures.append(made)
        means = {part: _mean(columns[f"{resource}_{part}0"]) for part in ("requested", "used", "stranded")}
        words.append(
            f"{pool_name(choices[0])}: on average {amount(means['requested'], 'share')} requested, "
            f"{amount(means['used'], 'share')} used, {amount(means['stranded'], 'share')} stranded."
        )
    titles = [f"{resource.capitalize()} of what ready nodes have to give" for resource in ("CPU", "memory")]
    titles[0] = "CPU of what ready nodes have to give"
    places = documents.add(figures, [f"{title}: {said}" for title, said in zip(titles, words, strict=True)])
    entries = legend(
        key(palette.REQUESTED, "requested"),
        key(palette.USED, "used", "line"),
        key(palette.STRANDED, "stranded", "hatch"),
    )
    return [entries, *(panel(title, "", place, said) for title, place, said in zip(titles, places, words, strict=True))]


def _mean(values: Floats) -> float:
    return float(np.nanmean(values)) if values.size and not np.isnan(values).all() else 0.0


def _share(these: Series, name: str, resource: str, part: str) -> Floats:
    """A part of what is allocatable; nothing where there is no node."""

    def column(what: str) -> Floats:
        found = f"{resource}_{what}"
        return these.total(found) if name == ALL else these.of(name, found)

    whole = column("allocatable")
    return np.divide(column(part), whole, out=np.full_like(whole, np.nan), where=whole > 0)


# ---- single nodes --------------------------------------------------------------------------------------------------


def _scatter(runs: Sequence[CandidateRuns], pools: Sequence[str], documents: Documents) -> Child:
    """A dot for each node: the means of its requests, as large as it is dear."""
    x_range, y_range = Range1d(start=0, end=1.03), Range1d(start=0, end=1.03)
    dots = {one.name: _dots(one) for one in runs if one.shown is not None}
    dearest = max((dot.price for these in dots.values() for dot in these), default=0.0)
    figures, words, names = [], [], []
    for name, these in dots.items():
        if not these:
            continue
        made = plain(x_range=x_range, y_range=y_range, height=280)
        made.xaxis.formatter = made.yaxis.formatter = NumeralTickFormatter(format="0%")
        made.xaxis.axis_label, made.yaxis.axis_label = "cpu requested", "memory requested"
        data = source(
            {
                "cpu": np.array([dot.cpu for dot in these]),
                "memory": np.array([dot.memory for dot in these]),
                "size": np.array([4 + 10 * (dot.price / dearest) ** 0.5 if dearest else 7 for dot in these]),
                "price": np.array([dot.price for dot in these]),
                "hours": np.array([dot.hours for dot in these]),
                "node": [dot.node for dot in these],
                "pool": [pool_name(dot.pool) for dot in these],
                "colour": [palette.of(pools.index(dot.pool)) if dot.pool in pools else palette.GREY for dot in these],
            }
        )
        dot = made.scatter(
            "cpu", "memory", size="size", source=data, fill_color="colour", fill_alpha=0.45, line_color="colour"
        )
        tips = [("node", "@node"), ("pool", "@pool"), ("cpu", "@cpu{0%}"), ("memory", "@memory{0%}"),
                ("price per hour", "@price{0.000}"), ("hours", "@hours{0.0}")]  # fmt: skip
        made.add_tools(HoverTool(renderers=[dot], tooltips=tips))
        figures.append(made)
        names.append(name)
        low = sum(one.cpu < 0.5 and one.memory < 0.5 for one in these)
        words.append(f"{len(these):,} nodes, {low:,} of them less than half full in both.")
    if not figures:
        return None
    places = documents.add(figures, [f"Nodes of {name}: {said}" for name, said in zip(names, words, strict=True)])
    grid = [panel(name, "", place, said) for name, place, said in zip(names, places, words, strict=True)]
    entries = [key(palette.of(index), pool_name(pool)) for index, pool in enumerate(pools)]
    if any(dot.pool not in pools for these in dots.values() for dot in these):
        entries.append(key(palette.GREY, "no pool, or another"))
    limits = f" Of more than {NODES:,} nodes, those that were there longest." if _is_cut(dots, runs) else ""
    return (
        tag("h3", "Each node: mean requests while it was there"),
        tag("p", f"The larger the dot, the dearer the node; the nearer to the upper right, the fuller it was.{limits}"),
        legend(*entries),
        tag("div", grid, class_="grid"),
    )


def _is_cut(dots: dict[str, list[_Dot]], runs: Sequence[CandidateRuns]) -> bool:
    return any(
        one.shown is not None and len(one.shown.summary.cluster.packing) > len(dots[one.name])
        for one in runs
        if one.name in dots
    )


def _dots(one: CandidateRuns) -> list[_Dot]:
    assert one.shown is not None
    end = one.shown.summary.reached
    lives = {row["node"]: row for row in records(one.shown.folder, NodeRecord)}
    dots: list[_Dot] = []
    for node in one.shown.summary.cluster.packing:
        dots.append(_dot(node, lives.get(node.node, {}), end))
    dots.sort(key=lambda dot: (-dot.hours, dot.node))
    return dots[:NODES]


def _dot(node: NodeReport, life: dict[str, str], end: float) -> _Dot:
    since = number_of(life.get("ready", "")) or 0.0
    until = number_of(life.get("ended", ""))
    hours = ((end if until is None else until) - since) / 3600
    price = number_of(life.get("price", "")) or 0.0
    return _Dot(node.node, life.get("pool", ""), node.cpu.mean, node.memory.mean, price, max(hours, 0.0))


# ---- pools ---------------------------------------------------------------------------------------------------------


def _pool_table(runs: Sequence[CandidateRuns], currency: str) -> Child:
    rows: list[list[Child]] = []
    for one in runs:
        if one.shown is None:
            continue
        for pool in one.shown.summary.pools:
            rows.append([f"{one.name}: {pool_name(pool.pool)}", *_pool_cells(pool, currency)])
    if not rows:
        return None
    head: list[Child] = ["candidate: pool", "nodes: mean (most)", "node hours", "cost"]
    head += [f"{resource} {part}" for resource in _RESOURCES for part in ("requested", "used", "stranded")]
    head.append("came, went")
    return (tag("h3", "Each pool"), table(head, rows, label="Node pools"))


def _pool_cells(pool: PoolReport, currency: str) -> list[Child]:
    def bar(share: float, colour: str) -> Markup:
        width = f"width:{min(max(share, 0.0), 1.0) * 100:.1f}%;--c:{colour}"
        return tag("span", tag("i", style=width), amount(share, "share"), class_="meter")

    lost = [f"{pool.failed:,} failed"] if pool.failed else []
    lost += [f"{pool.interrupted:,} interrupted"] if pool.interrupted else []
    return [
        f"{short(pool.nodes.mean)} ({short(pool.nodes.maximum)})",
        short(pool.node_hours),
        amount(pool.cost, currency) if pool.cost else amount(None, ""),
        bar(pool.cpu_requested.mean, palette.REQUESTED),
        bar(pool.cpu_used.mean, palette.USED),
        bar(pool.cpu_stranded.mean, palette.STRANDED),
        bar(pool.memory_requested.mean, palette.REQUESTED),
        bar(pool.memory_used.mean, palette.USED),
        bar(pool.memory_stranded.mean, palette.STRANDED),
        f"{pool.started:,}, {pool.ended:,}" + (f" ({listed(lost)})" if lost else ""),
    ]
