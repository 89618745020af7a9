"""From ended pods to a Job's counters, and to its end.

Follows trackJobStatusAndRemoveFinalizers of pkg/controller/job/job_controller.go of Kubernetes v1.37.2: ended pods are
first written into the status as uncounted, then lose their finalizer, and are then added to the counters, so that a pod
is counted once whatever fails between. The interim condition (SuccessCriteriaMet, FailureTarget) is written with the
first of these writes, the final one (Complete, Failed) when no pod terminates any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError, NotFoundError
from stowplan_autoscaling.cluster.objects.batch import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    is_true,
)
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import SUCCEEDED

from . import indexes
from .finalizers import remove_finalizer
from .policies import judge_failure

if TYPE_CHECKING:
    from collections.abc import Generator

    from stowplan_autoscaling.cluster.objects.apps import Condition
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.cluster.work_queue import Steps

    from .state import SyncState

MAX_UNCOUNTED: Final = 500
"""Ended pods that one sync takes into the status."""


class Tracker:
    """The end of one sync. `flush`: whether the status is to be written even if no pod has ended."""

    def __init__(self, state: SyncState, *, flush: bool) -> None:
        self._state = state
        self._flush = flush
        self._tracked = {pod.metadata.uid for pod in state.pods if not state.is_counted(pod)}
        """uids of pods that still have their finalizer."""
        self._done: list[ClusterPod] = []
        """Pods whose finalizer is to go."""
        self._new_indexes: list[int] = []
        self._is_full = False

    def steps(self) -> Steps:
        """All writes. Raises ApiError."""
        state = self._state
        self._move_to_counters()
        self._collect()
        if state.job.spec.is_indexed:
            self._note_indexes()
        self._note_interim_end()
        if self._flush:
            yield from state.write_status()
            state.memory.backoffs[state.key] = state.record
            self._flush = False
        failure = yield from self._release()
        self._move_to_counters()
        if failure is not None:
            if self._flush:
                yield from state.write_status()
            raise failure
        has_ended = not self._is_full and self._finish()
        if self._flush or has_ended:
            yield from state.write_status()
        if has_ended:
            self._announce()

    # ---- ended pods --------------------------------------------------------------------------

    def _move_to_counters(self) -> None:
        """Pods without finalizer that are in the status as uncounted are counted."""
        status = self._state.status
        succeeded = tuple(uid for uid in status.uncounted_succeeded if uid in self._tracked)
        failed = tuple(uid for uid in status.uncounted_failed if uid in self._tracked)
        more = len(status.uncounted_succeeded) - len(succeeded), len(status.uncounted_failed) - len(failed)
        if more != (0, 0):
            self._flush = True
            self._state.status = replace(
                status,
                succeeded=status.succeeded + more[0],
                failed=status.failed + more[1],
                uncounted_succeeded=succeeded,
                uncounted_failed=failed,
            )

    def _collect(self) -> None:
        """Ended pods go into the status as uncounted, or their index does."""
        state = self._state
        status = state.status
        succeeded, failed = list(status.uncounted_succeeded), list(status.uncounted_failed)
        known_succeeded, known_failed = frozenset(succeeded), frozenset(failed)
        pods = sorted(state.pods, key=indexes.index_of) if state.job.spec.is_indexed else state.pods
        for pod in pods:
            uid = pod.metadata.uid
            if uid not in self._tracked or not self._may_release(pod):
                continue
            self._done.append(pod)
            if pod.status.phase == SUCCEEDED and uid not in known_failed:
                self._collect_success(pod, succeeded, known_succeeded)
            elif uid not in known_failed and self._is_failure(pod):
                failed.append(uid)
            if len(self._new_indexes) + len(succeeded) + len(failed) >= MAX_UNCOUNTED:
                self._is_full = True
                break
        if len(succeeded) != len(known_succeeded) or len(failed) != len(known_failed):
            self._flush = True
            state.status = replace(status, uncounted_succeeded=tuple(succeeded), uncounted_failed=tuple(failed))

    def _may_release(self, pod: ClusterPod) -> bool:
        """Whether the pod may lose its finalizer: it has ended, or the Job has."""
        state = self._state
        if state.end is not None or pod.status.phase == SUCCEEDED:
            return True
        if not state.has_failed(pod):
            return False
        waiting = state.delayed.get(indexes.index_of(pod))
        return waiting is None or waiting.metadata.uid != pod.metadata.uid

    def _collect_success(self, pod: ClusterPod, succeeded: list[str], known: frozenset[str]) -> None:
        state = self._state
        if not state.job.spec.is_indexed:
            if pod.metadata.uid not in known:
                succeeded.append(pod.metadata.uid)
            return
        index = indexes.index_of(pod)
        if state.has_valid_index(pod) and not indexes.contains(state.previous_indexes, index):
            self._new_indexes.append(index)
            self._flush = True

    def _is_failure(self, pod: ClusterPod) -> bool:
        """Whether the pod counts as failed; when the Job fails, whatever has not ended does."""
        state = self._state
        fails_with_job = state.end is not None and state.end.type != SUCCESS_CRITERIA_MET
        if not state.has_failed(pod) and not fails_with_job:
            return False
        if state.job.spec.is_indexed and not state.has_valid_index(pod):
            return False
        return judge_failure(state.job.spec.pod_failure_policy, pod).counts

    def _note_indexes(self) -> None:
        state = self._state
        state.succeeded_indexes = indexes.with_indexes(state.succeeded_indexes, self._new_indexes)
        completed = indexes.to_text(state.succeeded_indexes)
        failed = None if state.failed_indexes is None else indexes.to_text(state.failed_indexes)
        status = state.status
        if completed != status.completed_indexes or failed != status.failed_indexes:
            self._flush = True
        state.status = replace(
            status,
            succeeded=indexes.total(state.succeeded_indexes),
            completed_indexes=completed,
            failed_indexes=failed,
        )

    def _release(self) -> Generator[int, None, ApiError | None]:
        """Take the finalizers away; returns the first failure."""
        state = self._state
        if not self._done:
            return None
        released = state.memory.released.setdefault(state.key, set())
        released.update(pod.metadata.uid for pod in self._done)
        first: ApiError | None = None
        done = {pod.metadata.uid for pod in self._done}
        for pod in state.pods:
            if pod.metadata.uid not in done:
                continue
            yield from state.client.turn()
            try:
                stored = remove_finalizer(state.client, pod)
                state.memory.written.wrote(state.key, "Pod", stored.version)
            except NotFoundError:
                released.discard(pod.metadata.uid)
            except ApiError as failure:
                released.discard(pod.metadata.uid)
                first = first or failure
                continue
            self._tracked.discard(pod.metadata.uid)
        return first

    # ---- the end -----------------------------------------------------------------------------

    def _note_interim_end(self) -> None:
        """Write that the Job will end, and turn `state.end` into what it will end as."""
        state = self._state
        end = state.end
        if end is None:
            return
        if end.type == FAILURE_TARGET:
            self._add(end)
            state.end = state.condition(FAILED, "True", end.reason, end.message)
        elif end.type == SUCCESS_CRITERIA_MET:
            if not is_true(state.status, SUCCESS_CRITERIA_MET):
                self._add(end)
            state.end = state.condition(COMPLETE, "True", end.reason, end.message)

    def _add(self, condition: Condition) -> None:
        status = self._state.status
        self._state.status = replace(status, conditions=(*status.conditions, condition))
        self._flush = True

    def _finish(self) -> bool:
        """Add the final condition, unless pods are still to be counted or still terminate."""
        state = self._state
        end, status = state.end, state.status
        if end is None or status.uncounted_succeeded or status.uncounted_failed or state.terminating > 0:
            return False
        if condition_of(status.conditions, end.type) is None:
            now = state.kernel.now
            made = replace(end, last_update_time=now, last_transition_time=now)
            status = replace(status, conditions=(*status.conditions, made))
        if end.type == COMPLETE:
            status = replace(status, completion_time=end.last_transition_time)
        state.status = status
        return True

    def _announce(self) -> None:
        """The events of the end."""
        state = self._state
        job, end = state.job, state.end
        state.memory.ended.add(job.metadata.uid)
        if end is None or end.type != COMPLETE:
            if end is not None:
                state.client.event("Job", job, end.reason, end.message, warning=True)
            return
        if job.spec.completions is not None and job.status.succeeded > job.spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            state.client.event("Job", job, "TooManySucceededPods", message, warning=True)
        state.client.event("Job", job, "Completed", "Job completed")
