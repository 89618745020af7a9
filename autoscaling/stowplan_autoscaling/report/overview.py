"""All candidates in one figure for each number: a line for the median over the seeds, and a band around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from bokeh.plotting import figure

from stowplan_autoscaling.experiment.comparison import ComparisonReport, CurveReport
from stowplan_autoscaling.experiment.run_tables import Floats

from . import palette
from .amounts import short
from .embedding import Documents
from .figures import Choice, TimeAxis, hover, source, step_area, step_line
from .markup import Child, key, legend, tag
from .sections import panel, picker

_OVERVIEW: Final = ("ready", "pending", "nodes", "cost", "cpuRequested", "cpuUsed")
_TITLES: Final = {"cpuRequested": "CPU requested, of what nodes have", "cpuUsed": "CPU used, of what nodes have"}

_Curves = dict[str, CurveReport]
"""A curve of each candidate that has it."""


def overview(comparison: ComparisonReport, services: Sequence[str], documents: Documents) -> Child:
    """A figure for each curve, a line and a band for each candidate."""
    axis = TimeAxis(comparison.start, comparison.duration)
    figures: list[figure] = []
    titles: list[tuple[str, str, str]] = []
    controls: list[Child] = []
    served = [(_curves(comparison, f"served.{name}"), _curves(comparison, f"demand.{name}")) for name in services]
    if any(these for these, _ in served):
        figures.append(_overlay(comparison, axis, served, "service"))
        words = [f"{name}: {_overlay_words(these)}" for name, (these, _) in zip(services, served, strict=True) if these]
        titles.append(("Demand and what is served", "per second", " ".join(words)))
        controls.append(picker("service", "Demand", services))
    for name in _OVERVIEW:
        curves = _curves(comparison, name)
        if not curves:
            continue
        figures.append(_overlay(comparison, axis, [(curves, {})], ""))
        first = next(iter(curves.values()))
        unit = "" if first.unit == "share" else first.unit
        titles.append((_TITLES.get(name) or first.title.capitalize(), unit, _overlay_words(curves)))
        controls.append(None)
    if not figures:
        return tag("p", "There are no curves: no run has come to its end.", class_="empty")
    places = documents.add(figures, [f"{title}: {words}" for title, _, words in titles])
    entries = [key(palette.of(index), one.name, "line") for index, one in enumerate(comparison.candidates)]
    if served:
        entries.append(key(palette.OFFERED, "offered", "dashes"))
    panels = [
        panel(title, unit, place, words, control=control)
        for (title, unit, words), place, control in zip(titles, places, controls, strict=True)
    ]
    return (legend(*entries), *panels)


def _curves(comparison: ComparisonReport, name: str) -> _Curves:
    return {
        one.name: curve for one in comparison.candidates for curve in one.curves if curve.name == name and curve.median
    }


def _overlay(
    comparison: ComparisonReport, axis: TimeAxis, options: Sequence[tuple[_Curves, _Curves]], chosen_by: str
) -> figure:
    """A figure of curves, and of others behind them that are drawn once. options: of which the picker shows one."""
    order = [one.name for one in comparison.candidates]
    every = [curve for pair in options for curves in pair for curve in curves.values()]
    points = max(len(curve.median) for curve in every)
    columns: dict[str, Floats] = {
        "time": axis.moments(np.linspace(0.0, comparison.duration, points + 1, dtype=np.float64))
    }
    tops: list[float] = []
    for number, (curves, behind) in enumerate(options):
        for name, curve in curves.items():
            for part, values in (("median", curve.median), ("low", curve.low), ("high", curve.high)):
                columns[f"{part}{number}_{order.index(name)}"] = _to_the_end(values, points)
        for curve in list(behind.values())[:1]:
            columns[f"behind{number}"] = _to_the_end(curve.median, points)
        tops.append(
            max((max(*curve.high, *curve.median) for part in (curves, behind) for curve in part.values()), default=0.0)
        )
    data = source(columns)
    share = every[0].unit == "share"
    tags = [{"picker": chosen_by, "tops": tops}] if chosen_by else []
    made = axis.figure(tops[0], share=share, tags=tags)
    form = "{0.0%}" if share else "{0,0.[00]}"
    for number, (curves, behind) in enumerate(options):
        choice = Choice(chosen_by, number) if chosen_by else None
        for name in curves:
            low, high = (f"{part}{number}_{order.index(name)}" for part in ("low", "high"))
            step_area(made, data, low, high, palette.of(order.index(name)), style="pale", choice=choice)
        if behind:
            step_line(made, data, f"behind{number}", palette.OFFERED, dash="dashed", choice=choice)
        lines = [
            step_line(made, data, f"median{number}_{at}", palette.of(at), choice=choice)
            for at in map(order.index, curves)
        ]
        rows = [("offered", f"@behind{number}{form}")] if behind else []
        for name in curves:
            at = f"{number}_{order.index(name)}"
            rows.append((name, f"@median{at}{form} (@low{at}{form} to @high{at}{form})"))
        if lines:
            hover(made, lines[0], rows)
    return made


def _to_the_end(values: Sequence[float], points: int) -> Floats:
    """Means of equal parts as steps: the last one holds to the end of its part; what was not reached is empty."""
    full = np.full(points + 1, np.nan)
    full[: len(values)] = values
    if values:
        full[len(values)] = values[-1]
    return full


def _overlay_words(curves: dict[str, CurveReport]) -> str:
    """What a curve shows, in a line."""
    parts: list[str] = []
    for name, curve in curves.items():
        mean = sum(curve.median) / len(curve.median)
        parts.append(f"{name} {short(mean, curve.unit)} on average, at most {short(max(curve.median), curve.unit)}")
    return "; ".join(parts) + "."
