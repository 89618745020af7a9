"""The verdict: which candidate to take, what changes with it, which goals are kept, and what else one should know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan_autoscaling.experiment.comparison import (
    CandidateReport,
    ComparisonReport,
    Difference,
    GoalOutcome,
    GoalReport,
    MetricReport,
)
from stowplan_autoscaling.experiment.wording import majority

from . import palette
from .amounts import amount, counted, listed
from .markup import Child, Markup, chip, table, tag
from .metric_table import band_words, difference_words, kind_of, metrics_by_name, outcome_chip
from .sections import section
from .settings import whisker

HEADLINES: Final = 6
"""So many metrics stand on the card of a candidate: those of goals first, then these."""

_USUAL: Final = (
    "cost",
    "waiting.p95",
    "pending.p95",
    "sloMissedTime",
    "nodeHours",
    "evictions",
    "neverReady",
    "nodes.peak",
)
CHANGES: Final = 6


def build(comparison: ComparisonReport) -> Markup:
    """The section."""
    verdict = comparison.verdict
    missing = sum(not run.is_complete for one in comparison.candidates for run in one.runs)
    total = sum(len(one.runs) for one in comparison.candidates)
    note = None
    if not comparison.is_complete:
        note = tag(
            "p",
            chip("not complete", "bad"),
            f" {missing} of {total} runs are missing; what follows is about the others. The same command goes on.",
            class_="alert",
        )
    headline = tag(
        "div",
        _recommendation(comparison),
        tag("p", verdict.summary, class_="summary"),
        tag("ul", [tag("li", line) for line in verdict.lines])
        if len(verdict.lines) > 1 or verdict.lines != (verdict.summary,)
        else None,
        class_="headline",
    )
    many, seeds = counted(len(comparison.candidates), "candidate"), counted(len(comparison.seeds), "seed")
    names = headline_metrics(comparison)
    cards = [_card(comparison, index, one, names) for index, one in enumerate(comparison.candidates)]
    return section(
        "verdict",
        "Verdict",
        f"{many} with {seeds} each, against the baseline {comparison.baseline}.",
        note,
        headline,
        tag("div", cards, class_="cards"),
        _goals(comparison),
        _findings(comparison),
    )


def _recommendation(comparison: ComparisonReport) -> Markup:
    name = comparison.verdict.recommended
    if not name:
        return tag("p", chip("no recommendation", "bad"), class_="pick")
    if name == comparison.baseline:
        decided = [one for one in comparison.differences if one.outcome != "no difference" and one.baseline == name]
        goals = {goal.metric for goal in comparison.goals}
        word = "stay with" if any(one.metric in goals for one in decided) else "no difference: stay with"
        return tag("p", chip(word, "same"), " ", tag("strong", name), class_="pick")
    return tag("p", chip("recommended", "good"), " ", tag("strong", name), class_="pick")


def headline_metrics(comparison: ComparisonReport) -> list[str]:
    """The metrics of the cards: those that there are numbers for."""
    known = {name for one in comparison.candidates for name in one.metrics} & set(metrics_by_name(comparison))
    wanted = dict.fromkeys((*(goal.metric for goal in comparison.goals), *_USUAL))
    return [name for name in wanted if name in known][:HEADLINES]


# ---- cards ---------------------------------------------------------------------------------------------------------


def _card(comparison: ComparisonReport, index: int, one: CandidateReport, names: Sequence[str]) -> Markup:
    marks: list[Child] = []
    if one.is_baseline:
        marks.append(chip("baseline"))
    if one.name == comparison.verdict.recommended and not one.is_baseline:
        marks.append(chip("recommended", "good"))
    outcomes = [outcome for goal in comparison.goals for outcome in goal.outcomes if outcome.candidate == one.name]
    limits = [outcome.passes for outcome in outcomes if outcome.passes is not None]
    if limits:
        marks.append(chip("keeps all limits", "good") if all(limits) else chip("breaks a limit", "bad"))
    metrics = metrics_by_name(comparison)
    lines = [_line(comparison, one, metrics[name]) for name in names if name in one.metrics]
    return tag(
        "article",
        tag("h3", tag("i", class_="dot", style=f"--c:{palette.of(index)}", aria_hidden="true"), one.name),
        tag("p", marks, class_="marks") if marks else None,
        tag("p", one.description) if one.description else None,
        _changes(one),
        tag("div", lines, class_="headlines"),
        class_="card",
    )


def _changes(one: CandidateReport) -> Child:
    if one.is_baseline:
        return None
    if not one.changes:
        return tag("p", "Changes nothing.", class_="unit")
    items = [
        tag(
            "li",
            tag("code", change.path),
            " ",
            tag("del", change.baseline or "not set"),
            " → ",
            tag("ins", change.value or "not set"),
        )
        for change in one.changes[:CHANGES]
    ]
    if len(one.changes) > CHANGES:
        items.append(
            tag("li", f"and {len(one.changes) - CHANGES} more, under ", tag("a", "Settings", href="#settings"))
        )
    return tag("ul", items, class_="changes")


def _line(comparison: ComparisonReport, one: CandidateReport, metric: MetricReport) -> Markup:
    """A number of the card, and what it is against the baseline."""
    band = one.metrics[metric.name]
    found = [
        other
        for other in comparison.differences
        if other.metric == metric.name and other.baseline == comparison.baseline
    ]
    reach = max((max(abs(other.low), abs(other.high), abs(other.median)) for other in found), default=0.0)
    mine = next((other for other in found if other.candidate == one.name), None)
    shown: list[Child] = [
        tag("span", metric.title, class_="what"),
        tag("span", tag("b", amount(band.median, metric.unit)), band_words(band, metric.unit), class_="value"),
    ]
    if mine is not None:
        shown.append(_against(mine, metric, reach))
    return tag("div", shown, class_="number")


def _against(mine: Difference, metric: MetricReport, reach: float) -> Markup:
    if mine.median == mine.low == mine.high == 0:
        return tag("span", difference_words(mine, metric.unit), class_="against")
    most, word = majority(mine)
    seeds = f" {word} in {most} of {counted(mine.seeds, 'seed')}" if most and metric.better else None
    return tag(
        "span",
        whisker(mine.median, mine.low, mine.high, reach, kind_of(mine)),
        difference_words(mine, metric.unit),
        tag("span", outcome_chip(mine), seeds, class_="seeds"),
        class_="against",
    )


# ---- goals and findings --------------------------------------------------------------------------------------------


def _goals(comparison: ComparisonReport) -> Child:
    if not comparison.goals:
        return None
    metrics = metrics_by_name(comparison)
    names = [one.name for one in comparison.candidates]
    rows: list[list[Child]] = []
    for goal in comparison.goals:
        metric = metrics.get(goal.metric)
        unit = metric.unit if metric is not None else ""
        cells = {outcome.candidate: _outcome(outcome, unit, len(comparison.seeds)) for outcome in goal.outcomes}
        rows.append(
            [
                _goal_title(goal, metric),
                *(cells.get(name, amount(None, "")) for name in names),
                listed(list(goal.best)) or "–",
            ]
        )
    return (
        tag("h3", "Goals"),
        tag("p", "The most important first."),
        table(["goal", *names, "best"], rows, label="Goals", numbers=False),
    )


def _goal_title(goal: GoalReport, metric: MetricReport | None) -> Child:
    if metric is None:
        return goal.metric
    limit = None
    if goal.limit is not None:
        sign = "at least" if metric.better == "higher" else "at most"
        limit = tag("small", f"{sign} {amount(goal.limit, metric.unit)}")
    return (
        metric.title,
        limit,
        tag("small", f"less than {goal.tolerance} is no difference") if goal.tolerance else None,
    )


def _outcome(outcome: GoalOutcome, unit: str, seeds: int) -> Child:
    shown: list[Child] = [tag("b", amount(outcome.value, unit)), " "]
    if outcome.passes is not None:
        shown += [
            chip("pass", "good") if outcome.passes else chip("fail", "bad"),
            f" {outcome.seeds_passing} of {seeds} seeds ",
        ]
    if outcome.against not in {"baseline", "unknown"}:
        shown.append(chip(outcome.against, {"better": "good", "worse": "bad"}.get(outcome.against, "same")))
    return shown


def _findings(comparison: ComparisonReport) -> Child:
    items: list[Markup] = []
    for one in comparison.candidates:
        for finding in one.findings:
            where = listed([str(seed) for seed in finding.seeds])
            seeds = tag("span", f" (seed{'' if len(finding.seeds) == 1 else 's'} {where})", class_="unit")
            items.append(tag("li", tag("strong", one.name), ": ", finding.text, seeds))
        items.extend(tag("li", tag("strong", one.name), ": ", chip("warning"), " ", text) for text in one.warnings)
    if not items:
        return None
    return (tag("h3", "Findings"), tag("ul", items, class_="findings"))
