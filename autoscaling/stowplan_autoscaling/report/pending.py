"""The section "Pending": the share of pods that had a node, or were ready, within so many seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

import numpy as np
from bokeh.models import NumeralTickFormatter, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from stowplan_autoscaling.experiment.comparison import ComparisonReport
from stowplan_autoscaling.experiment.pending import Wait, survival
from stowplan_autoscaling.experiment.run_tables import Floats
from stowplan_autoscaling.experiment.statistics import FEW
from stowplan_autoscaling.experiment.wording import seconds

from . import palette
from .amounts import amount
from .embedding import Documents
from .figures import hover_lines, plain, seconds_axis, source
from .markup import Child, Markup, key, legend, table, tag
from .metric_table import band_words, metrics_by_name
from .pods import Pods, Waits
from .runs import CandidateRuns
from .sections import panel, section

POINTS: Final = 240
"""Of a curve, at equal distances on the logarithmic axis."""

SHORTEST: Final = 0.001
"""Seconds; an axis begins here or later."""


@dataclass(frozen=True, slots=True)
class Question:
    """One of the figures. metric: the first part of the names of the metrics that are about the same times."""

    metric: str
    title: str
    start: str
    waits: Callable[[Pods, float], Waits]


PLACED: Final = Question("pending", "Until a pod had a node", "from its creation", Pods.until_placed)
READY: Final = Question(
    "waiting", "Until a pod was ready", "from the change of demand that it was made for", Pods.until_ready
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """The share of pods for which it was over by each time of the axis, over the seeds; pods and those never done."""

    median: Floats
    low: Floats
    high: Floats
    count: int
    never: int


def build(
    comparison: ComparisonReport,
    runs: Sequence[CandidateRuns],
    pods: Mapping[str, Sequence[Pods]],
    documents: Documents,
) -> Markup:
    """The section. pods: those of each candidate, by seed."""
    figures: list[figure] = []
    shown: list[tuple[Question, str]] = []
    limits: list[Child] = []
    for question in (PLACED, READY):
        waits = {
            one.name: [
                question.waits(these, run.summary.reached) for these, run in zip(pods[one.name], one.runs, strict=True)
            ]
            for one in runs
        }
        found, times = distributions(waits)
        if not found:
            continue
        goals = _limits(comparison, question)
        figures.append(_figure(comparison, question, found, times, goals))
        limits += [f"{title} at most {seconds(limit)}" for title, limit in goals]
        shown.append((question, _words(found)))
    if not shown:
        return section("pending", "Pending", "No run can be read.")
    places = documents.add(figures, [f"{question.title}: {words}" for question, words in shown])
    entries = [key(palette.of(index), one.name, "line") for index, one in enumerate(comparison.candidates)]
    if limits:
        entries.append(key(palette.GREY, ("limit: ", "; ".join(str(limit) for limit in limits)), "dashes"))
    panels = [
        panel(question.title, question.start, place, words)
        for (question, words), place in zip(shown, places, strict=True)
    ]
    band = "5 % to 95 % quantile" if len(comparison.seeds) >= FEW else "smallest to largest"
    return section(
        "pending",
        "Pending",
        "How long pods waited, as the share that was through within so long. The further left and up, the better.",
        legend(*entries),
        tag("div", panels, class_="grid wide"),
        _table(comparison),
        tag(
            "p",
            f"Kaplan–Meier: a pod that was removed, or still waits at the end, counts as one that waited longer. "
            f"Lines are the median over the seeds at each time, bands the {band}.",
            class_="note",
        ),
    )


def distributions(waits: Mapping[str, Sequence[Waits]]) -> tuple[dict[str, Distribution], Floats]:
    """Of each candidate with pods, from the waits of its runs; and the times at which they are taken."""
    every = np.concatenate([np.zeros(0), *(these.seconds for runs in waits.values() for these in runs)])
    shortest = max(float(every[every > 0].min(initial=np.inf)), SHORTEST)
    start = 10.0 ** floor(log10(shortest)) if np.isfinite(shortest) else SHORTEST
    times = np.geomspace(start, max(float(every.max(initial=0.0)) * 1.05, 10 * start), POINTS)
    found: dict[str, Distribution] = {}
    for name, runs in waits.items():
        present = [these for these in runs if len(these.seconds)]
        if not present:
            continue
        shares = np.array([share_done(these, times) for these in present])
        few = len(present) < FEW
        found[name] = Distribution(
            median=np.median(shares, axis=0),
            low=shares.min(axis=0) if few else np.quantile(shares, 0.05, axis=0),
            high=shares.max(axis=0) if few else np.quantile(shares, 0.95, axis=0),
            count=sum(len(these.seconds) for these in present),
            never=sum(int((~these.is_over).sum()) for these in present),
        )
    return found, times


def share_done(waits: Waits, times: Floats) -> Floats:
    """The share for which it was over by each time."""
    steps = survival([Wait(*pair) for pair in zip(waits.seconds.tolist(), waits.is_over.tolist(), strict=True)])
    shares = np.array([1.0, *(step.share for step in steps)])
    return 1.0 - shares[np.searchsorted([step.seconds for step in steps], times, side="right")]


def _figure(
    comparison: ComparisonReport,
    question: Question,
    found: Mapping[str, Distribution],
    times: Floats,
    goals: Sequence[tuple[str, float]],
) -> figure:
    columns: dict[str, Floats] = {"seconds": times}
    order = [one.name for one in comparison.candidates]
    for name, one in found.items():
        index = order.index(name)
        columns |= {f"median{index}": one.median, f"low{index}": one.low, f"high{index}": one.high}
    data = source(columns)
    made = plain(
        x_axis_type="log",
        x_range=Range1d(start=float(times[0]), end=float(times[-1]), bounds="auto"),
        y_range=Range1d(start=0, end=1.03),
        height=260,
    )
    seconds_axis(made)
    made.yaxis.formatter = NumeralTickFormatter(format="0%")
    lines = []
    for name in found:
        index = order.index(name)
        colour = palette.of(index)
        made.varea_step(
            "seconds", f"low{index}", f"high{index}", source=data, step_mode="after", fill_color=colour, fill_alpha=0.18
        )
        lines.append(made.step("seconds", f"median{index}", source=data, mode="after", line_color=colour, line_width=2))
    for _, limit in goals:
        made.add_layout(
            Span(location=limit, dimension="height", line_color=palette.GREY, line_dash="dashed", line_width=1.5)
        )
    rows = [("within", "@seconds{0.[00]} s")]
    rows += [(name, f"@median{order.index(name)}{{0.0%}}") for name in found]
    hover_lines(made, lines[0], rows)
    return made


def _limits(comparison: ComparisonReport, question: Question) -> list[tuple[str, float]]:
    """Limits of goals on the same times, with the title of their metric."""
    metrics = metrics_by_name(comparison)
    return [
        (metrics[goal.metric].title, goal.limit)
        for goal in comparison.goals
        if goal.metric.partition(".")[0] == question.metric and goal.limit is not None and goal.metric in metrics
    ]


def _words(found: Mapping[str, Distribution]) -> str:
    parts = []
    for name, one in found.items():
        never = f", {one.never:,} never" if one.never else ""
        parts.append(f"{name}: {one.count:,} pods over all seeds{never}")
    return f"{'; '.join(parts)}."


def _table(comparison: ComparisonReport) -> Child:
    """The quantiles, which the comparison has as metrics."""
    metrics = metrics_by_name(comparison)
    wanted = [f"{question.metric}.{part}" for question in (PLACED, READY) for part in ("p50", "p95", "p99")]
    wanted = [name for name in (*wanted, "neverScheduled", "neverReady") if name in metrics]
    if not wanted:
        return None
    rows: list[list[Child]] = []
    for one in comparison.candidates:
        cells: list[Child] = [one.name]
        for name in wanted:
            band = one.metrics.get(name)
            unit = metrics[name].unit
            cells.append(
                amount(None, "") if band is None else (tag("b", amount(band.median, unit)), band_words(band, unit))
            )
        rows.append(cells)
    return table(["candidate", *(metrics[name].title for name in wanted)], rows, label="Quantiles of waiting")
