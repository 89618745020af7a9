"""A comparison as tables for a terminal: verdict, goals, all metrics with their bands, curves, settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stowplan_autoscaling.experiment.comparison import (
    Band,
    CandidateReport,
    ComparisonReport,
    Difference,
    GoalOutcome,
    MetricReport,
)
from stowplan_autoscaling.experiment.wording import amount, change

from .console import console_of
from .run_progress import clock
from .run_tables import PLAIN_SPARKS, SPARKS, can_print, sparkline

MOST_SETTINGS: Final = 24
_FIRST: Final = 22
"""Columns of the names of metrics."""
_EACH: Final = 30
"""Columns of a candidate, about."""
_SPARK_COLUMNS: Final = 40

_COLORS: Final = {"better": "green", "worse": "red", "no difference": ""}
_SHOWN_CURVES: Final = ("replicas", "ready", "pending", "nodes", "cost", "cpuRequested", "cpuUsed")


def print_comparison(report: ComparisonReport, file: IO[str], root: str, page: str = "") -> None:
    """The verdict first. `root`: where the results are, `page`: the HTML report, "" for none. NO_COLOR is honoured."""
    console = console_of(file)
    console.print(Text(_title(report), style="bold"))
    for candidate in report.candidates:
        if candidate.description:
            console.print(Text(f"  {candidate.name}: {candidate.description}", style="dim"))
    console.print()
    _print_verdict(report, console)
    for chunk in _chunks(report, console.width):
        console.print(_metrics(report, chunk))
    _print_curves(report, console, SPARKS if can_print(file, SPARKS) else PLAIN_SPARKS)
    _print_settings(report, console)
    for line in _notes(report):
        console.print(Text(line))
    # Paths stay whole, to be copied.
    console.print(Text(f"results: {root}"), soft_wrap=True)
    if page:
        console.print(Text(f"report:  {page}"), soft_wrap=True)


def _title(report: ComparisonReport) -> str:
    seeds = report.seeds
    shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    candidates = f"{len(report.candidates)} candidate{'s' * (len(report.candidates) > 1)}"
    title = f"{report.name}: {candidates}, {shown}, {clock(report.duration)} each from {report.start}"
    return title if report.is_complete else f"{title}, not complete"


# ---- the verdict -----------------------------------------------------------------------------------------------------


def _print_verdict(report: ComparisonReport, console: Console) -> None:
    verdict = report.verdict
    style = "bold red" if verdict.passes is False else "bold green" if verdict.recommended else "bold"
    console.print(Text(verdict.summary, style=style))
    for line in verdict.lines:
        console.print(Text(f"  {line}"))
    limited = [goal for goal in report.goals if goal.limit is not None]
    metrics = {metric.name: metric for metric in report.metrics}
    for goal in limited:
        metric = metrics[goal.metric]
        text = Text(f"  limit of {metric.title}, {amount(goal.limit or 0.0, metric.unit)}: ")
        parts = [(passes, _limit_text(goal.outcomes, len(report.seeds), passes)) for passes in (True, False, None)]
        for index, (passes, part) in enumerate(part for part in parts if part[1]):
            text.append("; " if index else "")
            text.append(part, style="green" if passes else "red" if passes is False else "")
        console.print(text)


def _limit_text(outcomes: Sequence[GoalOutcome], seeds: int, passes: bool | None) -> str:
    """Who keeps it, and in how many seeds where that is not the same in all of them."""
    names = []
    for outcome in outcomes:
        if outcome.passes is passes:
            mixed = passes is not None and outcome.seeds_passing not in {0, seeds}
            names.append(outcome.candidate + (f" (in {outcome.seeds_passing} of {seeds} seeds)" if mixed else ""))
    word = "kept by" if passes else "missed by" if passes is False else "unknown for"
    return f"{word} {', '.join(names)}" if names else ""


# ---- metrics ---------------------------------------------------------------------------------------------------------


def _chunks(report: ComparisonReport, width: int) -> Iterator[list[CandidateReport]]:
    """As many candidates as have room beside each other, the baseline in each table."""
    baseline = next(candidate for candidate in report.candidates if candidate.is_baseline)
    others = [candidate for candidate in report.candidates if not candidate.is_baseline]
    room = max(1, (width - _FIRST) // _EACH - 1)
    for begin in range(0, len(others), room):
        yield [baseline, *others[begin : begin + room]]
    if not others:
        yield [baseline]


def _metrics(report: ComparisonReport, candidates: Sequence[CandidateReport]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("metric", overflow="fold", min_width=14)
    for candidate in candidates:
        title = f"{candidate.name} (baseline)" if candidate.is_baseline else candidate.name
        table.add_column(title, justify="right", overflow="fold")
    differences = {(each.candidate, each.metric): each for each in report.differences}
    goals = {goal.metric for goal in report.goals}
    group = ""
    silent = 0
    for metric in report.metrics:
        bands = [candidate.metrics.get(metric.name) for candidate in candidates]
        if all(band is None or band.low == band.high == 0 for band in bands) and metric.name not in goals:
            silent += 1
            continue
        if metric.group != group:
            group = metric.group
            table.add_row(Text(group, style="bold"))
        cells = [
            _cell(band, metric, differences.get((candidate.name, metric.name)))
            for band, candidate in zip(bands, candidates, strict=True)
        ]
        title = f"  {metric.title}"
        table.add_row(Text(title, style="underline" if metric.name in goals else ""), *cells)
    if silent:
        table.add_row(Text(f"{silent} more are 0", style="dim"))
    return table


def _cell(band: Band | None, metric: MetricReport, difference: Difference | None) -> Text:
    if band is None:
        return Text("-")
    text = Text(amount(band.median, metric.unit))
    if band.low != band.high:
        text.append(f" [{_bare(band.low, metric.unit)} to {_bare(band.high, metric.unit)}]", style="dim")
    if difference is not None and difference.outcome != "no difference":
        text.append(f"\n{_change(difference, metric)}", style=_COLORS[difference.outcome])
    return text


def _bare(value: float, unit: str) -> str:
    """Within a band a unit that is always the same need not be said again."""
    text = amount(value, unit).removeprefix(f"{unit} ")
    return text if unit == "s" else text.removesuffix(" %").removesuffix(f" {unit}")


def _change(difference: Difference, metric: MetricReport) -> str:
    unsure = "?" if difference.is_indicative else ""
    return f"{change(difference, metric.unit)} {difference.outcome}{unsure}"


# ---- curves and settings ---------------------------------------------------------------------------------------------


def _print_curves(report: ComparisonReport, console: Console, sparks: str) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name, side in (("over time", "left"), ("", "left"), ("", "left"), ("least", "right"), ("most", "right")):
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    columns = min(_SPARK_COLUMNS, max(8, console.width - 60))
    baseline = next(candidate for candidate in report.candidates if candidate.is_baseline)
    for curve in baseline.curves:
        if curve.name.startswith("demand."):
            least, most = (f"{value:,.1f}" for value in (min(curve.median), max(curve.median)))
            table.add_row(curve.title, "all", sparkline(curve.median, sparks, columns), least, most)
    for name in _SHOWN_CURVES:
        found = [
            (candidate, curve) for candidate in report.candidates for curve in candidate.curves if curve.name == name
        ]
        if not any(max(curve.median, default=0.0) for _, curve in found):
            continue
        for index, (candidate, curve) in enumerate(found):
            least, most = (amount(value, curve.unit) for value in (min(curve.median), max(curve.median)))
            title = "" if index else curve.title
            table.add_row(title, candidate.name, sparkline(curve.median, sparks, columns), least, most)
    if table.row_count:
        console.print(table)


def _print_settings(report: ComparisonReport, console: Console) -> None:
    if not report.settings:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("setting", overflow="fold", ratio=3)
    for candidate in report.candidates:
        table.add_column(candidate.name, overflow="fold", ratio=1)
    table.add_column("moved", overflow="fold", ratio=1)
    titles = {metric.name: metric.title for metric in report.metrics}
    for setting in report.settings[:MOST_SETTINGS]:
        moved = ", ".join(titles.get(name, name) for name in setting.mattered)
        if moved and not setting.is_alone:
            moved += " (with others)"
        values = (setting.values.get(candidate.name, "") or "-" for candidate in report.candidates)
        table.add_row(setting.path, *values, moved or "nothing")
    console.print(table)
    left = len(report.settings) - MOST_SETTINGS
    if left > 0:
        console.print(Text(f"{left:,} more settings differ; -o json shows them all"))


def _notes(report: ComparisonReport) -> Iterator[str]:
    for candidate in report.candidates:
        for finding in candidate.findings:
            numbers = ", ".join(map(str, finding.seeds))
            yield f"{candidate.name}: {finding.text} (seed{'s' * (len(finding.seeds) > 1)} {numbers})"
    if len(report.seeds) > 1:
        kinds = {band.kind for candidate in report.candidates for band in candidate.metrics.values()}
        band = "smallest and largest" if "min-max" in kinds else "5 % and 95 %"
        yield (
            f"Medians over {len(report.seeds)} seeds, in brackets {band}. Below, the difference to {report.baseline}, "
            "seed by seed, where there is one; ? is not sure with so few seeds."
        )
