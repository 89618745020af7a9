"""The CronJob controller: what wakes it.

Follows pkg/controller/cronjob/cronjob_controllerv2.go of Kubernetes v1.37.2. Times without a zone are UTC unless `zone`
says otherwise, as the controller manager's local time would.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.objects.batch import CronJob, Job
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_scheduler.objects import controller_of, key_of

from .errors import ScheduleError
from .slots import next_delay
from .sync import CronJobSync, schedule_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "CronJob"


class CronJobController:
    """All CronJobs of a cluster."""

    def __init__(
        self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 5, zone: tzinfo = UTC
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._zone = zone
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        informers.handle("Job", self._job_changed)
        informers.handle(KIND, self._cron_job_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        owner = None if job is None else controller_of(job.metadata)
        if job is None or owner is None or owner.kind != KIND:
            return
        key = f"{job.metadata.namespace}/{owner.name}"
        found: CronJob | None = self._informers.get(KIND, key)
        if found is not None and found.metadata.uid == owner.uid:
            self.queue.add(key)

    def _cron_job_changed(self, old: CronJob | None, new: CronJob | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed.metadata)
        if old is None or new is None:
            self.queue.add(key)
            return
        if old.spec.schedule == new.spec.schedule and old.spec.time_zone == new.spec.time_zone:
            self.queue.add(key)
            return
        try:
            schedule = schedule_of(new, self._zone)
        except ScheduleError:
            said = f"unparseable schedule for cronjob: {new.spec.schedule}"
            self._client.event(KIND, new, "UnParseableCronJobSchedule", said, warning=True)
            return
        self.queue.add_after(key, next_delay(new, self._kernel.now, schedule))

    def sync(self, key: str) -> Steps | None:
        """Start what is due and clean up. Raises ApiError to be called again."""
        found: CronJob | None = self._informers.get(KIND, key)
        if found is None:
            return None
        held = self._informers.children(found.metadata.uid)
        jobs = tuple(held[name] for name in sorted(held))
        return self._sync(key, CronJobSync(self._kernel, self._client, self._zone, found, jobs))

    def _sync(self, key: str, run: CronJobSync) -> Steps:
        yield from run.steps()
        if run.delay is not None:
            self.queue.forget(key)
            self.queue.add_after(key, run.delay)
