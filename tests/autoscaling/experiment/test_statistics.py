"""Bands and paired differences, by hand and as properties."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.experiment.comparison import Better, Difference
from stowplan_autoscaling.experiment.statistics import (
    RESAMPLES,
    band,
    bootstrap_interval,
    paired,
    quantile,
    sign_chance,
)
from support.optional import some

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def difference(*pairs: tuple[float, float], better: Better = "lower", tolerance: float = 0.0) -> Difference:
    return some(paired("b", "a", "cost", pairs, better=better, tolerance=tolerance))


def test_quantiles_are_interpolated() -> None:
    """Type 7: of 1, 2, 3, 4 the median is 2.5, and 95 % is at 2.85 steps of 3."""
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([4, 1, 3, 2], 0.95) == pytest.approx(3.85)
    assert quantile([7], 0.99) == 7


@given(VALUES, st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], share: float) -> None:
    """Which has the same default."""
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-6)


def test_a_band_of_few_seeds_is_from_the_smallest_to_the_largest() -> None:
    """And says so; a seed without a number leaves a gap."""
    found = some(band([3.0, None, 1.0, 2.0]))
    assert (found.median, found.low, found.high, found.kind) == (2, 1, 3, "min-max")
    assert list(found.values) == [3, None, 1, 2]
    assert band([None, None]) is None


def test_a_band_of_twenty_seeds_leaves_out_the_tails() -> None:
    """Of 1 to 20: 5 % is at 0.95 steps, 95 % at 18.05."""
    found = some(band([float(number) for number in range(1, 21)]))
    assert (found.median, found.low, found.high, found.kind) == (10.5, 1.95, 19.05, "5-95 %")


@pytest.mark.parametrize(
    ("ups", "downs", "chance"),
    [(5, 0, 0.0625), (0, 6, 0.03125), (10, 1, 12 / 1024), (8, 3, 464 / 2048), (0, 0, 1.0), (1, 1, 1.0)],
)
def test_the_chance_of_signs_is_that_of_fair_coins(ups: int, downs: int, chance: float) -> None:
    """Five of five: 2 / 32. Ten of eleven: 2 x 12 / 2048. Eight of eleven: 2 x (165 + 55 + 11 + 1) / 2048."""
    assert sign_chance(ups, downs) == pytest.approx(chance)


def test_a_bootstrap_interval_of_equal_values_is_that_value() -> None:
    """Of one value, too."""
    assert bootstrap_interval([3.0, 3.0, 3.0]) == (3, 3)
    assert bootstrap_interval([-2.0]) == (-2, -2)


def test_a_bootstrap_interval_of_three_values_reaches_over_all_of_them() -> None:
    """A median of three draws is the smallest value with probability 7 / 27, far more than 2.5 %."""
    assert bootstrap_interval([1.0, 2.0, 9.0]) == (1, 9)


@given(VALUES)
def test_a_bootstrap_interval_lies_within_the_values_and_is_always_the_same(values: list[float]) -> None:
    """It holds the median, too."""
    low, high = bootstrap_interval(values)
    assert min(values) - 1e-9 <= low <= median(values) + 1e-9
    assert median(values) - 1e-9 <= high <= max(values) + 1e-9
    assert bootstrap_interval(values) == (low, high)
    assert RESAMPLES == 2000


def test_a_candidate_that_costs_less_with_every_seed_is_better() -> None:
    """-2, -3, -2: a median of -2, a fifth of 10; three of three seeds, which is too few to be sure."""
    found = difference((8, 10), (7, 10), (9, 11))
    assert (found.median, found.share, found.outcome) == (-2, -0.2, "better")
    assert (found.better, found.worse, found.equal, found.seeds) == (3, 0, 0, 3)
    assert (found.low, found.high) == (-3, -2)
    assert found.chance == 0.25
    assert found.is_indicative


def test_six_of_six_seeds_are_enough_to_be_sure() -> None:
    """2 / 64 is below 5 %."""
    found = difference(*((10 + number / 10, 10) for number in range(1, 7)))
    assert (found.outcome, found.worse, found.is_indicative) == ("worse", 6, False)


def test_five_of_five_seeds_are_not_yet_enough_to_be_sure() -> None:
    """2 / 32 is above 5 %."""
    found = difference(*((10 + number / 10, 10) for number in range(1, 6)))
    assert (found.outcome, found.worse, found.chance, found.is_indicative) == ("worse", 5, 0.0625, True)


def test_where_more_is_better_the_sign_turns() -> None:
    """Utilisation, for example."""
    found = difference((0.6, 0.5), (0.7, 0.5), better="higher")
    assert (found.outcome, found.better, found.worse) == ("better", 2, 0)


def test_no_difference_is_said_where_there_is_none() -> None:
    """All equal, and sure of it."""
    found = difference((5, 5), (6, 6), (7, 7))
    assert (found.outcome, found.equal, found.median, found.is_indicative) == ("no difference", 3, 0, False)


def test_a_difference_within_the_tolerance_is_none() -> None:
    """A cent of ten."""
    assert difference((10.01, 10), (10.01, 10), tolerance=0.1).outcome == "no difference"
    assert difference((10.01, 10), (10.01, 10), tolerance=0.001).outcome == "worse"


def test_a_difference_of_just_the_tolerance_is_none() -> None:
    """It has to be beyond."""
    assert difference((11, 10), (11, 10), tolerance=1.0).outcome == "no difference"


def test_signs_that_disagree_show_no_difference_and_do_not_rule_one_out() -> None:
    """The interval holds zero, and reaches beyond the tolerance."""
    found = difference((9, 10), (13, 10), (8, 10), (12, 10), (12, 10), tolerance=0.5)
    assert (found.outcome, found.is_indicative) == ("no difference", True)


def test_a_difference_smaller_than_its_noise_is_none() -> None:
    """Ten seeds cost 1 more, one costs 40 less: the median of 1 is below twice 1.25 s / sqrt(11)."""
    steps = (*[1.0] * 10, -40.0)
    found = difference(*((50 + step, 50) for step in steps))
    noise = 2 * 1.25 * float(np.std(steps, ddof=1)) / 11**0.5
    assert noise > found.median == 1
    assert found.low > 0
    assert found.outcome == "no difference"


def test_a_median_of_less_than_twice_its_noise_is_no_difference() -> None:
    """Ten seeds cost 1 more, one 5 less: s is 6 / sqrt(11), so once the noise is 0.68 and twice is 1.36."""
    found = difference(*((50 + step, 50) for step in (*[1.0] * 10, -5.0)))
    assert (found.median, found.low, found.outcome) == (1, 1, "no difference")


def test_one_seed_that_is_far_worse_than_the_others_does_not_hide_that_all_are_worse() -> None:
    """From 2 to 6 s: +3.9, +4, +9.6 have a median below their noise of 4.7, and yet all say the same."""
    steps = (3.9, 4.0, 9.6)
    found = difference(*((2 + step, 2) for step in steps), tolerance=1.0)
    assert 2 * 1.25 * float(np.std(steps, ddof=1)) / 3**0.5 > found.median == 4
    assert (found.outcome, found.worse, found.seeds, found.is_indicative) == ("worse", 3, 3, True)
    turned = difference(*((20 - step, 20) for step in steps), tolerance=1.0)
    assert (turned.outcome, turned.is_indicative) == ("better", True)
    assert difference(*((2 + step, 2) for step in steps), tolerance=5.0).outcome == "no difference"


def test_without_a_pair_there_is_nothing_to_say() -> None:
    """Nor a share of nothing."""
    assert paired("b", "a", "cost", [], better="lower", tolerance=0) is None
    assert difference((1, 0)).share is None


PAIRS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=15)


@given(PAIRS)
def test_turning_a_comparison_round_turns_its_outcome_round(pairs: list[tuple[float, float]]) -> None:
    """What is better than the other leaves the other worse."""
    one = some(paired("b", "a", "cost", pairs, better="lower", tolerance=0.5))
    other = some(paired("a", "b", "cost", [(a, b) for b, a in pairs], better="lower", tolerance=0.5))
    assert {one.outcome, other.outcome} in ({"better", "worse"}, {"no difference"})
    assert (one.better, one.worse) == (other.worse, other.better)


@given(PAIRS)
def test_a_candidate_compared_with_itself_shows_no_difference(pairs: list[tuple[float, float]]) -> None:
    """Whatever the numbers."""
    same = [(value, value) for value, _ in pairs]
    assert some(paired("a", "a", "cost", same, better="lower", tolerance=0)).outcome == "no difference"
