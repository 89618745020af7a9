"""The summary of problems for a condition."""

from __future__ import annotations

from stowplan_operator.resources import ProfileProblem, summary

FEW = [ProfileProblem("spec.a", "is wrong"), ProfileProblem("", "all of it is wrong")]


def test_few_problems_stand_side_by_side() -> None:
    assert summary(FEW) == "spec.a: is wrong; all of it is wrong"


def test_many_problems_are_counted() -> None:
    many = [ProfileProblem(f"spec.list[{index}]", "is wrong") for index in range(1000)]
    text = summary(many, 100)
    assert text == "spec.list[0]: is wrong; spec.list[1]: is wrong; spec.list[2]: is wrong; and 997 more"


def test_of_a_long_problem_the_beginning_is_shown() -> None:
    text = summary([ProfileProblem("spec.a", "x" * 2000), *FEW])
    assert len(text) == 1024
    assert text.startswith("spec.a: xxx")
    assert text.endswith("x...; and 2 more")
