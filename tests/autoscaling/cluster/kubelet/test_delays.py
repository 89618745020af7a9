"""Distributions of delays: each is the inverse of its distribution function."""

from __future__ import annotations

import math

import pytest

from stowplan_autoscaling.cluster.kubelet import NO_DELAY, Delay, fixed, log_normal, uniform
from stowplan_autoscaling.kernel import MILLISECOND, SECOND


def test_a_uniform_delay_grows_linearly_with_the_share() -> None:
    """A quarter of all draws lies below a quarter of the way: 0.5 + 0.25 * 1.5 = 0.875."""
    delay = uniform(0.5, 2.0)
    assert [delay.of(u) for u in (0.0, 0.25, 0.5)] == [500 * MILLISECOND, 875 * MILLISECOND, 1250 * MILLISECOND]


def test_half_of_a_log_normal_delay_lies_below_its_median_and_nine_tenths_below_the_known_quantile() -> None:
    """Node boots are given as median 30 s, sigma 0.35, with a p90 near 47 s: 30 * exp(1.2816 * 0.35) = 46.98."""
    delay = log_normal(30, 0.35)
    assert delay.of(0.5) == 30 * SECOND
    assert delay.seconds(0.9) == pytest.approx(30 * math.exp(1.2815515655 * 0.35))


def test_extreme_shares_give_finite_delays() -> None:
    """A stream may draw exactly 0, where the normal distribution has no inverse."""
    assert 0 < log_normal(1, 0.6).seconds(0.0) < log_normal(1, 0.6).seconds(1.0) < math.inf


@pytest.mark.parametrize(
    ("delay", "constant"),
    [
        (fixed(2), 2 * SECOND),
        (NO_DELAY, 0),
        (uniform(3, 3), 3 * SECOND),
        (log_normal(4, 0), 4 * SECOND),
        (uniform(0, 1), None),
        (log_normal(4, 0.1), None),
    ],
)
def test_a_delay_without_spread_needs_no_draw(delay: Delay, constant: int | None) -> None:
    """Draws cost time and are skipped for constants; the constant must be what every draw would give."""
    assert delay.constant == constant
    if constant is not None:
        assert delay.of(0.1) == delay.of(0.9) == constant


@pytest.mark.parametrize("make", [lambda: fixed(-1), lambda: uniform(2, 1), lambda: log_normal(math.nan, 1)])
def test_impossible_delays_are_refused(make: object) -> None:
    """A negative delay would plan things in the past."""
    with pytest.raises(ValueError, match="must"):
        make()  # type: ignore[operator]
