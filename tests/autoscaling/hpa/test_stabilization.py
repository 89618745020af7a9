"""Recommendations that must hold for a while."""

from __future__ import annotations

import pytest

from autoscaling.hpa.builders import NOW, SECOND
from stowplan_autoscaling.hpa.history import Recommendations
from stowplan_autoscaling.hpa.stabilization import stabilize_both, stabilize_down, stabilized_reason

MINUTE = 60 * SECOND


def remembered(*pairs: tuple[int, int]) -> Recommendations:
    """Recommendations, each with its age in nanoseconds."""
    found = Recommendations()
    for replicas, age in pairs:
        found.put(-1, replicas, NOW - age)
    return found


@pytest.mark.parametrize(
    ("current", "proposal", "up", "down", "given", "expected"),
    [
        (100, 3, 0, 3 * MINUTE, ((4, 2 * MINUTE), (5, MINUTE)), 5),
        (1, 7, 5 * MINUTE, 0, ((4, 2 * MINUTE), (5, MINUTE)), 4),
        (2, 1, 5 * MINUTE, 5 * MINUTE, ((3, 3 * MINUTE),), 2),
        (2, 3, 5 * MINUTE, 5 * MINUTE, ((1, 3 * MINUTE),), 2),
        (5, 1, 0, MINUTE, ((5, MINUTE),), 1),
        (5, 1, 0, MINUTE, ((5, MINUTE - 1),), 5),
    ],
)
def test_with_behavior_both_directions_wait(
    current: int, proposal: int, up: int, down: int, given: tuple[tuple[int, int], ...], expected: int
) -> None:
    """A recommendation exactly as old as the window is out."""
    assert stabilize_both(remembered(*given), current, proposal, up, down, NOW) == expected


@pytest.mark.parametrize(("age", "expected"), [(5 * MINUTE, 5), (5 * MINUTE + 1, 1)])
def test_without_behavior_only_scale_downs_wait(age: int, expected: int) -> None:
    """Here a recommendation exactly as old as the window still counts."""
    assert stabilize_down(remembered((5, age)), 1, 5 * MINUTE, NOW) == expected
    assert stabilize_down(remembered((5, age)), 9, 5 * MINUTE, NOW) == 9


def test_the_last_expired_slot_is_used_again() -> None:
    """The list must not grow for ever, and which slot is overwritten shows when a window grows."""
    found = remembered((7, 9 * MINUTE), (8, 8 * MINUTE), (2, MINUTE))
    stabilize_down(found, 1, 5 * MINUTE, NOW)
    assert found.replicas == [7, 1, 2]
    assert stabilize_both(found, 9, 1, 0, 10 * MINUTE, NOW) == 7


def test_a_slot_is_used_again_only_once_its_recommendation_counts_no_more() -> None:
    """Exactly as old as the window it still counts; a nanosecond later its slot is free."""
    for age, replicas in ((5 * MINUTE, [5, 1]), (5 * MINUTE + 1, [1])):
        found = remembered((5, age))
        stabilize_down(found, 1, 5 * MINUTE, NOW)
        assert found.replicas == replicas


def test_the_reason_depends_on_the_proposal() -> None:
    """Not on what came out: an unchanged proposal of an unchanged number counts as upward."""
    assert stabilized_reason(5, 5)[0] == "ScaleUpStabilized"
    assert stabilized_reason(5, 4)[0] == "ScaleDownStabilized"
