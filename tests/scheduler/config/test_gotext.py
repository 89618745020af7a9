"""Texts in the manner of Go's standard library; examples from its documentation and tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.config.gotext import format_duration, json_float, json_string, parse_duration, quote


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (245_000_000_000, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (600_000_000_000, "10m0s"),
        (-1_500_000_000, "-1.5s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
    ],
)
def test_durations_print_as_in_go(nanoseconds: int, text: str) -> None:
    """The table of time_test.go, TestDurationString."""
    assert format_duration(nanoseconds) == text


@given(st.integers(min_value=-(1 << 63) + 1, max_value=(1 << 63) - 1))
def test_a_printed_duration_reads_as_the_same_duration(nanoseconds: int) -> None:
    """Printing loses nothing."""
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("+5s", 5 * 10**9),
        ("-.5s", -5 * 10**8),
        ("1h15m30.918273645s", 4530918273645),
        ("1.s", 10**9),
        ("10µs", 10000),
    ],
)
def test_durations_read_as_in_go(text: str, nanoseconds: int) -> None:
    """From time_test.go, parseDurationTests."""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("3", 'time: missing unit in duration "3"'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".", 'time: invalid duration "."'),
        ("3000000h", 'time: invalid duration "3000000h"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
    ],
)
def test_bad_durations_are_named_as_in_go(text: str, error: str) -> None:
    """From time_test.go, parseDurationErrorTests."""
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == error


def test_strings_are_quoted_as_go_literals() -> None:
    """strconv.Quote keeps what is printable and escapes the rest."""
    assert quote('a"b\\c\n\x01\x7f\u200b\U000e0001é') == r'"a\"b\\c\n\x01\x7f\u200b\U000e0001é"'
    assert json_string("<a&b>\u2028") == r'"\u003ca\u0026b\u003e\u2028"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5, "1.5"),
        (18446744073709551616.0, "18446744073709552000"),
        (1.25e-5, "0.0000125"),
    ],
)
def test_floats_print_as_gos_json(value: float, text: str) -> None:
    """encoding/json switches to an exponent at 1e-6 and 1e21."""
    assert json_float(value) == text
