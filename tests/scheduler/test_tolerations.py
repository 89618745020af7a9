"""Tolerations, and the time stamps of API objects."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.objects import Taint, Toleration
from stowplan_scheduler.timestamps import NANOSECONDS, TimestampError, format_time, parse_time
from stowplan_scheduler.tolerations import HARD_EFFECTS, find_untolerated_taint, is_tolerated, tolerates

TAINT = Taint(key="dedicated", value="gpu", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(key="dedicated", value="gpu"), True),
        (Toleration(key="dedicated", value="gpu", operator="Equal", effect="NoSchedule"), True),
        (Toleration(key="dedicated", value="cpu"), False),
        (Toleration(key="dedicated", operator="Exists", value="ignored"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(value="gpu"), True),
        (Toleration(), False),
        (Toleration(key="dedicated", value="5", operator="Gt"), False),
        (Toleration(key="dedicated", value="gpu", operator="Sometimes"), False),
    ],
)
def test_tolerates(toleration: Toleration, covers: bool) -> None:
    """An empty key with Equal compares the value alone; Lt and Gt belong to a feature that is off."""
    assert tolerates(toleration, TAINT) == covers


def test_the_first_taint_that_nothing_covers_is_found() -> None:
    """By default only effects that keep a pod away count."""
    soft = Taint(key="spot", effect="PreferNoSchedule")
    execute = Taint(key="down", effect="NoExecute")
    taints = (soft, TAINT, execute)
    assert find_untolerated_taint(taints, ()) is TAINT
    assert find_untolerated_taint(taints, (Toleration(key="dedicated", operator="Exists"),)) is execute
    assert find_untolerated_taint(taints, (Toleration(operator="Exists"),)) is None
    assert find_untolerated_taint(taints, (), ("PreferNoSchedule",)) is soft
    assert find_untolerated_taint((soft,), (), HARD_EFFECTS) is None
    assert not is_tolerated(TAINT, ())


def test_times_are_nanoseconds_since_1970() -> None:
    """The oracle's clock starts at 2000-01-01: 946684800 s. Offsets are applied, digits beyond nanoseconds cut off."""
    assert parse_time("2000-01-01T00:00:00Z") == 946_684_800 * NANOSECONDS
    assert parse_time("2000-01-01T01:30:00+01:30") == 946_684_800 * NANOSECONDS
    assert parse_time("1999-12-31T23:00:00-01:00") == 946_684_800 * NANOSECONDS
    assert parse_time("1970-01-01T00:00:01.0000000019Z") == NANOSECONDS + 1
    assert parse_time("1969-12-31T23:59:59.5Z") == -NANOSECONDS // 2
    assert parse_time("0001-01-01T00:00:00Z") == -62_135_596_800 * NANOSECONDS


@pytest.mark.parametrize(
    "text",
    ["", "2000-01-01", "2000-01-01 00:00:00Z", "2000-01-01T00:00:00", "2000-02-30T00:00:00Z", "2000-01-01T24:00:00Z",
     "2000-01-01T00:60:00Z", "2000-01-01T00:00:60Z", "2000-01-01T00:00:00+25:00", "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_other_texts_are_no_times(text: str) -> None:
    """Also dates that no calendar has."""
    with pytest.raises(TimestampError):
        parse_time(text)


def test_times_outside_the_calendar_cannot_be_printed() -> None:
    """Years 1 to 9999 have a four-digit text."""
    with pytest.raises(TimestampError):
        format_time(-(10**21))


@given(st.integers(parse_time("0001-01-01T00:00:00Z"), parse_time("9999-12-31T23:59:59.999999999Z")))
def test_a_printed_time_parses_to_itself(ns: int) -> None:
    """Printed in UTC, with as many digits of the fraction as needed; whole seconds agree with the standard library."""
    text = format_time(ns)
    assert parse_time(text) == ns
    seconds = ns // NANOSECONDS
    delta = datetime.fromisoformat(format_time(seconds * NANOSECONDS)) - datetime(1970, 1, 1, tzinfo=UTC)
    assert delta.days * 86_400 + delta.seconds == seconds
