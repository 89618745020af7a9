"""rate() with numbers by hand. Samples every 15 s of a counter that grows by 2 per second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.metrics.rates import rate


def at(*seconds: float) -> list[int]:
    return [int(s * SECOND) for s in seconds]


def test_a_steady_counter_has_its_rate_even_when_the_window_is_not_filled() -> None:
    """Window 60 s to 100 s, samples at 45 to 90 s: 90 in 45 s, extended by 5 s and 10 s to the window's 60 s."""
    assert rate(at(45, 60, 75, 90), [90, 120, 150, 180], 100 * SECOND, 60 * SECOND) == pytest.approx(2.0)


def test_a_gap_at_the_beginning_is_filled_by_half_an_interval_only() -> None:
    """Samples at 75 and 90 s of a window from 40 s: 35 s are more than 1.1 intervals, so 7.5 s: 30 * 32.5/15 / 60."""
    assert rate(at(75, 90), [1150, 1180], 100 * SECOND, 60 * SECOND) == pytest.approx(30 * 32.5 / 15 / 60)


def test_a_counter_is_not_extended_below_its_zero() -> None:
    """At 75 s it was 4, growing by 30 in 15 s: 2 s before it was 0. 30 * 27/15 / 60."""
    assert rate(at(75, 90), [4, 34], 100 * SECOND, 60 * SECOND) == pytest.approx(30 * 27 / 15 / 60)


def test_a_restart_counts_from_zero() -> None:
    """100, 130, 10, 40: 30 + 10 + 30 = 70 in 45 s, extended by 5 and 10 s."""
    assert rate(at(45, 60, 75, 90), [100, 130, 10, 40], 100 * SECOND, 60 * SECOND) == pytest.approx(70 * 60 / 45 / 60)


def test_one_sample_has_no_rate() -> None:
    """Two are needed."""
    assert rate(at(90), [5], 100 * SECOND, 60 * SECOND) is None


@given(step=st.integers(0, 1000), count=st.integers(2, 20))
def test_a_rate_is_never_negative_and_at_most_that_of_the_samples(step: int, count: int) -> None:
    """Of a growing counter: extending cannot add more than the window has room for."""
    times = [i * 15 * SECOND for i in range(1, count + 1)]
    values = [1_000_000.0 + step * i for i in range(count)]
    found = rate(times, values, times[-1], times[-1])
    assert found is not None
    assert 0 <= found <= step / 15 * (1 + 1e-9)
