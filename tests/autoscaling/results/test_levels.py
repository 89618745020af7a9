"""Sums over a run, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.results.levels import Counted, Curve, Held, Values
from stowplan_autoscaling.results.report import CURVE_BINS, Distribution, Level, WorkCounts


def test_the_mean_of_a_level_is_weighted_by_time() -> None:
    """2 for 10 s, 8 for 30 s: (20 + 240) / 40 = 6.5."""
    held = Held()
    held.set(0, 2)
    held.set(10, 8)
    assert held.level(40) == Level(minimum=2, mean=6.5, maximum=8, final=8)


def test_a_level_remembers_what_was_above_and_below_its_end() -> None:
    """5, 9, 1 and 4 for a second each."""
    held = Held()
    for second, value in enumerate((5, 9, 1, 4)):
        held.set(second, value)
    assert held.level(4) == Level(minimum=1, mean=4.75, maximum=9, final=4)


def test_a_level_counts_from_its_first_value() -> None:
    """A workload that comes after an hour has not been at zero before."""
    held = Held()
    held.set(100, 4)
    assert held.level(200) == Level(minimum=4, mean=4, maximum=4, final=4)


def test_a_level_without_values_is_zero() -> None:
    """And does not divide by nothing."""
    assert Held().level(10) == Level()


def test_percentiles_are_by_nearest_rank() -> None:
    """Of 1..100 the 50th, 90th and 99th."""
    values = Values()
    for value in range(100, 0, -1):
        values.add(value)
    assert values.distribution() == Distribution(count=100, mean=50.5, p50=50, p90=90, p99=99, maximum=100)


def test_work_counts_are_whole_numbers() -> None:
    """5 and 10 nodes: 15 in all, 7.5 on average."""
    counted = Counted()
    counted.add(5)
    counted.add(10)
    assert counted.counts() == WorkCounts(total=15, mean=7.5, maximum=10)


def test_a_curve_has_the_mean_of_each_part() -> None:
    """60 s in sixty parts: 1 for 30.5 s, then 3. The 31st second is half of each: 2."""
    curve = Curve(60)
    curve.set(0, 1)
    curve.set(30.5, 3)
    means = curve.means(60)
    assert means == (1.0,) * 30 + (2.0,) + (3.0,) * 29


def test_a_curve_ends_where_the_run_was_stopped() -> None:
    """The last part is the mean of what was reached of it."""
    curve = Curve(60)
    curve.set(0, 4)
    assert curve.means(2.5) == (4.0, 4.0, 4.0)


@given(
    st.lists(st.tuples(st.floats(0.001, 50), st.floats(0, 1000)), min_size=1, max_size=30),
    st.floats(0.001, 100),
)
def test_a_curve_keeps_the_area(pieces: list[tuple[float, float]], rest: float) -> None:
    """Whatever the width of its parts: the sum over the parts is the sum over the pieces."""
    duration = sum(length for length, _ in pieces) + rest
    curve, time, area = Curve(duration), 0.0, 0.0
    for length, value in pieces:
        curve.set(time, value)
        area += length * value
        time += length
    curve.set(time, 0)
    means = curve.means(duration)
    assert len(means) == CURVE_BINS
    assert math.fsum(means) * duration / CURVE_BINS == pytest.approx(area, rel=1e-6, abs=1e-4)
