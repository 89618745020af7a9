"""Differences have the colour of their outcome, and are said in the unit that fits."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.experiment.comparison import Better, Difference
from stowplan_autoscaling.experiment.statistics import paired
from stowplan_autoscaling.report.metric_table import difference_words, kind_of
from support.optional import some


def difference(value: float, before: float, better: Better = "lower") -> Difference:
    """Of one seed."""
    return some(paired("b", "a", "cost", [(value, before)], better=better, tolerance=0.0))


@pytest.mark.parametrize(("value", "kind"), [(8, "good"), (12, "bad"), (10, "same")])
def test_better_is_good_and_worse_is_bad(value: float, kind: str) -> None:
    """Of a cost of 10."""
    assert kind_of(difference(value, 10)) == kind


def test_a_share_differs_by_percentage_points() -> None:
    """From 50 % to 60 % it is ten of them, not a fifth."""
    words = difference_words(difference(0.6, 0.5, "higher"), "share")
    assert words == '<span class="delta good"><b>+10.0 pp</b></span>'


def test_an_amount_differs_by_a_percentage_of_what_was_before() -> None:
    """From 10 to 8."""
    words = difference_words(difference(8, 10), "USD")
    assert words == '<span class="delta good"><b>-20.0 %</b><span class="unit"> -USD 2.00</span></span>'
