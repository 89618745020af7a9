"""Which start of a CronJob is due, and when the next one will be (pkg/controller/cronjob/utils.go of v1.37.2)."""

from __future__ import annotations

from typing import Final, NamedTuple

from stowplan_autoscaling.cluster.objects.batch import CronJob
from stowplan_autoscaling.kernel import MILLISECOND, SECOND

from .errors import ScheduleError
from .schedule import Schedule

NEXT_SCHEDULE_DELTA: Final = 100 * MILLISECOND
"""How long after a start the controller looks, so that clocks that disagree do not make it look too early."""
MANY_MISSED: Final = 100
NEVER: Final = -62_135_596_800 * SECOND
"""Go's zero time: what a schedule answers that is never due."""


class Slot(NamedTuple):
    """`earliest`: where the search began. `latest`: the last start since, if any. `missed`: about how many starts."""

    earliest: int
    latest: int | None
    missed: int


def find_slot(cron_job: CronJob, now: int, schedule: Schedule, *, within_deadline: bool) -> Slot:
    """The most recent start up to now. Raises ScheduleError if the schedule names times that do not exist."""
    earliest = cron_job.status.last_schedule_time
    if earliest is None:
        earliest = cron_job.created
    deadline = cron_job.spec.starting_deadline_seconds
    if within_deadline and deadline is not None:
        earliest = max(earliest, now - deadline * SECOND)
    first = _next(schedule, earliest)
    second = _next(schedule, first)
    if now < first:
        return Slot(earliest, None, 0)
    if now < second:
        return Slot(earliest, first, 0)
    interval = (second - first + SECOND // 2) // SECOND
    if interval < 1:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    missed = (now - first) // SECOND // interval + 1
    latest = None
    candidate = _next(schedule, first + (missed - 2) * interval * SECOND)
    while candidate <= now:
        latest = candidate
        candidate = _next(schedule, candidate)
    return Slot(earliest, latest, missed)


def next_delay(cron_job: CronJob, now: int, schedule: Schedule) -> int:
    """Nanoseconds until the controller is to look again."""
    try:
        slot = find_slot(cron_job, now, schedule, within_deadline=False)
    except ScheduleError:
        latest = now
    else:
        if slot.latest is not None:
            latest = slot.latest
        else:
            latest = now if slot.missed else slot.earliest
    return _next(schedule, latest) + NEXT_SCHEDULE_DELTA - now


def _next(schedule: Schedule, after: int) -> int:
    found = schedule.next(after)
    return NEVER if found is None else found
