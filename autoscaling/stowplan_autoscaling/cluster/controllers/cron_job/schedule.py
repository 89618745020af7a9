"""When a cron schedule is due.

Follows github.com/robfig/cron v3.0.1 (spec.go, parser.go, constantdelay.go), which upstream uses, in time zones with
daylight saving, too: the next time is looked for on the clock of the zone, month by month, day by day, hour by hour.
Day of month and day of week must both match if one of them is unrestricted, else either is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stowplan_autoscaling.kernel import SECOND

from . import fields
from .errors import ScheduleError

DAY_SECONDS: Final = 86_400
HOUR_SECONDS: Final = 3600
MINUTE_SECONDS: Final = 60
YEARS_AHEAD: Final = 5
"""A schedule that is not due within so many years never is."""

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule(Protocol):
    """Times at which something is due."""

    def next(self, after: int) -> int | None:
        """The first one after a time; nanoseconds since 1970. None: never again."""


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """A schedule in a time zone, unless the text begins with one ("TZ=Europe/Rome 0 6 * * *"). Raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        head, space, rest = text.partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        name = head.partition("=")[2]
        zone = load_zone(name)
        text = rest.strip()
    if text.startswith("@"):
        return _parse_descriptor(text, zone)
    return _parse_spec(text, zone)


def load_zone(name: str) -> tzinfo:
    """A time zone; "" is UTC. Raises ScheduleError."""
    if name in {"", "UTC"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"provided bad location {name}: unknown time zone {name}") from error


def _parse_descriptor(text: str, zone: tzinfo) -> Schedule:
    known = _DESCRIPTORS.get(text)
    if known is not None:
        return _parse_spec(known, zone)
    if text.startswith("@every "):
        return Every.of(parse_duration(text.removeprefix("@every ")))
    raise ScheduleError(f"unrecognized descriptor: {text}")


def parse_duration(text: str) -> int:
    """A Go duration such as "1h30m", in nanoseconds. Raises ScheduleError."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0
    total = end = 0
    for match in _DURATION.finditer(body):
        if match.start() != end:
            break
        whole, _, fraction = match[1].partition(".")
        unit = _UNITS[match[2]]
        total += int(whole or 0) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        end = match.end()
    if not body or end != len(body):
        raise ScheduleError(f'failed to parse duration @every {text}: time: invalid duration "{text}"')
    return sign * total


def _parse_spec(text: str, zone: tzinfo) -> Schedule:
    parts = text.split()
    if len(parts) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    bounds = (fields.MINUTE, fields.HOUR, fields.DAY_OF_MONTH, fields.MONTH, fields.DAY_OF_WEEK)
    minute, hour, day, month, weekday = (
        fields.parse_field(part, bound) for part, bound in zip(parts, bounds, strict=True)
    )
    return CronSchedule(
        minutes=minute.values,
        hours=hour.values,
        days=day.values,
        months=month.values,
        weekdays=weekday.values,
        needs_both_days=day.is_star or weekday.is_star,
        zone=zone,
    )


@dataclass(frozen=True, slots=True)
class Every:
    """Due again so many nanoseconds after the last time, on a whole second."""

    delay: int

    @classmethod
    def of(cls, duration: int) -> Every:
        """At least a second; fractions are cut off."""
        return cls(max(duration, SECOND) // SECOND * SECOND)

    def next(self, after: int) -> int | None:
        """The whole second `delay` after the one that has begun."""
        return after + self.delay - after % SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """Minutes of hours of days on the clock of a time zone."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    needs_both_days: bool
    """Whether day of month and day of week must both match; else one of them is enough."""
    zone: tzinfo

    def next(self, after: int) -> int | None:
        """The first one after a time; nanoseconds since 1970. None: never again."""
        found = _next(self, after // SECOND + 1)
        return None if found is None else found * SECOND

    def fits_day(self, clock: datetime) -> bool:
        """Whether the day is one of the schedule's."""
        day, weekday = clock.day in self.days, clock.isoweekday() % 7 in self.weekdays
        return day and weekday if self.needs_both_days else day or weekday


@lru_cache(maxsize=4096)
def _next(schedule: CronSchedule, seconds: int) -> int | None:
    """The first time from `seconds` on."""
    search = _Search(schedule, seconds)
    last_year = search.clock.year + YEARS_AHEAD
    while search.clock.year <= last_year:
        if search.to_month() and search.to_day() and search.to_hour() and search.to_minute() and search.to_second():
            return _seconds(search.clock)
    return None


class _Search:
    """The clock as it moves on, field by field, from the largest to the smallest.

    A field that is moved past its end carries over into larger ones: its method then returns False, and the search
    begins anew with the month. The first move sets all smaller fields to their beginning. Where the clock jumps, this
    is more than a matter of taste: what is due on such a day depends on the order of these steps.
    """

    __slots__ = ("_is_cut", "_schedule", "_zone", "clock")

    def __init__(self, schedule: CronSchedule, seconds: int) -> None:
        self._schedule = schedule
        self._zone = schedule.zone
        self._is_cut = False
        self.clock = _at(seconds, schedule.zone)

    def _cut(self, day: int, hour: int) -> None:
        if not self._is_cut:
            self._is_cut = True
            self.clock = _date(self.clock.year, self.clock.month, day, hour, self._zone)

    def to_month(self) -> bool:
        """On to a month that fits."""
        while self.clock.month not in self._schedule.months:
            self._cut(1, 0)
            clock = self.clock
            self.clock = _date(clock.year, clock.month + 1, clock.day, clock.hour, self._zone)
            if self.clock.month == 1:
                return False
        return True

    def to_day(self) -> bool:
        """On to a day that fits."""
        while not self._schedule.fits_day(self.clock):
            self._cut(self.clock.day, 0)
            clock = self.clock
            self.clock = _date(clock.year, clock.month, clock.day + 1, clock.hour, self._zone)
            if self.clock.hour != 0:
                # Midnight does not exist on this day.
                hours = 24 - self.clock.hour if self.clock.hour > 12 else -self.clock.hour
                self._add(hours * HOUR_SECONDS)
            if self.clock <= clock:
                # The zone left out the whole day, as Samoa did; upstream's library never comes back from here.
                self.clock = _at(_seconds(clock) + DAY_SECONDS, self._zone)
            if self.clock.day == 1:
                return False
        return True

    def to_hour(self) -> bool:
        """On to an hour that fits."""
        while self.clock.hour not in self._schedule.hours:
            self._cut(self.clock.day, self.clock.hour)
            self._add(HOUR_SECONDS)
            if self.clock.hour == 0:
                return False
        return True

    def to_minute(self) -> bool:
        """On to a minute that fits."""
        while self.clock.minute not in self._schedule.minutes:
            if not self._is_cut:
                self._is_cut = True
                self._add(-self.clock.second)
            self._add(MINUTE_SECONDS)
            if self.clock.minute == 0:
                return False
        return True

    def to_second(self) -> bool:
        """Only whole minutes are due."""
        if self.clock.second:
            self._is_cut = True
            self._add(MINUTE_SECONDS - self.clock.second)
            return False
        return True

    def _add(self, seconds: int) -> None:
        self.clock = _at(_seconds(self.clock) + seconds, self._zone)


# ---- the clock of a time zone ----------------------------------------------------------------------------------------


def _at(seconds: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)


def _seconds(clock: datetime) -> int:
    return round((clock - _EPOCH).total_seconds())


def _offset(seconds: int, zone: tzinfo) -> int:
    offset = _at(seconds, zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def _date(year: int, month: int, day: int, hour: int, zone: tzinfo) -> datetime:
    """A time of the zone's clock; one that does not exist or exists twice is what Go's time.Date makes of it.

    Month 13 is the next January, and a day beyond the end of a month one of the next.
    """
    first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, hour, tzinfo=UTC)
    wall = _seconds(first + timedelta(days=day - 1))
    offset = _offset(wall, zone)
    if offset:
        other = _offset(wall - offset, zone)
        wall -= other
    return _at(wall, zone)
