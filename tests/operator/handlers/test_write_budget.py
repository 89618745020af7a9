"""A series of changes is written at once; a quarrel about a status is not."""

from __future__ import annotations

from stowplan_operator.handlers.write_budget import WriteBudget


def test_a_few_writes_follow_at_once_and_then_one_in_each_period() -> None:
    budget = WriteBudget(at_once=3, period=2.0)
    assert [budget.spend("a", 0.0) for _ in range(4)] == [0, 0, 0, 2.0]
    assert budget.spend("a", 0.5) == 1.5
    assert budget.spend("a", 2.0) == 0
    assert budget.spend("a", 2.0) == 2.0


def test_objects_have_budgets_of_their_own_that_fill_up_again() -> None:
    budget = WriteBudget(at_once=2, period=1.0)
    assert [budget.spend("a", 0.0) for _ in range(3)] == [0, 0, 1.0]
    assert budget.spend("b", 0.0) == 0
    assert [budget.spend("a", 100.0) for _ in range(3)] == [0, 0, 1.0]


def test_a_quarrel_comes_down_to_one_write_in_each_period() -> None:
    budget = WriteBudget(at_once=5, period=3.0)
    written = sum(budget.spend("a", tick / 10) == 0 for tick in range(600))
    assert written == 5 + 60 // 3 - 1
