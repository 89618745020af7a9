"""Cron schedules: syntax, the next time, time zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.cluster.controllers.cron_job import ScheduleError, parse_schedule
from stowplan_autoscaling.cluster.controllers.cron_job.schedule import CronSchedule, parse_duration
from stowplan_autoscaling.kernel import SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(text: str) -> int:
    return round((datetime.fromisoformat(text).astimezone(UTC) - EPOCH).total_seconds()) * SECOND


def following(schedule: str, after: str, zone: str = "UTC") -> str:
    found = parse_schedule(schedule, ZoneInfo(zone)).next(at(after))
    assert found is not None
    return (EPOCH + timedelta(seconds=found // SECOND)).astimezone(ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        # The first ones as in github.com/robfig/cron v3, spec_test.go.
        ("0/15 * * * *", "2012-07-09T14:45:00", "2012-07-09T15:00:00"),
        ("20-35/15 * * * *", "2012-07-09T15:45:00", "2012-07-09T16:20:00"),
        ("15/35 20-23/2 1/2 7 *", "2012-07-09T23:35:51", "2012-07-11T20:15:00"),
        ("0 0 9 apr-oct *", "2012-07-09T23:35:00", "2012-08-09T00:00:00"),
        ("0 0 */5 apr,aug,oct mon", "2012-07-09T23:35:00", "2012-08-01T00:00:00"),
        ("0 0 */5 oct mon", "2012-07-09T23:35:00", "2012-10-01T00:00:00"),
        ("0 0 29 feb ?", "2012-07-09T23:35:00", "2016-02-29T00:00:00"),
        ("@hourly", "2012-07-09T15:59:59", "2012-07-09T16:00:00"),
        ("@weekly", "2012-07-09T00:00:00", "2012-07-15T00:00:00"),
        ("0 12 * * sun,3", "2012-07-09T00:00:00", "2012-07-11T12:00:00"),
        # Two restricted days: either is enough. One unrestricted: both must match.
        ("0 0 13 * 5", "2012-07-09T00:00:00", "2012-07-13T00:00:00"),
        ("0 0 14 * 5", "2012-07-09T00:00:00", "2012-07-13T00:00:00"),
        ("0 0 14 * *", "2012-07-09T00:00:00", "2012-07-14T00:00:00"),
    ],
)
def test_next_time(schedule: str, after: str, expected: str) -> None:
    """Times in UTC."""
    assert following(schedule, after + "+00:00") == expected + "+00:00"


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        # New York springs forward on 2012-03-11 at 2:00: 2:30 does not exist on that day.
        ("30 2 11 mar ?", "2012-03-11T00:00:00-05:00", "2013-03-11T02:30:00-04:00"),
        ("0 * * * ?", "2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00"),
        ("0 3 * * ?", "2012-03-11T00:00:00-05:00", "2012-03-11T03:00:00-04:00"),
        # And falls back on 2012-11-04 at 2:00: 1:00 to 2:00 comes twice.
        ("30 2 04 nov ?", "2012-11-04T00:00:00-04:00", "2012-11-04T02:30:00-05:00"),
        ("45 1 04 nov ?", "2012-11-04T01:45:00-04:00", "2012-11-04T01:45:00-05:00"),
        ("0 * * * ?", "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
        ("0 1 * * ?", "2012-11-04T01:00:00-05:00", "2012-11-05T01:00:00-05:00"),
    ],
)
def test_daylight_saving_in_new_york(schedule: str, after: str, expected: str) -> None:
    """github.com/robfig/cron v3, spec_test.go."""
    assert following(schedule, after, "America/New_York") == expected


def test_midnight_that_does_not_exist() -> None:
    """Sao Paulo, 2018-11-04: the day begins at 1:00. A daily midnight schedule skips it."""
    zone = "America/Sao_Paulo"
    assert following("0 0 * * ?", "2018-11-03T12:00:00-03:00", zone) == "2018-11-05T00:00:00-02:00"
    assert following("0 1 * * ?", "2018-11-03T12:00:00-03:00", zone) == "2018-11-04T01:00:00-02:00"


def test_day_that_does_not_exist() -> None:
    """Samoa left out 2011-12-30: the first Monday midnight after it is found (upstream's library would never end)."""
    assert following("0 0 * * 1", "2011-12-28T00:00:00-10:00", "Pacific/Apia") == "2012-01-02T00:00:00+14:00"


def test_days_after_a_lost_midnight_follow_the_library_s_steps() -> None:
    """Tehran, 2001-03-22, a Thursday that begins at 1:00: the library takes it for the Wednesday that it looked for."""
    assert following("0 7 * * */3", "2001-03-21T18:55:57+03:30", "Asia/Tehran") == "2001-03-22T07:00:00+04:30"


def test_zone_in_the_text_and_intervals() -> None:
    """TZ= as a prefix; @every counts whole seconds from the time before."""
    assert parse_schedule("TZ=Europe/Rome 0 6 * * *").next(at("2000-01-01T00:00:00+00:00")) == at(
        "2000-01-01T05:00:00+00:00"
    )
    every = parse_schedule("@every 1h30m10s")
    assert every.next(at("2000-01-01T00:00:00+00:00") + 7) == at("2000-01-01T01:30:10+00:00")
    assert parse_duration("1h15m30.918s") == 4_530_918_000_000


def test_schedule_that_is_never_due() -> None:
    """The 31st of February is looked for over five years, then given up."""
    assert parse_schedule("0 0 31 2 *").next(at("2000-01-01T00:00:00+00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("TZ=Mars/Base 0 0 * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
    ],
)
def test_errors_are_the_library_s(schedule: str, message: str) -> None:
    """The texts go into events."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(schedule)
    assert str(caught.value) == message


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, high)
    return st.one_of(st.just("*"), number.map(str), spans, st.builds("{}/{}".format, spans, steps))


SCHEDULES = st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)).map(" ".join)
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo")


@given(
    SCHEDULES,
    st.integers(at("2000-01-01T00:00:00+00:00") // SECOND, at("2025-01-01T00:00:00+00:00") // SECOND),
    st.sampled_from(ZONES),
)
def test_next_time_fits_every_field_and_is_later(schedule: str, after: int, zone: str) -> None:
    """On the clock of the zone, on a whole minute."""
    parsed = parse_schedule(schedule, ZoneInfo(zone))
    assert isinstance(parsed, CronSchedule)
    found = parsed.next(after * SECOND)
    assert found is not None
    assert found > after * SECOND
    clock = (EPOCH + timedelta(seconds=found // SECOND)).astimezone(ZoneInfo(zone))
    assert clock.second == 0
    assert (clock.minute in parsed.minutes, clock.hour in parsed.hours, clock.month in parsed.months) == (True,) * 3
    assert parsed.fits_day(clock)


@given(
    fields(0, 59),
    fields(0, 23),
    st.integers(at("2000-01-01T00:00:00+00:00") // SECOND, at("2025-01-01T00:00:00+00:00") // SECOND),
)
def test_no_time_is_skipped(minute: str, hour: str, after: int) -> None:
    """In UTC, by trying every minute of the next day."""
    parsed = parse_schedule(f"{minute} {hour} * * *")
    assert isinstance(parsed, CronSchedule)
    candidates = range((after // 60 + 1) * 60, (after // 60 + 1442) * 60, 60)
    fitting = (
        second for second in candidates if second // 60 % 60 in parsed.minutes and second // 3600 % 24 in parsed.hours
    )
    assert parsed.next(after * SECOND) == next(fitting) * SECOND
