"""Loads as functions of time: values by hand, integrals against fine sums, and what constructors refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.demand.series import (
    Piecewise,
    Repeated,
    Series,
    Total,
    constant,
    diurnal,
    joined,
    piecewise,
    pulse,
    ramp,
    steps,
    total,
)
from stowplan_autoscaling.inputs.errors import FieldError
from stowplan_autoscaling.streams import Streams


@st.composite
def piecewises(draw: st.DrawFn) -> Piecewise:
    """Points on a coarse grid, with jumps and slopes."""
    gaps = draw(st.lists(st.integers(1, 20), min_size=1, max_size=6))
    times = np.cumsum([draw(st.integers(0, 10)), *gaps]).astype(float)
    values = np.asarray([draw(st.integers(0, 50)) for _ in times], dtype=float)
    ends = np.asarray([draw(st.integers(0, 50)) for _ in times[1:]], dtype=float)
    slopes = np.append((ends - values[:-1]) / np.diff(times), 0.0)
    return Piecewise(times, values, slopes)


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    """A series of points, one that repeats, or a sum of such."""
    parts: list[Series] = []
    for _ in range(draw(st.integers(1, 2))):
        base = draw(piecewises())
        parts.append(Repeated(base, draw(st.integers(1, 40))) if draw(st.booleans()) else base)
    return total(*parts)


def test_a_step_has_the_value_after_the_jump_at_the_jump() -> None:
    """Kubernetes sees the new load at the moment it begins; before the first point the first value holds."""
    load = steps([(10, 1), (20, 5)])
    assert [load.at(t) for t in (0, 10, 19.999, 20, 1e9)] == [1, 1, 1, 5, 5]
    assert load.next_change(0) == 10
    assert load.next_change(10) == 20
    assert load.next_change(20) == math.inf


def test_the_integral_of_a_step_counts_requests() -> None:
    """1/s for 20 s, then 5/s for 4 s: 40 requests; the part before the first point counts, too."""
    load = steps([(10, 1), (20, 5)])
    assert load.integral(0, 24) == 40
    assert load.integral(15, 21) == 10


def test_a_ramp_is_a_straight_line_and_then_holds() -> None:
    """From 10 to 40 in 60 s: 25 half-way, 0.5 per second; its integral is the trapezoid's 1,500."""
    load = ramp([(0, 10), (60, 40)])
    assert load.at(30) == 25
    assert load.slope(30) == 0.5
    assert load.integral(0, 60) == 1500
    assert load.at(1000) == 40


def test_a_day_has_its_peak_and_its_trough_where_they_were_asked_for() -> None:
    """Low 10 at midnight, high 110 at noon; at six in the morning half-way between."""
    load = diurnal(low=10, high=110, peak=43_200, length=86_400)
    assert load.at(43_200) == 110
    assert load.at(0) == pytest.approx(10)
    assert load.at(21_600) == pytest.approx(60)


def test_noise_is_the_same_for_the_same_name_and_a_longer_day_begins_like_a_shorter_one() -> None:
    """Candidates share their luck, whatever else they draw in between."""

    def day(length: float, key: str = "shop") -> Piecewise:
        streams = Streams(7)
        streams.generator("demand-noise", key).standard_normal(3)  # somebody was there before
        return diurnal(low=10, high=20, peak=0, length=length, noise=0.2, streams=streams, key=key)

    short, long, other = day(3600), day(7200), day(3600, "cart")
    assert np.array_equal(short.levels, long.levels[: short.levels.size])
    assert not np.array_equal(short.levels, other.levels)
    assert short.levels.min() >= 0


def test_noise_has_the_deviation_that_was_asked_for() -> None:
    """A flat day of 100 with 10 % noise: 2,000 points have a deviation of 10 within 5 %."""
    load = diurnal(low=100, high=100, peak=0, length=2000 * 60, noise=0.1, streams=Streams(1))
    assert float(load.levels.std()) == pytest.approx(10, rel=0.05)


def test_a_spike_on_top_of_a_day_adds_up() -> None:
    """Two series of points become one, so nothing costs more for being a sum."""
    load = total(ramp([(0, 10), (100, 20)]), pulse(50, 20, 100, rise=5))
    assert isinstance(load, Piecewise)
    assert load.at(49) == pytest.approx(14.9)
    assert load.at(52.5) == pytest.approx(15.25 + 50)
    assert load.at(60) == pytest.approx(116)
    assert load.at(70) == pytest.approx(17)


def test_a_series_that_repeats_starts_over() -> None:
    """Ten seconds of 1 then 3, again and again: 20 per round."""
    load = Repeated(steps([(0, 1), (5, 3)]), 10)
    assert [load.at(t) for t in (4, 5, 9.5, 10, 15, 1004)] == [1, 3, 3, 1, 3, 1]
    assert load.integral(0, 1000) == 2000
    assert load.next_change(7) == 10
    assert load.next_change(10) == 15


def test_a_window_of_a_series_begins_at_zero_and_holds_its_last_value() -> None:
    """What a recording is cut to."""
    part = steps([(0, 1), (10, 2), (20, 3)]).window(5, 15)
    assert [part.at(t) for t in (0, 4.9, 5, 10, 99)] == [1, 1, 2, 2, 2]
    line = joined([0, 10], [0, 10]).window(2, 6)
    assert [line.at(t) for t in (0, 2, 4, 50)] == [2, 4, 6, 6]


def test_stretching_keeps_the_values_and_slows_them_down() -> None:
    """A day in two days' time: the rate is the same, the total doubles."""
    load = joined([0, 10], [0, 10])
    slow = load.stretched(2)
    assert slow.at(10) == 5
    assert slow.integral(0, 20) == 2 * load.integral(0, 10)


@given(any_series(), st.floats(0, 120), st.floats(0, 120))
@settings(max_examples=80)
def test_the_integral_equals_a_fine_sum(load: Series, a: float, b: float) -> None:
    """Closed forms against the midpoint rule over 20,000 cells; jumps cost at most their height times a cell."""
    a, b = min(a, b), max(a, b)
    cells = 20_000
    middles = a + (np.arange(cells) + 0.5) * (b - a) / cells
    expected = float(load.values(middles).sum()) * (b - a) / cells
    jumps = len(load.breakpoints(a, b)) + 1
    assert load.integral(a, b) == pytest.approx(expected, abs=jumps * 100 * (b - a) / cells + 1e-6)


@given(any_series(), st.floats(0, 120))
@settings(max_examples=80)
def test_one_value_and_many_values_agree(load: Series, t: float) -> None:
    """Scalars and vectors are computed apart."""
    assert load.at(t) == pytest.approx(float(load.values(np.asarray([t]))[0]), abs=1e-9)


@given(any_series(), st.floats(0, 100))
@settings(max_examples=80)
def test_between_changes_a_series_is_a_straight_line(load: Series, t: float) -> None:
    """What event-driven code relies on: nothing happens before `next_change`."""
    end = min(load.next_change(t), t + 50)
    assert end > t
    assume(end - t > 1e-9)  # nearer, a share of the way is rounded to the change itself
    for share in (0.25, 0.5, 0.99):
        moment = t + share * (end - t)
        assert load.at(moment) == pytest.approx(load.at(t) + load.slope(t) * (moment - t), abs=1e-6)


@given(any_series(), st.floats(0.001, 2000))
@settings(max_examples=80)
def test_the_time_of_an_amount_is_when_the_integral_reaches_it(load: Series, amount: float) -> None:
    """The inverse of the integral, which arrivals and the age of messages come from."""
    t = load.time_of(amount)
    if math.isfinite(t):
        assert load.cumulative(t) == pytest.approx(amount, rel=1e-9, abs=1e-6)
        assert load.cumulative(t - 1e-3) <= amount + 1e-9
    else:
        assert load.cumulative(1e9) < amount


@given(piecewises(), st.lists(st.floats(0.001, 500), min_size=1, max_size=5))
@settings(max_examples=60)
def test_the_times_of_many_amounts_are_the_times_of_each(load: Piecewise, amounts: list[float]) -> None:
    """Scalars and vectors are computed apart."""
    amounts = [load.cumulative(float(load.times[0])) + amount for amount in amounts]
    expected = [load.time_of(amount) for amount in amounts]
    assert load.times_of(amounts).tolist() == pytest.approx(expected)


@given(any_series())
@settings(max_examples=40)
def test_any_series_can_be_written_as_points(load: Series) -> None:
    """Repeated days and sums of them, over a limited time."""
    flat = piecewise(load, 0, 90)
    times = np.linspace(0, 89.9, 50)
    assert flat.values(times) == pytest.approx(load.values(times), abs=1e-6)


def test_a_sum_with_a_repeated_part_is_kept_as_a_sum() -> None:
    """It has no last point, so it cannot be written as points."""
    load = total(Repeated(steps([(0, 1), (5, 3)]), 10), constant(4))
    assert isinstance(load, Total)
    assert load.at(12) == 5
    assert load.time_of(60) == pytest.approx(10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: constant(-1), "value: -1: must be a number of at least 0"),
        (lambda: constant(math.nan), "value: nan: must be a number of at least 0"),
        (lambda: steps([]), "points: a series needs at least one point"),
        (lambda: steps([(0, 1), (0, 2)]), "points[1].at: 0: must be later than the point before, 0"),
        (lambda: ramp([(0, 1), (5, -2)]), "points[1].value: -2: must be a number of at least 0"),
        (lambda: pulse(0, 10, 5, rise=6), "rise: 6: must be at most half of the length, 5"),
        (lambda: diurnal(low=5, high=4, peak=0, length=10), "high: 4: must be a number of at least 5"),
        (lambda: diurnal(low=0, high=4, peak=0, length=10, noise=1), "noise: needs the run's random streams"),
        (
            lambda: diurnal(low=0, high=4, peak=0, length=1e12),
            "resolution: 60 s over 1e+12 s are 16,666,666,668 points",
        ),
        (lambda: Piecewise([0, 1], [1, math.inf]), "values[1]: inf: must be a finite number"),
        (lambda: Piecewise([0, 1], [1, 1], [-2, 0]), "slopes[0]: -2.0: must not lead below 0"),
        (lambda: Piecewise([0], [1], [1]), "slopes[0]: 1.0: the last slope must be 0"),
        (lambda: Piecewise([1, 0], [1, 1]), "times[1]: 0.0: must be later than the one before"),
        (lambda: Piecewise([], []), "times: a series needs at least one point"),
        (lambda: Piecewise([0, 1], [1]), "values: 1 values for 2 times: must be as many"),
        (lambda: Repeated(constant(1), 0), "period: 0: must be a number greater than 0"),
        (lambda: constant(1).scaled(-1), "scale: -1: must be a number of at least 0"),
        (lambda: constant(1).stretched(0), "stretch: 0: must be a number greater than 0"),
        (total, "parts: a sum needs at least one series"),
    ],
)
def test_what_cannot_be_a_load_is_refused_by_the_name_of_its_field(make: object, message: str) -> None:
    """Whoever reads a scenario puts its path in front."""
    assert callable(make)
    with pytest.raises(FieldError) as caught:
        make()
    assert str(caught.value).startswith(message)
