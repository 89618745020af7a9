"""What one sync of one Job knows, and what it has changed so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.apps import Condition
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, ClusterPod

from .finalizers import has_finalizer
from .indexes import UNKNOWN, Intervals, index_of
from .memory import NOTHING_FAILED, JobMemory

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.objects.batch import Job, JobStatus
    from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
    from stowplan_autoscaling.kernel import Kernel


class SyncState:
    """`job` is the Job as it was seen or last written, `status` what its status is to be."""

    __slots__ = (
        "active",
        "client",
        "delayed",
        "end",
        "failed",
        "failed_indexes",
        "held",
        "job",
        "kernel",
        "key",
        "memory",
        "pods",
        "previous_indexes",
        "queue",
        "ready",
        "record",
        "released",
        "stamp",
        "status",
        "succeeded",
        "succeeded_indexes",
        "terminating",
    )

    def __init__(
        self,
        kernel: Kernel,
        client: Client,
        queue: WorkQueue,
        memory: JobMemory,
        stamp: Callable[[int], int],
        key: str,
        job: Job,
        pods: Sequence[ClusterPod],
    ) -> None:
        self.kernel = kernel
        self.client = client
        self.queue = queue
        self.memory = memory
        self.stamp = stamp
        self.key = key
        self.job = job
        self.status: JobStatus = job.status
        self.pods = pods
        """Those that can still matter: not ended, or not counted yet."""
        self.held = tuple(pod for pod in pods if pod.is_active)
        self.active = len(self.held)
        self.ready = sum(1 for pod in self.held if pod.is_ready)
        self.terminating = sum(1 for pod in pods if pod.deleted is not None and not pod.is_terminal)
        self.released = frozenset(memory.released.get(key, ()))
        """uids of pods that are counted, but seen with their finalizer still."""
        self.record = memory.backoffs.get(key, NOTHING_FAILED)
        self.succeeded = 0
        self.failed = 0
        self.previous_indexes: Intervals = ()
        self.succeeded_indexes: Intervals = ()
        self.failed_indexes: Intervals | None = None
        """None without a limit per index."""
        self.delayed: dict[int, ClusterPod] = {}
        """By index the failed pod that stays until its successor is made, which inherits its number of failures."""
        self.end: Condition | None = None
        """How the Job ends, once that is decided."""

    @property
    def completions(self) -> int:
        """How many indexes there are; 0 where the Job does not say."""
        return self.job.spec.completions or 0

    @property
    def limits_indexes(self) -> bool:
        """Whether failures count per index."""
        return self.job.spec.backoff_limit_per_index is not None

    def condition(self, kind: str, status: str, reason: str, message: str) -> Condition:
        """A condition that begins now."""
        now = self.kernel.now
        return Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_update_time=now,
            last_transition_time=now,
        )

    def has_failed(self, pod: ClusterPod) -> bool:
        """Whether the pod is a failure: one that is being deleted is, unless only ended pods are replaced."""
        if pod.status.phase == FAILED:
            return True
        if self.job.spec.replaces_failed_only:
            return False
        return pod.deleted is not None and pod.status.phase != SUCCEEDED

    def is_counted(self, pod: ClusterPod) -> bool:
        """Whether an earlier sync has dealt with the end of the pod."""
        return pod.metadata.uid in self.released or not has_finalizer(pod)

    def has_valid_index(self, pod: ClusterPod) -> bool:
        """Whether its index is one of the Job's."""
        return UNKNOWN < index_of(pod) < self.completions

    def write_status(self) -> Steps:
        """Store the status. Raises ConflictError if the Job has been changed since it was seen."""
        yield from self.client.turn()
        stored: Job = self.client.server.update_status("Job", replace(self.job, status=self._stamped()))
        self.memory.written.wrote(self.key, "Job", stored.version)
        self.job, self.status = stored, stored.status

    def _stamped(self) -> JobStatus:
        """The status with its times as the API server keeps them."""
        status, stamp = self.status, self.stamp
        return replace(
            status,
            start_time=None if status.start_time is None else stamp(status.start_time),
            completion_time=None if status.completion_time is None else stamp(status.completion_time),
            conditions=tuple(
                replace(
                    each,
                    last_update_time=stamp(each.last_update_time),
                    last_transition_time=stamp(each.last_transition_time),
                )
                for each in status.conditions
            ),
        )
