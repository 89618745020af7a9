"""The verdict, and its words."""

from __future__ import annotations

from itertools import permutations

import pytest

from stowplan_autoscaling.experiment.comparison import Band, GoalReport, MetricReport, VerdictReport
from stowplan_autoscaling.experiment.statistics import band, paired
from stowplan_autoscaling.experiment.verdict import Differences, goal_report, verdict
from stowplan_autoscaling.experiment.wording import amount, majority, seconds, step
from stowplan_autoscaling.resources.candidates import Goal
from support.optional import some

Numbers = dict[str, dict[str, list[float]]]
"""By candidate and metric, seed by seed."""

METRICS = {
    "cost": MetricReport(name="cost", title="cost", group="cost", unit="USD", better="lower", definition=""),
    "waiting.p95": MetricReport(
        name="waiting.p95", title="waiting p95", group="waiting", unit="s", better="lower", definition=""
    ),
}


def judged(numbers: Numbers, *goals: Goal) -> tuple[VerdictReport, list[GoalReport]]:
    """With the first candidate as the baseline."""
    names = list(numbers)
    bands: dict[str, dict[str, Band]] = {
        name: {metric: line for metric, values in each.items() if (line := band(values)) is not None}
        for name, each in numbers.items()
    }
    differences: Differences = {
        (one, other, goal.metric): found
        for one, other in permutations(names, 2)
        for goal in goals
        if goal.metric in numbers[one] and goal.metric in numbers[other]
        if (
            found := paired(
                one,
                other,
                goal.metric,
                list(zip(numbers[one][goal.metric], numbers[other][goal.metric], strict=True)),
                better="lower",
                tolerance=goal.tolerance_of(10),
            )
        )
    }
    reports = [goal_report(goal, names, names[0], bands, differences) for goal in goals]
    return verdict(names, names[0], reports, METRICS, differences, has_results=any(numbers.values())), reports


def run(cost: float, wait: float, seeds: int = 6) -> dict[str, list[float]]:
    """Seeds that differ a little, by the same for all candidates."""
    return {
        "cost": [cost + seed / 100 for seed in range(seeds)],
        "waiting.p95": [wait + seed / 100 for seed in range(seeds)],
    }


COST, WAIT = Goal(metric="cost"), Goal(metric="waiting.p95")


def test_a_candidate_that_is_better_and_nowhere_worse_is_recommended() -> None:
    """With how much, and how sure."""
    found, goals = judged({"today": run(50, 30), "packed": run(40, 30)}, COST, WAIT)
    assert (found.recommended, found.passes) == ("packed", None)
    assert found.summary == (
        "packed is better than today: cost -20.0 % (-USD 10.00), 95 % from -USD 10.00 to -USD 10.00, "
        "6 of 6 seeds better."
    )
    assert [goal.best for goal in goals] == [("packed",), ("today", "packed")]
    assert [outcome.against for outcome in goals[0].outcomes] == ["baseline", "better"]


def test_better_at_one_and_worse_at_another_is_for_people_to_weigh() -> None:
    """The baseline stays."""
    found, _ = judged({"today": run(50, 30), "packed": run(40, 60)}, COST, WAIT)
    assert found.recommended == "today"
    assert found.summary == "Keep today, or weigh up: packed is better on one goal and worse on another."
    assert found.lines[0].startswith("packed: cost better, -20.0 % (-USD 10.00)")
    assert "waiting p95 worse, +99.9 % (+30.0 s)" in found.lines[0]


def test_no_difference_is_a_verdict() -> None:
    """When that is the truth."""
    found, goals = judged({"today": run(50, 30), "other": run(50, 30), "third": run(50.05, 30)}, COST, WAIT)
    assert found.recommended == "today"
    assert found.summary == "No difference: no candidate is better or worse than today on any goal."
    assert found.lines[0] == "other: no difference in cost, waiting p95."
    assert goals[0].best == ("today", "other", "third")


def test_few_seeds_are_called_few() -> None:
    """Three of three have one chance in four."""
    found, _ = judged({"today": run(50, 30, 3), "packed": run(40, 30, 3)}, COST)
    assert found.summary.endswith("3 of 3 seeds better (indicative: too few seeds).")


def test_a_candidate_that_misses_a_limit_is_not_recommended() -> None:
    """However cheap it is."""
    found, goals = judged({"today": run(50, 30), "packed": run(40, 61)}, COST, Goal(metric="waiting.p95", limit="60s"))
    assert (found.recommended, found.passes) == ("today", True)
    assert [outcome.passes for outcome in goals[1].outcomes] == [True, False]
    assert [outcome.seeds_passing for outcome in goals[1].outcomes] == [6, 0]
    assert found.lines[0].endswith("misses the limit of waiting p95.")


def test_a_limit_is_kept_by_what_is_just_at_it() -> None:
    """Where more is better, too: 99 % of requests."""
    names, shares = ["at", "below"], {"at": [0.99] * 3, "below": [0.98] * 3}
    bands = {name: {"slo.fast": some(band(values))} for name, values in shares.items()}
    outcomes = goal_report(Goal(metric="slo.fast", limit="99%"), names, "at", bands, {}).outcomes
    assert [(outcome.passes, outcome.seeds_passing) for outcome in outcomes] == [(True, 3), (False, 0)]


def test_each_seed_keeps_a_limit_by_itself() -> None:
    """Two of three, although the median keeps it."""
    bands = {"today": {"waiting.p95": some(band([50.0, 55.0, 70.0]))}}
    (outcome,) = goal_report(Goal(metric="waiting.p95", limit="60s"), ["today"], "today", bands, {}).outcomes
    assert (outcome.value, outcome.passes, outcome.seeds_passing) == (55, True, 2)


def test_where_the_baseline_misses_a_limit_one_that_keeps_all_is_recommended() -> None:
    """Although it costs more."""
    found, _ = judged({"today": run(40, 90), "wide": run(50, 30)}, COST, Goal(metric="waiting.p95", limit="60s"))
    assert found.recommended == "wide"
    assert found.summary.startswith(
        "wide is better than today: it keeps all limits, today does not; waiting p95 -66.6 %"
    )


def test_where_nobody_keeps_the_limits_nobody_is_recommended() -> None:
    """And each is told by how much it misses."""
    found, _ = judged({"today": run(40, 90), "wide": run(50, 70)}, Goal(metric="waiting.p95", limit="60s"))
    assert (found.recommended, found.passes) == ("", False)
    assert found.summary == (
        "No candidate keeps all limits: today has waiting p95 90.0 s (limit 60.0 s); "
        "wide has waiting p95 70.0 s (limit 60.0 s)."
    )


def test_of_several_better_ones_the_first_goal_decides() -> None:
    """Then the second."""
    numbers = {"today": run(50, 30), "fast": run(50, 10), "cheap": run(40, 30), "both": run(40, 20)}
    assert judged(numbers, COST, WAIT)[0].recommended == "both"
    assert judged(numbers, WAIT, COST)[0].recommended == "fast"


def test_one_candidate_alone_has_bands_and_no_verdict() -> None:
    """It is its own baseline."""
    found, _ = judged({"today": run(50, 30)}, COST)
    assert (found.recommended, found.lines) == ("today", ())
    assert found.summary == "today is the only candidate: there is nothing to compare it with."


def test_what_is_not_known_is_not_judged() -> None:
    """Nobody has a price."""
    numbers: Numbers = {"today": {"waiting.p95": [1.0]}, "other": {"waiting.p95": [1.0]}}
    found, goals = judged(numbers, COST, WAIT)
    assert [(outcome.value, outcome.against) for outcome in goals[0].outcomes] == [
        (None, "baseline"),
        (None, "unknown"),
    ]
    assert found.lines[0] == "other: no difference in waiting p95; cost unknown."


def test_without_any_result_there_is_no_verdict() -> None:
    """A comparison that was stopped at once."""
    found, _ = judged({"today": {}, "other": {}}, Goal(metric="cost", limit="1"))
    assert found == VerdictReport(recommended="", passes=None, summary="There are no results yet.", lines=())


def test_cost_without_a_price_is_not_a_comparison_without_results() -> None:
    """Whoever has a limit of it does not know that it is kept."""
    numbers: Numbers = {"today": {"waiting.p95": [1.0]}, "other": {"waiting.p95": [2.0]}}
    found, _ = judged(numbers, COST)
    assert (found.recommended, found.passes, found.lines) == ("", None, ())
    assert found.summary == (
        "No verdict: cost cannot be told, as no node has a price (spec.prices.file, or price of a node group)."
    )
    assert judged(numbers, Goal(metric="cost", limit="1"))[0].passes is False
    waits, _ = judged({"today": {"cost": [1.0]}, "other": {"cost": [2.0]}}, WAIT)
    assert waits.summary == "No verdict: no run has a number for waiting p95."


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25, "s", "250 ms"),
        (61.04, "s", "61.0 s"),
        (150, "s", "2.5 min"),
        (9000, "s", "2.5 h"),
        (0.1234, "share", "12.3 %"),
        (1234.5, "USD", "USD 1,234.50"),
        (0.5, "USD", "USD 0.50"),
        (0, "USD", "USD 0.00"),
        (0.001234, "USD", "USD 0.0012"),
        (0.000001, "USD", "USD 0.000001"),
        (6, "nodes", "6"),
        (6.25, "nodes", "6.2"),
        (12, "h", "12.0 h"),
        (0.5, "/h", "0.50 /h"),
    ],
)
def test_amounts_have_their_units(value: float, unit: str, text: str) -> None:
    """As short as they can be read."""
    assert amount(value, unit) == text


def test_beside_next_to_nothing_an_amount_says_more_than_a_percentage() -> None:
    """From 1 ms to 11 s is a million percent."""
    found, _ = judged({"today": run(50, 0.001, 1), "packed": run(50, 11, 1)}, WAIT)
    assert found.lines == ("packed: waiting p95 worse, +11.0 s, 1 of 1 seeds worse (indicative: too few seeds).",)


def test_differences_always_have_a_sign() -> None:
    """Shares differ by percentage points."""
    assert [step(value, "share") for value in (0.05, -0.05, 0)] == ["+5.0 pp", "-5.0 pp", "0.0 pp"]
    assert step(-90, "s") == "-90.0 s"
    assert step(3, "USD") == "+USD 3.00"
    assert seconds(-0.5) == "-500 ms"


@pytest.mark.parametrize(
    ("costs", "found"), [([9.0, 9.0, 11.0], (2, "better")), ([9.0, 11.0, 11.0], (2, "worse")), ([9.0, 11.0], (0, ""))]
)
def test_the_larger_half_of_the_seeds_is_named(costs: list[float], found: tuple[int, str]) -> None:
    """Equally many on both sides say nothing."""
    difference = paired("a", "b", "cost", [(cost, 10.0) for cost in costs], better="lower", tolerance=0.0)
    assert difference is not None
    assert majority(difference) == found
