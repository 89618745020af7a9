"""Series and usage of scenarios: many pods at once use what each of them uses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.demand.points import Points, Usage, UsageSpec


def test_a_step_series_has_its_first_value_before_its_first_point() -> None:
    """And each value from its time on."""
    one = Points([[10, 1, 7], [20, 5, 8]])
    assert [one.at(t) for t in (0, 10, 19.999, 20, 100)] == [(1, 7), (1, 7), (1, 7), (5, 8), (5, 8)]
    assert one.first_at(20) == 5


def test_a_series_without_points_has_no_value() -> None:
    """As a number it is 0."""
    assert Points([]).at(5) == ()
    assert Points([]).first_at(5) == 0


def test_a_linear_series_is_interpolated_in_whole_milliseconds_and_rounded_down() -> None:
    """From 0 to 10 in 3 s: a third of the way is 3, not 3.33; downwards from 10 it is 6 (floor of 6.67)."""
    up, down = Points([[0, 0], [3, 10]], linear=True), Points([[0, 10], [3, 0]], linear=True)
    assert [up.first_at(t) for t in (-1, 0, 1, 1.5, 2.9999, 3, 9)] == [0, 0, 3, 5, 10, 10, 10]
    assert [down.first_at(t) for t in (1, 1.5)] == [6, 5]


@pytest.mark.parametrize(
    ("ready", "count", "used"),
    [(True, 4, 260), (True, 100, 20), (True, 0, 510), (True, 1, 510), (False, 4, 77)],
)
def test_pods_share_a_demand(ready: bool, count: int, used: int) -> None:
    """1000 by 4 pods are 250 each, on top of 10 at rest; one pod can serve 500. A pod that is not ready uses 77."""
    one = Usage(UsageSpec(demand=((0, 1000),), idle=10, cap=500, starting=77))
    assert one.of("p", 1, ready, count, 0) == used


def test_the_spread_varies_with_the_number_of_the_pod() -> None:
    """10 percent either way: number 1 has 37 mod 21 = 16, so 106 percent; number 0 has 90, number 4 (148 mod 21) 91."""
    one = Usage(UsageSpec(per_pod=((0, 1000),), spread=10))
    assert [one.of("p", number, True, 1, 0) for number in (0, 1, 4)] == [900, 1060, 910]


def test_a_pod_may_have_a_series_of_its_own() -> None:
    """Then they are not computed together."""
    one = Usage(UsageSpec(per_pod=((0, 5),), pods={"web-2": ((0, 9),)}))
    assert (one.of("web-1", 1, True, 1, 0), one.of("web-2", 2, True, 1, 0)) == (5, 9)
    assert not one.is_uniform
    assert Usage(UsageSpec()).is_uniform


VALUES = st.integers(0, 10**6) | st.integers(2**55, 2**62)
SERIES = st.lists(st.tuples(st.integers(0, 50), VALUES), max_size=4).map(
    lambda points: tuple(sorted(points, key=lambda point: point[0]))
)


@given(
    st.builds(
        UsageSpec,
        demand=st.none() | SERIES,
        idle=st.integers(0, 100),
        cap=st.integers(0, 1000),
        starting=st.integers(0, 500),
        per_pod=SERIES,
        spread=st.integers(0, 40),
        linear=st.booleans(),
    ),
    st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=8),
    st.integers(0, 9),
    st.floats(-1, 60),
)
def test_many_at_once_use_what_each_uses(spec: UsageSpec, pods: list[tuple[int, bool]], count: int, t: float) -> None:
    """To the last bit, products that wrap around included."""
    one = Usage(spec)
    numbers = np.array([number for number, _ in pods], np.int64)
    ready = np.array([is_ready for _, is_ready in pods], np.bool_)
    found = one.of_many(numbers, ready, count, t)
    assert found.tolist() == [one.of("p", number, is_ready, count, t) for number, is_ready in pods]
