"""Single arrivals: counting, bins, and Poisson processes that share their luck."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stowplan_autoscaling.demand.arrivals import Arrivals, poisson_arrivals
from stowplan_autoscaling.demand.series import Repeated, constant, ramp, steps
from stowplan_autoscaling.inputs.errors import FieldError
from stowplan_autoscaling.streams import Streams


def test_arrivals_are_counted_from_included_to_excluded() -> None:
    """So that intervals side by side count each arrival once."""
    jobs = Arrivals([1, 2, 2, 5])
    assert [jobs.count(0, 2), jobs.count(2, 5), jobs.count(5, 9)] == [1, 2, 1]
    assert [jobs.next_after(t) for t in (0, 2, 5)] == [1, 5, math.inf]


def test_bins_hold_the_weight_per_second() -> None:
    """Weights 3 and 4 in the first two seconds, 8 in the third bin; then nothing more."""
    rates = Arrivals([0.5, 1.0, 4.0], [3, 4, 8]).rates(2.0)
    assert [rates.at(t) for t in (0, 2, 4, 6)] == [3.5, 0, 4, 0]
    assert rates.integral(0, 100) == 15


def test_a_part_of_the_arrivals_begins_at_zero_and_may_be_slowed_down() -> None:
    """From 2 s on, for 3 s, twice as slowly."""
    part = Arrivals([1, 2, 4.5, 5]).window(2, 3, stretch=2)
    assert part.times.tolist() == [0, 5]


def test_poisson_arrivals_come_at_the_rate() -> None:
    """10,000 expected: the count is within four standard deviations (400), and so is each half."""
    jobs = poisson_arrivals(constant(10), 1000, Streams(3), "resize")
    assert abs(len(jobs) - 10_000) < 400
    assert abs(jobs.count(0, 500) - 5000) < 283
    gaps = np.diff(jobs.times)
    assert float(gaps.std() / gaps.mean()) == pytest.approx(1, abs=0.05)


def test_a_changing_rate_moves_the_arrivals() -> None:
    """From 0 to 20 per second in 1,000 s: a quarter of the 10,000 come in the first half (2,500, sd 50)."""
    jobs = poisson_arrivals(ramp([(0, 0), (1000, 20)]), 1000, Streams(3), "resize")
    assert abs(jobs.count(0, 500) - 2500) < 200
    assert abs(len(jobs) - 10_000) < 400


def test_no_job_arrives_while_the_rate_is_zero() -> None:
    """Repeated nights, too."""
    jobs = poisson_arrivals(Repeated(steps([(0, 0), (50, 3)]), 100), 1000, Streams(1), "x")
    assert len(jobs) > 0
    assert (jobs.times % 100 >= 50).all()


def test_twice_the_rate_is_the_same_luck_sooner() -> None:
    """The n-th job of a candidate with more load is the n-th job of the baseline at half its time."""
    slow = poisson_arrivals(constant(1), 500, Streams(5), "x")
    fast = poisson_arrivals(constant(2), 500, Streams(5), "x")
    assert fast.times[: len(slow)] == pytest.approx(slow.times / 2)


def test_arrivals_depend_on_seed_and_name_only() -> None:
    """Asked twice, or after others, they are the same."""
    streams = Streams(5)
    first = poisson_arrivals(constant(1), 500, streams, "x")
    poisson_arrivals(constant(1), 500, streams, "y")
    again = poisson_arrivals(constant(1), 500, streams, "x")
    assert first.times.tobytes() == again.times.tobytes()
    assert first.times.tobytes() != poisson_arrivals(constant(1), 500, Streams(6), "x").times.tobytes()


@pytest.mark.parametrize(
    ("times", "weights", "message"),
    [
        ([1, 0.5], None, "times[1]: 0.5: must not be earlier than the one before"),
        ([-1], None, "times[0]: -1.0: must be a number of at least 0"),
        ([1], [math.nan], "weights[0]: nan: must be a number of at least 0"),
        ([1], [1, 2], "weights: 2 weights for 1 times: must be as many"),
    ],
)
def test_arrivals_that_make_no_sense_are_refused(times: list[float], weights: list[float] | None, message: str) -> None:
    """With the entry that is wrong."""
    with pytest.raises(FieldError) as caught:
        Arrivals(times, weights)
    assert str(caught.value) == message


def test_more_arrivals_than_memory_holds_are_refused_before_they_are_drawn() -> None:
    """A mistyped rate must not end in an out-of-memory kill."""
    with pytest.raises(FieldError, match=r"rate: 1,000,000,000 arrivals in 1000 s: at most 20,000,000"):
        poisson_arrivals(constant(1e6), 1000, Streams(1), "x")
