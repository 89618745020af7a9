"""From numbers to a verdict: which candidate is better on which goal, which limits are kept, and which one to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from stowplan_autoscaling.resources.candidates import Goal

from .comparison import Band, Difference, GoalOutcome, GoalReport, MetricReport, VerdictReport
from .wording import against, amount

Bands = Mapping[str, Mapping[str, Band]]
"""By candidate, by metric."""

Differences = Mapping[tuple[str, str, str], Difference]
"""By candidate, the one it is compared with, and metric."""

_PRICED: Final = ("cost", "costPerMonth", "spotShare")
_PER_DEMAND: Final = "costPerThousand."
"""What only runs with prices have numbers for."""

Standing = Literal["better", "worse", "no difference", "baseline", "unknown"]


def goal_report(goal: Goal, names: Sequence[str], baseline: str, bands: Bands, differences: Differences) -> GoalReport:
    """All candidates on one goal."""
    limit = goal.limit_value
    outcomes = []
    for name in names:
        found = bands[name].get(goal.metric)
        values = [] if found is None else [value for value in found.values if value is not None]
        outcomes.append(
            GoalOutcome(
                candidate=name,
                value=None if found is None else found.median,
                passes=None if limit is None or found is None else _keeps(found.median, limit, goal),
                seeds_passing=0 if limit is None else sum(_keeps(value, limit, goal) for value in values),
                against=_standing(name, baseline, goal.metric, differences),
            )
        )
    return GoalReport(
        metric=goal.metric,
        limit=limit,
        tolerance=goal.tolerance,
        outcomes=tuple(outcomes),
        best=_best(goal.metric, names, bands, differences),
    )


def _keeps(value: float, limit: float, goal: Goal) -> bool:
    return value >= limit if goal.measure.better == "higher" else value <= limit


def _standing(name: str, baseline: str, metric: str, differences: Differences) -> Standing:
    if name == baseline:
        return "baseline"
    found = differences.get((name, baseline, metric))
    return "unknown" if found is None else found.outcome


def _best(metric: str, names: Sequence[str], bands: Bands, differences: Differences) -> tuple[str, ...]:
    """Those that no other candidate beats."""
    with_numbers = [name for name in names if metric in bands[name]]
    return tuple(
        name
        for name in with_numbers
        if not any(_beats(other, name, metric, differences) for other in with_numbers if other != name)
    )


def _beats(name: str, other: str, metric: str, differences: Differences) -> bool:
    found = differences.get((name, other, metric))
    return found is not None and found.outcome == "better"


# ---- the verdict -----------------------------------------------------------------------------------------------------


def verdict(
    names: Sequence[str],
    baseline: str,
    goals: Sequence[GoalReport],
    metrics: Mapping[str, MetricReport],
    differences: Differences,
    *,
    has_results: bool,
) -> VerdictReport:
    """What the goals come to. `has_results`: whether any run is finished."""
    others = [name for name in names if name != baseline]
    limited = [goal for goal in goals if goal.limit is not None]
    if all(outcome.value is None for goal in goals for outcome in goal.outcomes):
        if not has_results:
            return VerdictReport(recommended="", passes=None, summary="There are no results yet.", lines=())
        return VerdictReport(
            recommended="", passes=False if limited else None, summary=_unknown(goals, metrics), lines=()
        )
    keeping = [name for name in names if all(_outcome(goal, name).passes for goal in limited)]
    recommended = _recommended(baseline, others, goals, keeping, differences)
    return VerdictReport(
        recommended=recommended,
        passes=bool(keeping) if limited else None,
        summary=_summary(recommended, baseline, others, goals, keeping, metrics, differences),
        lines=tuple(_line(name, baseline, goals, metrics, differences) for name in others),
    )


def _unknown(goals: Sequence[GoalReport], metrics: Mapping[str, MetricReport]) -> str:
    """Why there is nothing to judge although runs are finished."""
    names = ", ".join(metrics[goal.metric].title for goal in goals)
    if all(goal.metric in _PRICED or goal.metric.startswith(_PER_DEMAND) for goal in goals):
        return (
            f"No verdict: {names} cannot be told, as no node has a price (spec.prices.file, or price of a node group)."
        )
    return f"No verdict: no run has a number for {names}."


def _outcome(goal: GoalReport, name: str) -> GoalOutcome:
    return next(outcome for outcome in goal.outcomes if outcome.candidate == name)


def _standings(name: str, goals: Sequence[GoalReport]) -> list[Standing]:
    return [_outcome(goal, name).against for goal in goals]


def _recommended(
    baseline: str,
    others: Sequence[str],
    goals: Sequence[GoalReport],
    keeping: Sequence[str],
    differences: Differences,
) -> str:
    """The one that is better on a goal and worse on none; of several, the one that the first goal prefers."""
    found = ""
    for name in others:
        standings = _standings(name, goals)
        improves = "better" in standings and "worse" not in standings
        # Where the baseline misses a limit, keeping all of them is what counts.
        rescues = baseline not in keeping and bool(keeping)
        if name in keeping and (improves or rescues) and (not found or _prefers(name, found, goals, differences)):
            found = name
    return found or (baseline if baseline in keeping else "")


def _prefers(name: str, other: str, goals: Sequence[GoalReport], differences: Differences) -> bool:
    for goal in goals:
        if _beats(name, other, goal.metric, differences):
            return True
        if _beats(other, name, goal.metric, differences):
            return False
    return False


def _summary(
    recommended: str,
    baseline: str,
    others: Sequence[str],
    goals: Sequence[GoalReport],
    keeping: Sequence[str],
    metrics: Mapping[str, MetricReport],
    differences: Differences,
) -> str:
    if not recommended:
        return f"No candidate keeps all limits: {_missed([baseline, *others], goals, metrics)}."
    if not others:
        return f"{baseline} is the only candidate: there is nothing to compare it with."
    if recommended != baseline:
        better = [goal for goal in goals if _outcome(goal, recommended).against == "better"]
        texts = [_worded(recommended, baseline, goal, metrics, differences) for goal in better]
        gains = "; ".join(text for text in texts if text)
        if baseline not in keeping:
            gains = f"it keeps all limits, {baseline} does not" + (f"; {gains}" if gains else "")
        return f"{recommended} is better than {baseline}: {gains}."
    if all(standing == "no difference" for name in others for standing in _standings(name, goals)):
        return f"No difference: no candidate is better or worse than {baseline} on any goal."
    traded = [name for name in others if {"better", "worse"} <= set(_standings(name, goals))]
    if traded:
        return f"Keep {baseline}, or weigh up: {', '.join(traded)} is better on one goal and worse on another."
    return f"Keep {baseline}: no candidate that keeps the limits is better on a goal."


def _missed(names: Sequence[str], goals: Sequence[GoalReport], metrics: Mapping[str, MetricReport]) -> str:
    texts = []
    for name in names:
        for goal in goals:
            outcome = _outcome(goal, name)
            if outcome.passes is False and goal.limit is not None and outcome.value is not None:
                metric = metrics[goal.metric]
                value, limit = amount(outcome.value, metric.unit), amount(goal.limit, metric.unit)
                texts.append(f"{name} has {metric.title} {value} (limit {limit})")
                break
    return "; ".join(texts) or "there are no numbers for some goals"


def _line(
    name: str,
    baseline: str,
    goals: Sequence[GoalReport],
    metrics: Mapping[str, MetricReport],
    differences: Differences,
) -> str:
    """What it is better at, then what it is worse at, then the rest."""
    found = {goal.metric: differences.get((name, baseline, goal.metric)) for goal in goals}
    texts = []
    for outcome in ("better", "worse"):
        for metric, each in found.items():
            if each is not None and each.outcome == outcome:
                unsure = " (indicative: too few seeds)" if each.is_indicative else ""
                texts.append(f"{metrics[metric].title} {outcome}, {against(each, metrics[metric])}{unsure}")
    for word, is_open in (("no difference in", False), ("no difference shown in", True)):
        same = [
            metrics[metric].title
            for metric, each in found.items()
            if each is not None and each.outcome == "no difference" and each.is_indicative == is_open
        ]
        texts += [f"{word} {', '.join(same)}"] if same else []
    unknown = [metrics[metric].title for metric, each in found.items() if each is None]
    texts += [f"{', '.join(unknown)} unknown"] if unknown else []
    missed = [metrics[goal.metric].title for goal in goals if _outcome(goal, name).passes is False]
    texts += [f"misses the limit of {', '.join(missed)}"] if missed else []
    return f"{name}: {'; '.join(texts)}."


def _worded(
    name: str,
    baseline: str,
    goal: GoalReport,
    metrics: Mapping[str, MetricReport],
    differences: Differences,
) -> str:
    found = differences.get((name, baseline, goal.metric))
    if found is None:
        return ""
    unsure = " (indicative: too few seeds)" if found.is_indicative else ""
    return f"{metrics[goal.metric].title} {against(found, metrics[goal.metric])}{unsure}"
