"""Numbers beside figures have the digits that count."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.report.amounts import NOTHING, amount, counted, listed, short


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0, "", "0"),
        (1234567.8, "", "1,234,568"),
        (99.96, "", "100"),
        (99.6, "", "99.6"),
        (9.995, "", "10"),
        (9.99, "", "9.99"),
        (0.0996, "", "0.1"),
        (0.0994, "", "0.099"),
        (27.53, "USD", "27.5 USD"),
        (2.0, "pods", "2 pods"),
        (0.0221, "", "0.022"),
        (-0.0001, "", "0"),
        (0.125, "share", "12.5 %"),
    ],
)
def test_three_digits_count(value: float, unit: str, words: str) -> None:
    """Zeros at the end do not."""
    assert short(value, unit) == words


def test_a_missing_number_is_a_dash() -> None:
    """Never a zero."""
    assert amount(None, "USD") == NOTHING
    assert amount(51.2, "USD") == "USD 51.20"


def test_of_many_names_the_first_are_listed() -> None:
    """And how many more there are."""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_one_thing_is_no_plural() -> None:
    """One seed, but no seeds."""
    assert [counted(number, "seed") for number in (0, 1, 2000)] == ["0 seeds", "1 seed", "2,000 seeds"]
