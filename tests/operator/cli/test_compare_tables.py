"""A comparison in tables, each number in its place: made by hand."""

from __future__ import annotations

from io import StringIO

import pytest
from msgspec.structs import replace

from stowplan_autoscaling.experiment.comparison import (
    SCHEMA,
    Band,
    CandidateReport,
    ComparisonReport,
    CurveReport,
    Difference,
    Finding,
    GoalOutcome,
    GoalReport,
    MetricReport,
    OriginReport,
    SettingReport,
    VerdictReport,
)
from stowplan_operator.cli.compare_tables import print_comparison


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with room for all candidates."""
    monkeypatch.setenv("COLUMNS", "200")


def metric(name: str, unit: str, group: str = "waiting") -> MetricReport:
    """One whose title is its name."""
    return MetricReport(name=name, title=name, group=group, unit=unit, better="lower", definition="")


def band(low: float, median: float, high: float) -> Band:
    """Of two seeds."""
    return Band(median=median, low=low, high=high, kind="min-max", values=(low, high))


def curve(name: str, unit: str, *values: float) -> CurveReport:
    """The same in all seeds."""
    return CurveReport(name=name, title=f"the {name}", unit=unit, median=values, low=values, high=values)


def candidate(name: str, **fields: object) -> CandidateReport:
    """One without numbers; today is the baseline."""
    made = CandidateReport(
        name=name,
        description="",
        is_baseline=name == "today",
        changes=(),
        runs=(),
        metrics={},
        curves=(),
        findings=(),
        warnings=(),
    )
    return replace(made, **fields)


def difference(outcome: str, *, share: float, is_indicative: bool) -> Difference:
    """Of lean against today in `wait`."""
    made = Difference(
        candidate="lean",
        baseline="today",
        metric="wait",
        median=10,
        share=share,
        low=9,
        high=11,
        seeds=2,
        better=0,
        worse=2,
        equal=0,
        chance=0.5,
        tolerance=1,
        outcome="worse",
        is_indicative=is_indicative,
    )
    return replace(made, outcome=outcome)


def comparison(*candidates: CandidateReport, **fields: object) -> ComparisonReport:
    """Of two seeds."""
    made = ComparisonReport(
        schema=SCHEMA,
        name="small",
        is_complete=True,
        start="2026-01-05T00:00:00Z",
        duration=600,
        seeds=(4, 5),
        currency="USD",
        baseline="today",
        verdict=VerdictReport(recommended="", passes=None, summary="Keep today.", lines=("lean: no better.",)),
        goals=(),
        metrics=(),
        candidates=candidates or (candidate("today"), candidate("lean")),
        differences=(),
        settings=(),
        effects=(),
        origin=OriginReport(version="", kubernetes="", digests={}, resamples=0, bootstrap_seed=0),
    )
    return replace(made, **fields)


def lines_of(report: ComparisonReport) -> list[str]:
    """What is shown, with single spaces."""
    screen = StringIO()
    print_comparison(report, screen, "out")
    return [" ".join(line.split()) for line in screen.getvalue().splitlines()]


def test_the_title_and_the_verdict_come_first() -> None:
    """With the first and the last seed; a comparison that lacks runs says so."""
    lines = lines_of(comparison())
    title = "small: 2 candidates, seeds 4 to 5, 00:10:00 each from 2026-01-05T00:00:00Z"
    assert lines[:4] == [title, "", "Keep today.", "lean: no better."]
    assert lines_of(comparison(is_complete=False))[0] == f"{title}, not complete"
    one = lines_of(comparison(candidate("today"), seeds=(4,)))
    assert one[0] == "small: 1 candidate, seed 4, 00:10:00 each from 2026-01-05T00:00:00Z"


def test_a_limit_says_who_keeps_it_who_misses_it_and_who_has_no_number() -> None:
    """And in how many seeds, where that is not the same in all of them."""
    outcomes = tuple(
        GoalOutcome(candidate=name, value=1, passes=passes, seeds_passing=seeds, against="unknown")
        for name, passes, seeds in (
            ("today", True, 2), ("more", True, 1), ("lean", False, 0), ("mixed", False, 1), ("none", None, 1)
        )
    )  # fmt: skip
    goal = GoalReport(metric="wait", limit=300, tolerance="", outcomes=outcomes, best=())
    lines = lines_of(comparison(goals=(goal,), metrics=(metric("wait", "s"),)))
    assert lines[4] == (
        "limit of wait, 5.0 min: kept by today, more (in 1 of 2 seeds); "
        "missed by lean, mixed (in 1 of 2 seeds); unknown for none"
    )


def test_a_cell_has_the_median_the_band_and_the_difference() -> None:
    """Metrics stand under their group; the unit is not said again within a band, but for seconds."""
    today = candidate("today", metrics={"wait": band(20, 30, 40), "used": band(0.25, 0.5, 0.75)})
    lean = candidate("lean", metrics={"wait": band(60, 60, 60)})
    metrics = (metric("wait", "s"), metric("used", "share", "packing"))
    found = (difference("worse", share=1.0, is_indicative=True),)
    lines = lines_of(comparison(today, lean, metrics=metrics, differences=found))
    head = lines.index("metric today (baseline) lean")
    assert lines[head + 2 : head + 7] == [
        "waiting",
        "wait 30.0 s [20.0 s to 40.0 s] 60.0 s",
        "+100.0 % worse?",
        "packing",
        "used 50.0 % [25.0 to 75.0] -",
    ]


def test_only_a_difference_that_is_not_sure_has_a_question_mark_and_none_is_not_shown() -> None:
    """Sure: better; none: nothing below the number."""
    today, lean = (candidate(name, metrics={"wait": band(60, 60, 60)}) for name in ("today", "lean"))
    sure = difference("better", share=-0.5, is_indicative=False)
    none = difference("no difference", share=0.001, is_indicative=False)
    shown = comparison(today, lean, metrics=(metric("wait", "s"),))
    assert "-50.0 % better" in lines_of(replace(shown, differences=(sure,)))
    assert not any("difference" in line for line in lines_of(replace(shown, differences=(none,)))[:-2])


def test_metrics_that_are_zero_are_counted_unless_they_are_goals() -> None:
    """Three are 0, one of them a goal, and one has no number at all."""
    zero = band(0, 0, 0)
    today, lean = (candidate(name, metrics={"a": zero, "b": zero, "goal": zero}) for name in ("today", "lean"))
    goal = GoalReport(metric="goal", limit=None, tolerance="", outcomes=(), best=())
    metrics = tuple(metric(name, "count") for name in ("a", "b", "goal", "no number"))
    lines = lines_of(comparison(today, lean, metrics=metrics, goals=(goal,)))
    assert "goal 0 0" in lines
    assert "3 more are 0" in lines
    assert "a 0 0" not in lines


def test_a_narrow_terminal_has_all_candidates_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each beside the baseline."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = lines_of(comparison(*map(candidate, ("today", "more", "lean"))))
    assert [line for line in lines if line.startswith("metric")] == [
        "metric today (baseline) more",
        "metric today (baseline) lean",
    ]


def test_curves_end_with_their_least_and_their_most() -> None:
    """Demand once for all, replicas per candidate; a curve of zeros is left out."""
    today = candidate(
        "today",
        curves=(curve("demand.visits", "/s", 9, 3), curve("replicas", "pods", 2, 8), curve("cost", "USD", 0, 0)),
    )
    lean = candidate("lean", curves=(curve("demand.visits", "/s", 9, 3), curve("replicas", "pods", 1, 4)))
    lines = lines_of(comparison(today, lean))
    assert [line.split()[-2:] for line in lines if line.startswith("the demand.visits all")] == [["3.0", "9.0"]]
    [row] = [index for index, line in enumerate(lines) if line.startswith("the replicas today")]
    assert lines[row].split()[-2:] == ["2", "8"]
    assert lines[row + 1].split()[0] == "lean"
    assert lines[row + 1].split()[-2:] == ["1", "4"]
    assert not any("the cost" in line for line in lines)


def test_settings_show_the_value_of_each_candidate_and_what_it_moved() -> None:
    """Alone, with others, or nothing; twenty-four are shown."""
    values = {"today": "2", "lean": "3"}
    settings = (
        SettingReport(path="count", values=values, is_alone=True, mattered=("wait",)),
        SettingReport(path="cpu", values={"lean": "1"}, is_alone=False, mattered=("wait",)),
        SettingReport(path="idle", values=values, is_alone=True, mattered=()),
    )
    shown = comparison(metrics=(metric("wait", "s"),), settings=settings)
    lines = lines_of(shown)
    head = lines.index("setting today lean moved")
    assert lines[head + 2 : head + 5] == ["count 2 3 wait", "cpu - 1 wait (with others)", "idle 2 3 nothing"]
    many = tuple(replace(settings[0], path=f"s{number}") for number in range(26))
    lines = lines_of(replace(shown, settings=many))
    assert "s23 2 3 wait" in lines
    assert "s24 2 3 wait" not in lines
    assert "2 more settings differ; -o json shows them all" in lines


@pytest.mark.parametrize(("kind", "words"), [("min-max", "smallest and largest"), ("5-95 %", "5 % and 95 %")])
def test_notes_name_findings_with_their_seeds_and_say_what_brackets_are(kind: str, words: str) -> None:
    """One seed, or seeds."""
    findings = (Finding(text="oscillates", seeds=(4,)), Finding(text="is late", seeds=(4, 5)))
    lean = candidate("lean", findings=findings, metrics={"wait": replace(band(1, 2, 3), kind=kind)})
    lines = lines_of(comparison(candidate("today"), lean))
    assert "lean: oscillates (seed 4)" in lines
    assert "lean: is late (seeds 4, 5)" in lines
    assert any(line.startswith(f"Medians over 2 seeds, in brackets {words}. Below, ") for line in lines)
