"""Durations and quantities are read as Kubernetes reads them, and written back as the same amounts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.resources import format_duration, parse_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("15s", 15 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5s", 3 * SECOND // 2),
        ("250ms", SECOND // 4),
        ("10us", 10_000),
        ("0s", 0),
        ("2m0.001s", 120 * SECOND + 10**6),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, nanos: int) -> None:
    """Units h, m, s, ms, us, ns with fractions: time.ParseDuration of Go."""
    assert parse_duration(text) == nanos


@pytest.mark.parametrize("text", ["", "15", "1d", "-1s", "s", "1 h", "1h 30m", "1e3s", "9999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """No days, no signs, no blanks; and nothing beyond the 63 bits that Go has."""
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(0, 2**62))
def test_every_duration_survives_being_written(nanos: int) -> None:
    """The digest of a simulation is made of the written form."""
    assert parse_duration(format_duration(nanos)) == nanos


@pytest.mark.parametrize(
    ("nanos", "text"),
    [(0, "0s"), (5400 * SECOND, "1h30m"), (SECOND // 4, "250ms"), (90 * SECOND, "1m30s"), (1500, "1500ns")],
)
def test_the_written_form_is_the_shortest(nanos: int, text: str) -> None:
    """1h30m, not 1h30m0s."""
    assert format_duration(nanos) == text
