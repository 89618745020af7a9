"""One sync of one CronJob.

Follows cleanupFinishedJobs and syncCronJob (pkg/controller/cronjob/cronjob_controllerv2.go of Kubernetes v1.37.2):
finished Jobs beyond the history limits are deleted, the list of active Jobs is brought up to date, then the most
recent start that was missed is made up for, if the policy allows it. The status is written once, at the end.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import AlreadyExistsError, ApiError, NotFoundError
from stowplan_autoscaling.cluster.objects.batch import (
    COMPLETE,
    FAILED,
    FORBID,
    REPLACE,
    SCHEDULED_TIMESTAMP,
    ActiveJob,
    CronJob,
    Job,
    finished_condition,
    is_true,
)
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import ObjectMeta, OwnerReference

from .errors import ScheduleError
from .schedule import Schedule, load_zone, parse_schedule
from .slots import MANY_MISSED, find_slot, next_delay

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.work_queue import Steps
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "CronJob"
_MINUTE: Final = 60 * SECOND
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def schedule_of(cron_job: CronJob, local: tzinfo) -> Schedule:
    """The schedule in its time zone; an unknown zone is passed over. Raises ScheduleError."""
    text, zone = cron_job.spec.schedule, local
    if cron_job.spec.time_zone is not None and "TZ" not in text:
        try:
            zone = load_zone(cron_job.spec.time_zone)
        except ScheduleError:
            zone = local
    return parse_schedule(text, zone)


def job_name(cron_job: CronJob, slot: int) -> str:
    """The name of the Job of a start: minutes since 1970 tell them apart."""
    return f"{cron_job.metadata.name}-{slot // _MINUTE}"


class CronJobSync:
    """The CronJob and its Jobs as seen. `delay`: nanoseconds until the next look, None for none."""

    def __init__(self, kernel: Kernel, client: Client, local: tzinfo, cron_job: CronJob, jobs: Sequence[Job]) -> None:
        self._kernel = kernel
        self._client = client
        self._local = local
        self._seen = cron_job
        """What is written at the end, with changes."""
        self._now_known = cron_job
        """What decides: that of the API server once it was asked for. Changes of it are then lost, as upstream."""
        self._jobs = jobs
        self._changed = False
        self.delay: int | None = None

    # ---- the flow ----------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The whole sync. Raises ApiError."""
        yield from self._clean_up()
        failure: ApiError | None = None
        try:
            self.delay = yield from self._sync()
        except ApiError as error:
            failure = error
        if self._changed:
            yield from self._client.turn()
            self._client.server.update_status(KIND, self._seen)
        if failure is not None:
            raise failure

    def _sync(self) -> Generator[int, None, int | None]:
        now = self._kernel.now
        yield from self._update_active()
        yield from self._forget_missing()
        spec = self._now_known.spec
        if spec.time_zone is not None and not self._knows_zone(spec.time_zone):
            return None
        if spec.suspend:
            return None
        schedule = self._parse()
        if schedule is None:
            return None
        try:
            slot = find_slot(self._now_known, now, schedule, within_deadline=True)
        except ScheduleError as error:
            self._event("InvalidSchedule", f"invalid schedule: {spec.schedule} : {error}", warning=True)
            return None
        if slot.latest is not None:
            if slot.missed > MANY_MISSED:
                said = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                self._event("TooManyMissedTimes", said, warning=True)
            if self._may_start(slot.latest, now) and not (yield from self._start(slot.latest)):
                return None
        return next_delay(self._now_known, now, schedule)

    def _knows_zone(self, name: str) -> bool:
        try:
            load_zone(name)
        except ScheduleError:
            said = f'invalid timeZone: "{name}": unknown time zone {name}'
            self._event("UnknownTimeZone", said, warning=True)
            return False
        return True

    def _parse(self) -> Schedule | None:
        text = self._now_known.spec.schedule
        if "TZ" in text:
            said = (
                f'CRON_TZ or TZ used in schedule "{text}" is not officially supported, see '
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
            self._event("UnsupportedSchedule", said, warning=True)
        try:
            return schedule_of(self._now_known, self._local)
        except ScheduleError as error:
            self._event("UnparseableSchedule", f'unparseable schedule: "{text}" : {error}', warning=True)
            return None

    # ---- Jobs that there are -----------------------------------------------------------------

    def _clean_up(self) -> Steps:
        """Delete the oldest finished Jobs beyond the history limits."""
        spec = self._seen.spec
        for kind, limit in (
            (COMPLETE, spec.successful_jobs_history_limit),
            (FAILED, spec.failed_jobs_history_limit),
        ):
            ended = [job for job in self._jobs if _ended_as(job) == kind]
            if limit is None or len(ended) <= limit:
                continue
            for job in sorted(ended, key=_by_start)[: len(ended) - limit]:
                self._changed |= yield from self._delete(job)

    def _delete(self, job: Job) -> Generator[int, None, bool]:
        """Delete a Job and take it off the list; returns whether that worked."""
        meta = job.metadata
        yield from self._client.turn()
        try:
            self._client.server.delete("Job", f"{meta.namespace}/{meta.name}")
        except ApiError as failure:
            self._event("FailedDelete", f"Deleted job: {failure}", warning=True)
            return False
        self._drop(meta.uid)
        self._event("SuccessfulDelete", f"Deleted job {meta.name}")
        return True

    def _update_active(self) -> Steps:
        """Take finished Jobs off the list, and note the last success."""
        for job in self._jobs:
            listed = any(each.uid == job.metadata.uid for each in self._now_known.status.active)
            end = finished_condition(job)
            if end is not None:
                if listed:
                    self._drop(job.metadata.uid)
                    said = f"Saw completed job: {job.metadata.name}, condition: {end.type}"
                    self._event("SawCompletedJob", said)
                    self._changed = True
                self._note_success(job)
            elif not listed:
                yield from self._look_up(job)

    def _look_up(self, job: Job) -> Steps:
        """A Job that runs but is not listed: the list that was seen may be old."""
        meta = self._now_known.metadata
        yield from self._client.turn()
        fresh: CronJob = self._client.server.get(KIND, f"{meta.namespace}/{meta.name}")
        if any(each.uid == job.metadata.uid for each in fresh.status.active):
            self._now_known = fresh
            return
        said = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
        self._event("UnexpectedJob", said, warning=True)

    def _note_success(self, job: Job) -> None:
        if not is_true(job.status, COMPLETE):
            return
        last, done = self._now_known.status.last_successful_time, job.status.completion_time
        if last is None or (done is not None and done > last):
            self._set(last_successful_time=done)
            self._changed = True

    def _forget_missing(self) -> Steps:
        """Take Jobs off the list that do not exist any more."""
        known = {job.metadata.uid for job in self._jobs}
        for each in self._now_known.status.active:
            if each.uid in known:
                continue
            yield from self._client.turn()
            if self._client.server.find("Job", f"{each.namespace}/{each.name}") is None:
                self._event("MissingJob", f"Active job went missing: {each.name}")
                self._drop(each.uid)
                self._changed = True

    # ---- the Job that is due -----------------------------------------------------------------

    def _may_start(self, slot: int, now: int) -> bool:
        """Whether the start is not too late, not made already, and not forbidden by a Job that runs."""
        spec, status = self._now_known.spec, self._now_known.status
        deadline = spec.starting_deadline_seconds
        if deadline is not None and slot + deadline * SECOND < now:
            when = format_datetime(_EPOCH + timedelta(seconds=slot // SECOND))
            self._event("MissSchedule", f"Missed scheduled time to start a job: {when}", warning=True)
            return False
        name = job_name(self._now_known, slot)
        if status.last_schedule_time == slot or any(each.name == name for each in status.active):
            return False
        if spec.concurrency_policy == FORBID and status.active:
            said = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._event("JobAlreadyActive", said)
            return False
        return True

    def _start(self, slot: int) -> Generator[int, None, bool]:
        """Create the Job and list it; returns whether it was listed. Raises ApiError."""
        if self._now_known.spec.concurrency_policy == REPLACE:
            yield from self._delete_active()
        made = self._job_of(slot)
        client = self._client
        yield from client.turn()
        try:
            job: Job = client.server.create("Job", made)
        except AlreadyExistsError:
            yield from client.turn()
            job = client.server.get("Job", f"{made.metadata.namespace}/{made.metadata.name}")
            uid = self._now_known.metadata.uid
            is_mine = any(owner.controller and owner.uid == uid for owner in job.metadata.owner_references)
            if not is_mine or any(each.uid == job.metadata.uid for each in self._now_known.status.active):
                return False
        except ApiError as failure:
            self._event("FailedCreate", f"Error creating job: {failure}", warning=True)
            raise
        else:
            self._event("SuccessfulCreate", f"Created job {job.metadata.name}")
        meta = job.metadata
        listed = ActiveJob(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        self._set(active=(*self._now_known.status.active, listed), last_schedule_time=slot)
        self._changed = True
        return True

    def _delete_active(self) -> Steps:
        for each in self._now_known.status.active:
            yield from self._client.turn()
            try:
                job: Job = self._client.server.get("Job", f"{each.namespace}/{each.name}")
            except NotFoundError as failure:
                self._event("FailedGet", f"Get job: {failure}", warning=True)
                raise
            if not (yield from self._delete(job)):
                raise ApiError(f"could not replace job {each.namespace}/{each.name}")
            self._changed = True

    def _job_of(self, slot: int) -> Job:
        meta, template = self._now_known.metadata, self._now_known.spec.job_template
        zone = load_zone(self._now_known.spec.time_zone or "")
        when = (_EPOCH + timedelta(seconds=slot // SECOND)).astimezone(zone).isoformat().replace("+00:00", "Z")
        owner = OwnerReference(api_version="batch/v1", kind=KIND, name=meta.name, uid=meta.uid, controller=True)
        return Job(
            metadata=ObjectMeta(
                name=job_name(self._now_known, slot),
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations={**template.metadata.annotations, SCHEDULED_TIMESTAMP: when},
                owner_references=(owner,),
            ),
            spec=template.spec,
        )

    # ---- the status --------------------------------------------------------------------------

    def _set(self, **changes: object) -> None:
        is_seen = self._now_known is self._seen
        self._now_known = replace(self._now_known, status=replace(self._now_known.status, **changes))
        if is_seen:
            self._seen = self._now_known

    def _drop(self, uid: str) -> None:
        """Take a Job off the list of active ones."""
        self._set(active=tuple(each for each in self._now_known.status.active if each.uid != uid))

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._client.event(KIND, self._now_known, reason, message, warning=warning)


def _ended_as(job: Job) -> str:
    end = finished_condition(job)
    return "" if end is None else end.type


def _by_start(job: Job) -> tuple[bool, int, str]:
    start = job.status.start_time
    return start is None, start or 0, job.metadata.name
