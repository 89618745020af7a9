"""How far one step may go."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from autoscaling.hpa.builders import NOW, SECOND, policy, rules
from stowplan_autoscaling.hpa.defaults import DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP
from stowplan_autoscaling.hpa.history import History
from stowplan_autoscaling.hpa.objects import HPAScalingRules
from stowplan_autoscaling.hpa.rate_limits import RatePolicies, limit_with_behavior, limit_without_behavior


class Case(NamedTuple):
    """Changes `up` and `down` were made a second ago; `given` are the rules of the direction of the step."""

    current: int
    desired: int
    given: HPAScalingRules
    up: tuple[int, ...]
    down: tuple[int, ...]
    replicas: int
    reason: str
    least: int = 1
    most: int = 1000


CASES = [
    Case(10, 50, DEFAULT_SCALE_UP, (), (), 20, "ScaleUpLimit"),
    Case(1, 50, DEFAULT_SCALE_UP, (), (), 5, "ScaleUpLimit"),
    Case(10, 500, rules(policy("Pods", 100), policy("Percent", 100)), (), (), 110, "ScaleUpLimit"),
    Case(10, 50, rules(policy("Percent", 200)), (), (), 30, "ScaleUpLimit"),
    Case(100, 500, rules(policy("Pods", 300)), (1, 5, 9), (), 200, "TooManyReplicas", most=200),
    Case(100, 500, rules(policy("Pods", 150, 120)), (1, 5, 9), (), 235, "ScaleUpLimit"),
    Case(100, 500, rules(policy("Percent", 200, 120)), (1, 5, 9), (), 255, "ScaleUpLimit"),
    Case(6, 24, rules(policy("Percent", 300, 300)), (4,), (2,), 16, "ScaleUpLimit"),
    Case(100, 500, rules(policy("Percent", 10)), (), (), 111, "ScaleUpLimit"),
    Case(4, 9, rules(policy("Pods", 3), policy("Percent", 25), select="Min"), (), (), 5, "ScaleUpLimit"),
    Case(4, 9, rules(policy("Pods", 3), select="Disabled"), (), (), 4, "ScaleUpLimit"),
    Case(4, 9, rules(policy("Pods", 3)), (20,), (), 4, "ScaleUpLimit"),
    Case(10, 12, DEFAULT_SCALE_UP, (), (), 12, "DesiredWithinRange"),
    Case(10, 10, rules(policy("Pods", 1), select="Disabled"), (), (), 10, "DesiredWithinRange", most=5),
    Case(100, 2, rules(policy("Pods", 20), policy("Percent", 1)), (), (), 80, "ScaleDownLimit"),
    Case(10, 2, DEFAULT_SCALE_DOWN, (), (), 5, "TooFewReplicas", least=5),
    Case(10, 5, rules(policy("Percent", 50)), (), (), 5, "DesiredWithinRange"),
    Case(100, 2, rules(policy("Pods", 5, 120)), (), (1, 5, 9), 100, "ScaleDownLimit"),
    Case(100, 0, rules(policy("Percent", 50, 120)), (), (2, 4, 6), 56, "ScaleDownLimit"),
    Case(10, 1, rules(policy("Percent", 50, 180)), (2,), (4,), 6, "ScaleDownLimit"),
    Case(10, 1, rules(policy("Pods", 1), policy("Percent", 50), select="Min"), (), (), 9, "ScaleDownLimit"),
    Case(3, 1, rules(policy("Percent", 10)), (), (), 2, "ScaleDownLimit"),
]


@pytest.mark.parametrize("case", CASES)
def test_policies_limit_a_step(case: Case) -> None:
    """Numbers of upstream's tests, and some by hand: 100 * 1.1 is a little more than 110 in floats, hence 111."""
    history = History()
    for change in case.up:
        history.up.store(change, 10**6 * SECOND, NOW - SECOND)
    for change in case.down:
        history.down.store(change, 10**6 * SECOND, NOW - SECOND)
    given = RatePolicies(case.given)
    found = limit_with_behavior(case.current, case.desired, case.least, case.most, given, given, history, NOW)
    assert (found.replicas, found.reason) == (case.replicas, case.reason)


def test_a_change_exactly_a_period_ago_no_longer_counts() -> None:
    """Upstream's comparison is strict."""
    history = History()
    history.up.store(3, 60 * SECOND, NOW - 60 * SECOND)
    assert history.up.within(60 * SECOND, NOW) == 0
    assert history.up.within(60 * SECOND, NOW - 1) == 3


def test_an_outdated_change_gives_up_its_slot_for_good() -> None:
    """Marked with a period of 60 s, its slot goes to the next change, even if that comes with a longer period."""
    history = History()
    history.up.store(1, 60 * SECOND, NOW)
    history.up.store(2, 60 * SECOND, NOW + 61 * SECOND)
    assert (history.up.changes, history.up.times) == ([2], [NOW + 61 * SECOND])
    history.up.store(4, 600 * SECOND, NOW + 130 * SECOND)
    assert history.up.changes == [2, 4]


@pytest.mark.parametrize(
    ("current", "desired", "replicas", "reason"),
    [
        (1, 90, 4, "ScaleUpLimit"),
        (4, 90, 8, "ScaleUpLimit"),
        (60, 150, 100, "TooManyReplicas"),
        (5, 1, 2, "TooFewReplicas"),
        (5, 3, 3, "DesiredWithinRange"),
    ],
)
def test_without_behavior_a_step_at_most_doubles(current: int, desired: int, replicas: int, reason: str) -> None:
    """Or goes up to 4, and never down slower than at once."""
    found = limit_without_behavior(current, desired, 2, 100)
    assert (found.replicas, found.reason) == (replicas, reason)
