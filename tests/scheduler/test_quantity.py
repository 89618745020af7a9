"""Quantities: exact amounts, upstream's rounding and errors."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.quantity import (
    MAX_INT64,
    NANOS,
    QuantityError,
    format_bytes,
    format_cpu,
    format_quantity,
    milli_value,
    parse_quantity,
    quantity_text,
    value,
)

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC = "unable to parse numeric part of quantity"
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("0.1Ki", 103, 102_400),
        ("0.1m", 1, 1),
        ("1500m", 2, 1500),
        ("-0.5", -1, -500),
        ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
        ("128974848", 128_974_848, 128_974_848_000),
        ("129e6", 129_000_000, 129_000_000_000),
        ("129M", 129_000_000, 129_000_000_000),
        ("123Mi", 128_974_848, 128_974_848_000),
        ("1E", 10**18, 0),
        ("1E3", 1000, 1_000_000),
        ("1e-3", 1, 1),
        ("7u", 1, 1),
        ("+3k", 3000, 3_000_000),
        ("1.", 1, 1000),
        (".5", 1, 500),
        ("  2 ", 2, 2000),
    ],
)
def test_value_and_milli_value_round_away_from_zero(text: str, whole: int, milli: int) -> None:
    """Whoever asks for something gets something. 1E does not fit an int64 of thousandths and gives 0."""
    nanos = parse_quantity(text)
    assert (value(nanos), milli_value(nanos)) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1n", 1),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1e-30", 1),
        ("0e-30", 0),
        ("0.0000000001", 1),
        ("1.0000000001", NANOS + 1),
    ],
)
def test_amounts_finer_than_a_nano_become_one_nano_more(text: str, nanos: int) -> None:
    """The finest unit is a nano; what is left over rounds away from zero, and zero stays zero."""
    assert parse_quantity(text) == nanos


def test_binary_suffixes_are_capped_and_decimal_ones_are_not() -> None:
    """Upstream caps at 2^63 - 1 for binary suffixes only; the decimal amount overflows when it is read as an int64."""
    assert value(parse_quantity("8Ei")) == MAX_INT64
    assert value(parse_quantity("-99Ei")) == -MAX_INT64
    assert parse_quantity("99E") == 99 * 10**18 * NANOS
    assert value(parse_quantity("99E")) == 0


def test_a_huge_exponent_is_no_reason_to_compute_a_huge_number() -> None:
    """A manifest must not stop the program; the amount overflows every unit as it would upstream."""
    nanos = parse_quantity("1e2000000000")
    assert (value(nanos), milli_value(nanos)) == (0, 0)
    assert parse_quantity("1e-2000000000") == 1
    assert parse_quantity("1e4294967299") == 1000 * NANOS  # upstream keeps 32 bits of the exponent


@pytest.mark.parametrize("text", ["", " ", "abc", "1 5", "1.2.3", "1e5x", "1B", "é", "\u0661", "nan", "inf"])
def test_texts_of_another_form_are_refused_with_the_regular_expression(text: str) -> None:
    """The message is upstream's, which users know."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == FORMAT_WRONG


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1K", SUFFIX),
        ("1mm", SUFFIX),
        ("1i", SUFFIX),
        ("1+5", SUFFIX),
        ("1e", SUFFIX),
        ("--1", SUFFIX),
        ("1e-", SUFFIX),
        ("1e9223372036854775808", SUFFIX),
        ("9" * 5000, NUMERIC),
        ("Pi", NUMERIC),
        (".e-30", NUMERIC),
    ],
)
def test_bad_suffixes_and_missing_digits_have_their_own_messages(text: str, message: str) -> None:
    """There is no K: only k and Ki. A text without digits is 0 to upstream's fast scanner but not to its slow one."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == message
    assert parse_quantity("k") == 0


def test_bare_numbers_are_read_by_their_text() -> None:
    """JSON allows numbers; 0.1 must be a tenth and not the float nearest to it."""
    assert parse_quantity(5) == 5 * NANOS
    assert parse_quantity(0.1) == NANOS // 10
    assert parse_quantity(1e16) == 10**16 * NANOS
    assert parse_quantity(1e-5) == 10**4


SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(1000),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "e3": Fraction(1000), "E-2": Fraction(1, 100),
}  # fmt: skip


@given(
    whole=st.integers(0, 10**6),
    fraction=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    sign=st.sampled_from(["", "+", "-"]),
)
def test_every_text_is_its_fraction_rounded_up_to_a_nano(whole: int, fraction: str, suffix: str, sign: str) -> None:
    """Exact rational arithmetic is the reference."""
    exact = (whole + Fraction(int(fraction or "0"), 10 ** len(fraction))) * SUFFIXES[suffix]
    expected = min(ceil(exact * NANOS), MAX_INT64 * NANOS)
    point = "." if fraction else ""
    assert parse_quantity(f"{sign}{whole}{point}{fraction}{suffix}") == (-expected if sign == "-" else expected)


@given(st.integers(-(10**30), 10**30))
def test_the_exact_text_of_an_amount_parses_to_the_amount(nanos: int) -> None:
    """Defaulting writes sums back into objects: nothing may be lost on the way."""
    assert parse_quantity(quantity_text(nanos)) == nanos


@given(st.integers(-(10**24), 10**24))
def test_rounding_never_loses_and_adds_less_than_a_unit(nanos: int) -> None:
    """Away from zero: at least the amount, less than one unit more."""
    whole = value(nanos)
    assert 0 <= abs(whole) * NANOS - abs(nanos) < NANOS
    assert (whole >= 0) == (nanos >= 0)


def test_amounts_are_printed_for_humans() -> None:
    """Reports show cores and binary sizes; what is not short keeps one decimal."""
    assert [format_cpu(milli) for milli in (0, 250, 1500, 2000)] == ["0", "250m", "1500m", "2"]
    assert [format_bytes(n) for n in (0, 1023, 1024, 8 * 2**30, 8_134_000_000, -(2**20))] == [
        "0", "1023", "1Ki", "8Gi", "7.6Gi", "-1Mi",
    ]  # fmt: skip
    assert format_quantity("cpu", 1500) == "1500m"
    assert format_quantity("memory", 2**31) == "2Gi"
    assert format_quantity("hugepages-2Mi", 2**21) == "2Mi"
    assert format_quantity("nvidia.com/gpu", 8) == "8"
