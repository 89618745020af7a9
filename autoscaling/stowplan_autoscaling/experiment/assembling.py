"""Puts the results of runs together: bands, differences, goals, settings and the verdict; and writes them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import permutations
from pathlib import Path
from typing import Final

from stowplan_autoscaling.resources.candidates import Goal
from stowplan_autoscaling.resources.measures import CURRENCY, MEASURES, SECONDS, Measure, measure_of
from stowplan_autoscaling.results.folder import replace_file
from stowplan_autoscaling.results.recorder import KUBERNETES
from stowplan_autoscaling.results.records import shown
from stowplan_autoscaling.results.report import report_bytes
from stowplan_scheduler import __version__
from stowplan_scheduler.timestamps import format_time

from .cell import Cell
from .comparison import (
    COMPARISON_FILE,
    SCHEMA,
    TABLE_FILE,
    Band,
    CandidateReport,
    ComparisonReport,
    CurveReport,
    Difference,
    MetricReport,
    OriginReport,
    RunEntry,
)
from .findings import findings_of
from .measuring import Measures
from .plan import Plan
from .settings import Settings, changes, effects_of, settings_of, settings_report
from .statistics import BOOTSTRAP_SEED, RESAMPLES, band, paired
from .verdict import goal_report, verdict

_USUAL_TOLERANCE: Final = "1%"
_LEAST_SECONDS: Final = 0.001
_ROUNDING: Final = 1e-9
_NOT_RUN: Final = "has not run"
Found = Mapping[Cell, Measures]


def report_of(plan: Plan, found: Found, stopped: Mapping[Cell, str] | None = None) -> ComparisonReport:
    """What the runs come to that are there. `stopped`: why others are not."""
    names = [candidate.name for candidate in plan.candidates]
    bands = {name: _bands(plan, name, found) for name in names}
    metrics = _metrics(plan, bands, found)
    differences = _differences(plan, names, metrics, found)
    settings = {name: settings_of(plan.loaded[name]) for name in names}
    goals = tuple(goal_report(goal, names, plan.baseline, bands, differences) for goal in plan.goals)
    effects = effects_of(settings, tuple(differences.values()), [goal.metric for goal in plan.goals])
    spec = plan.first.spec
    return ComparisonReport(
        schema=SCHEMA,
        name=plan.name,
        is_complete=all(cell in found for cell in plan.cells),
        start=format_time(spec.start),
        duration=spec.duration / 1e9,
        seeds=plan.seeds,
        currency=_currency(found),
        baseline=plan.baseline,
        verdict=verdict(
            names,
            plan.baseline,
            goals,
            {metric.name: metric for metric in metrics},
            differences,
            has_results=bool(found),
        ),
        goals=goals,
        metrics=metrics,
        candidates=tuple(
            _candidate(plan, index, bands[name], settings, found, stopped or {}) for index, name in enumerate(names)
        ),
        differences=tuple(each for (_, against, _), each in differences.items() if against == plan.baseline),
        settings=settings_report(settings, effects),
        effects=effects,
        origin=OriginReport(
            version=__version__,
            kubernetes=KUBERNETES,
            digests={name: plan.loaded[name].digest for name in names},
            resamples=RESAMPLES,
            bootstrap_seed=BOOTSTRAP_SEED,
        ),
    )


def _currency(found: Found) -> str:
    return next((measures.currency for measures in found.values() if measures.currency), "")


def _of(plan: Plan, name: str, found: Found) -> list[Measures | None]:
    """Those of a candidate, seed by seed."""
    return [found.get(cell) for cell in plan.cells if cell.candidate == name]


def _bands(plan: Plan, name: str, found: Found) -> dict[str, Band]:
    runs = _of(plan, name, found)
    known = {metric for measures in runs if measures is not None for metric in measures.values}
    result: dict[str, Band] = {}
    for metric in sorted(known):
        each = band([None if measures is None else measures.values.get(metric) for measures in runs])
        if each is not None:
            result[metric] = each
    return result


def _metrics(plan: Plan, bands: Mapping[str, Mapping[str, Band]], found: Found) -> tuple[MetricReport, ...]:
    """Those that a candidate has a number for, and those of goals, in the order of the list of measures."""
    names = {name for each in bands.values() for name in each} | {goal.metric for goal in plan.goals}
    order = {measure.name: index for index, measure in enumerate(MEASURES)}
    known = [measure for name in names if (measure := measure_of(name)) is not None]

    def place(measure: Measure) -> tuple[int, str]:
        family = f"{measure.name.partition('.')[0]}.*"
        return (order.get(measure.name, order.get(family, len(order))), measure.name)

    currency = _currency(found) or "currency"
    return tuple(
        MetricReport(
            name=measure.name,
            title=measure.title,
            group=measure.group,
            unit=currency if measure.unit == CURRENCY else measure.unit,
            better=measure.better,
            definition=measure.definition,
        )
        for measure in sorted(known, key=place)
    )


def _differences(
    plan: Plan, names: Sequence[str], metrics: Sequence[MetricReport], found: Found
) -> dict[tuple[str, str, str], Difference]:
    """Of each candidate to each other one for goals, to the baseline for all that has a better direction."""
    goals = {goal.metric: goal for goal in plan.goals}
    result: dict[tuple[str, str, str], Difference] = {}
    pairs = sorted(permutations(names, 2), key=lambda pair: pair[1] != plan.baseline)
    for name, against in pairs:
        for metric in metrics:
            if not metric.better or (against != plan.baseline and metric.name not in goals):
                continue
            each = _difference(plan, name, against, metric, goals.get(metric.name), found)
            if each is not None:
                result[name, against, metric.name] = each
    return result


def _difference(
    plan: Plan, name: str, against: str, metric: MetricReport, goal: Goal | None, found: Found
) -> Difference | None:
    pairs = [
        (mine.values[metric.name], theirs.values[metric.name])
        for mine, theirs in zip(_of(plan, name, found), _of(plan, against, found), strict=True)
        if mine is not None and theirs is not None and metric.name in mine.values and metric.name in theirs.values
    ]
    reference = band([before for _, before in pairs])
    if reference is None:
        return None
    goal = goal or Goal(metric=metric.name, tolerance=_USUAL_TOLERANCE)
    return paired(
        name,
        against,
        metric.name,
        pairs,
        better=metric.better,
        tolerance=max(goal.tolerance_of(reference.median), _least(metric, reference.median)),
    )


def _least(metric: MetricReport, reference: float) -> float:
    """What is never a difference, whatever the tolerance: less than is shown of a time, and rounding."""
    return max(_LEAST_SECONDS if metric.unit == SECONDS else 0.0, _ROUNDING * abs(reference))


def _candidate(
    plan: Plan,
    index: int,
    bands: dict[str, Band],
    settings: Mapping[str, Settings],
    found: Found,
    stopped: Mapping[Cell, str],
) -> CandidateReport:
    candidate = plan.candidates[index]
    cells = [cell for cell in plan.cells if cell.candidate == candidate.name]
    runs = {cell: found[cell] for cell in cells if cell in found}
    return CandidateReport(
        name=candidate.name,
        description=candidate.description,
        is_baseline=candidate.name == plan.baseline,
        changes=changes(settings[plan.baseline], settings[candidate.name]),
        runs=tuple(
            RunEntry(
                seed=cell.seed,
                folder=cell.folder,
                digest=runs[cell].digest if cell in runs else "",
                is_complete=cell in runs,
                stopped="" if cell in runs else stopped.get(cell, _NOT_RUN),
            )
            for cell in cells
        ),
        metrics=bands,
        curves=tuple(_curves(list(runs.values()))),
        findings=findings_of({cell.seed: measures.findings for cell, measures in runs.items()}),
        warnings=plan.loaded[candidate.name].warnings,
    )


def _curves(runs: Sequence[Measures]) -> Iterator[CurveReport]:
    """Point by point over the seeds."""
    if not runs:
        return
    for first in runs[0].curves:
        lines = [curve.values for measures in runs for curve in measures.curves if curve.name == first.name]
        points = [band(list(values)) for values in zip(*lines, strict=True)]
        yield CurveReport(
            name=first.name,
            title=first.title,
            unit=first.unit,
            median=tuple(point.median for point in points if point is not None),
            low=tuple(point.low for point in points if point is not None),
            high=tuple(point.high for point in points if point is not None),
        )


# ---- files -----------------------------------------------------------------------------------------------------------


def write_comparison(report: ComparisonReport, root: str) -> None:
    """comparison.json and comparison.csv, each in one step, the same bytes for the same runs."""
    for name, data in ((TABLE_FILE, _table(report).encode()), (COMPARISON_FILE, report_bytes(report))):
        replace_file(Path(root, name), data)


def _table(report: ComparisonReport) -> str:
    """One line for each candidate, metric and seed: what notebooks like."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("candidate", "seed", "metric", "unit", "value"))
    for candidate in report.candidates:
        for metric in report.metrics:
            found = candidate.metrics.get(metric.name)
            values = () if found is None else found.values
            known = [(seed, value) for seed, value in zip(report.seeds, values, strict=False) if value is not None]
            for (seed, _), cell in zip(known, shown(value for _, value in known), strict=True):
                writer.writerow((candidate.name, seed, metric.name, metric.unit, cell))
    return text.getvalue()
