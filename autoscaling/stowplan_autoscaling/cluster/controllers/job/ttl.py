"""Deletes Jobs some time after they have finished (pkg/controller/ttlafterfinished of Kubernetes v1.37.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.cluster.objects.batch import Job, finished_condition
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import key_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel


class TtlAfterFinishedController:
    """For all Jobs with spec.ttlSecondsAfterFinished."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 5) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        informers.handle("Job", self._job_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if new is not None and _expiry(new) is not None:
            self.queue.add(key_of(new.metadata))

    def sync(self, key: str) -> Steps | None:
        """Delete the Job if its time is over, else come back then."""
        return self._delete(key) if self._is_due(self._informers.get("Job", key), key) else None

    def _is_due(self, job: Job | None, key: str) -> bool:
        expiry = None if job is None else _expiry(job)
        if expiry is None:
            return False
        left = expiry - self._kernel.now
        if left > 0:
            self.queue.add_after(key, left)
        return left <= 0

    def _delete(self, key: str) -> Steps:
        """Look at the Job as it is now, then delete it."""
        server = self._client.server
        yield from self._client.turn()
        fresh: Job | None = server.find("Job", key)
        if fresh is None or not self._is_due(fresh, key):
            return
        yield from self._client.turn()
        server.delete("Job", key, uid=fresh.metadata.uid)


def _expiry(job: Job) -> int | None:
    """When the Job is to go; None if it has not finished, or may stay."""
    seconds, end = job.spec.ttl_seconds_after_finished, finished_condition(job)
    return None if seconds is None or end is None else end.last_transition_time + seconds * SECOND
