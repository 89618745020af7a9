"""The CronJob controller: starts, policies, deadlines, history."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.cluster.controllers.lab import START, TEMPLATE, Lab
from stowplan_autoscaling.cluster.controllers.cron_job import CronJobController
from stowplan_autoscaling.cluster.controllers.cron_job.schedule import parse_schedule
from stowplan_autoscaling.cluster.controllers.cron_job.slots import find_slot, next_delay
from stowplan_autoscaling.cluster.controllers.job import JobController
from stowplan_autoscaling.cluster.objects.batch import CronJob, CronJobSpec, CronJobStatus, JobSpec, JobTemplateSpec
from stowplan_autoscaling.kernel import MILLISECOND, MINUTE, SECOND
from stowplan_scheduler.objects import ObjectMeta

MINUTES = START // MINUTE
"""Minutes from 1970 to the start."""


def make(name: str = "nightly", **spec: Any) -> CronJob:
    template = JobTemplateSpec(metadata=ObjectMeta(labels={"kind": "report"}), spec=JobSpec(template=TEMPLATE))
    return CronJob(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        spec=CronJobSpec(**{"schedule": "*/2 * * * *", "job_template": template, **spec}),
    )


def lab_with(*, run: float = 10, **spec: Any) -> Lab:
    lab = Lab(run=run)
    CronJobController(lab.kernel, lab.informers, lab.client)
    JobController(lab.kernel, lab.informers, lab.client)
    lab.server.create("CronJob", make(**spec))
    lab.begin()
    return lab


def starts(lab: Lab) -> list[float]:
    return [at for at, kind, reason, _ in lab.events if kind == "CronJob" and reason == "SuccessfulCreate"]


def jobs(lab: Lab) -> list[str]:
    return [each.metadata.name for each in lab.server.all("Job").values()]


def test_jobs_start_a_tenth_of_a_second_after_their_minute() -> None:
    """The name of a Job is its minute since 1970; the Job takes labels and an annotation with the time."""
    lab = lab_with()
    lab.run(300)
    assert starts(lab) == [120.1, 240.1]
    assert jobs(lab) == [f"nightly-{MINUTES + 2}", f"nightly-{MINUTES + 4}"]
    job = lab.stored("Job", f"nightly-{MINUTES + 2}")
    assert job.metadata.labels == {"kind": "report"}
    assert job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2000-01-01T00:02:00Z"
    status = lab.stored("CronJob", "nightly").status
    assert (status.active, status.last_schedule_time) == ((), START + 240 * SECOND)
    assert status.last_successful_time == START + 252 * SECOND


def test_allow_starts_beside_a_job_that_runs() -> None:
    """Jobs of 200 s every 120 s overlap."""
    lab = lab_with(run=200)
    lab.run(310)
    assert len(lab.stored("CronJob", "nightly").status.active) == 2


def test_forbid_skips_and_starts_late_when_the_job_ends() -> None:
    """A Job of 130 s: the start of 240 s is skipped then, and made up for when the Job has ended at 252 s."""
    lab = lab_with(run=130, concurrency_policy="Forbid")
    lab.run(300)
    assert "JobAlreadyActive" in lab.reasons("CronJob")
    assert starts(lab)[0] == 120.1
    assert 251 < starts(lab)[1] < 253


def test_replace_deletes_the_job_that_runs() -> None:
    """At most one at a time, always the newest."""
    lab = lab_with(run=1000, concurrency_policy="Replace")
    lab.run(500)
    assert jobs(lab) == [f"nightly-{MINUTES + 8}"]
    assert [each.name for each in lab.stored("CronJob", "nightly").status.active] == jobs(lab)


def test_history_limits_delete_the_oldest_finished_jobs() -> None:
    """Three successful ones by default."""
    lab = lab_with(schedule="* * * * *")
    lab.run(400)
    assert jobs(lab) == [f"nightly-{MINUTES + minute}" for minute in (4, 5, 6)]
    assert lab.reasons("CronJob").count("SuccessfulDelete") == 3


def test_failed_jobs_have_a_limit_of_their_own() -> None:
    """One by default."""
    lab = lab_with(schedule="* * * * *", run=5)
    lab.fails = lambda pod: True
    template = lab.stored("CronJob", "nightly").spec.job_template
    found = lab.stored("CronJob", "nightly")
    template = replace(template, spec=replace(template.spec, backoff_limit=0))
    lab.server.update("CronJob", replace(found, spec=replace(found.spec, job_template=template)))
    lab.run(250)
    assert jobs(lab) == [f"nightly-{MINUTES + 4}"]


def test_suspended_cron_job_makes_up_for_the_last_start_only() -> None:
    """Suspended from 130 to 500 s: the starts of 240 and 360 s are lost, that of 480 s comes at 500 s."""
    lab = lab_with()
    lab.run(130)
    found = lab.stored("CronJob", "nightly")
    lab.server.update("CronJob", replace(found, spec=replace(found.spec, suspend=True)))
    lab.run(500)
    assert starts(lab) == [120.1]
    found = lab.stored("CronJob", "nightly")
    lab.server.update("CronJob", replace(found, spec=replace(found.spec, suspend=False)))
    lab.run(510)
    assert starts(lab) == [120.1, 500]
    assert jobs(lab)[-1] == f"nightly-{MINUTES + 8}"


def test_deadline_drops_starts_that_come_too_late() -> None:
    """Resumed 20 s after the minute with a deadline of 10 s: nothing until the next one."""
    lab = lab_with(starting_deadline_seconds=10, suspend=True)
    lab.run(140)
    found = lab.stored("CronJob", "nightly")
    lab.server.update("CronJob", replace(found, spec=replace(found.spec, suspend=False)))
    lab.run(300)
    assert starts(lab) == [240.1]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("schedule", "61 * * * *", "UnparseableSchedule"),
        ("schedule", "0 0 31 2 *", "InvalidSchedule"),
        ("time_zone", "Nowhere/City", "UnknownTimeZone"),
    ],
)
def test_bad_schedules_and_zones_are_reported_and_left_alone(field: str, value: str, reason: str) -> None:
    """No Job, one event, no retries."""
    lab = lab_with(**{field: value})  # type: ignore[arg-type]
    lab.run(3600)
    assert lab.reasons("CronJob") == [reason]


def test_time_zone_shifts_the_starts() -> None:
    """6:00 in Berlin in winter is 5:00 UTC."""
    lab = lab_with(schedule="0 6 * * *", time_zone="Europe/Berlin")
    lab.run(6 * 3600)
    assert starts(lab) == [5 * 3600 + 0.1]
    job = lab.stored("Job", jobs(lab)[0])
    annotation = job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert annotation == "2000-01-01T06:00:00+01:00"


def test_many_missed_starts_give_one_job_and_a_warning() -> None:
    """More than 100 were missed while it was suspended: the newest is started."""
    lab = lab_with(schedule="* * * * *", suspend=True)
    lab.run(101 * 60 + 30)
    found = lab.stored("CronJob", "nightly")
    lab.server.update("CronJob", replace(found, spec=replace(found.spec, suspend=False)))
    lab.run(101 * 60 + 40)
    assert jobs(lab) == [f"nightly-{MINUTES + 101}"]
    assert "TooManyMissedTimes" in lab.reasons("CronJob")


def test_new_schedule_moves_the_next_start() -> None:
    """From every two minutes to every minute, changed at 10 s."""
    lab = lab_with()
    lab.run(10)
    found = lab.stored("CronJob", "nightly")
    lab.server.update("CronJob", replace(found, spec=replace(found.spec, schedule="* * * * *")))
    lab.run(61)
    assert starts(lab) == [60.1]


def test_slots_of_irregular_schedules() -> None:
    """30 6-16/4 on working days: of Friday 14:30 and Monday 6:30 the second is the most recent on Monday at 7:00."""
    friday = START + 6 * 86_400 * SECOND  # 2000-01-07
    schedule = parse_schedule("30 6-16/4 * * 1-5")
    cron_job = replace(make(), status=CronJobStatus(last_schedule_time=friday + (10 * 60 + 30) * MINUTE))
    monday = friday + 3 * 86_400 * SECOND + 7 * 60 * MINUTE
    slot = find_slot(cron_job, monday, schedule, within_deadline=True)
    assert slot.latest == monday - 30 * MINUTE
    assert next_delay(cron_job, monday, schedule) == 3 * 60 * MINUTE + 30 * MINUTE + 100 * MILLISECOND
