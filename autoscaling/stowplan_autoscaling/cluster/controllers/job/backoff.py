"""How long a Job waits before it replaces pods that failed (pkg/controller/job/backoff_utils.go of v1.37.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stowplan_autoscaling.cluster.objects.batch import INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from stowplan_autoscaling.cluster.pods import FALSE, ClusterPod
from stowplan_autoscaling.kernel import SECOND

FIRST_DELAY: Final = 10 * SECOND
MAX_DELAY: Final = 600 * SECOND

_MAX_INT32: Final = 2**31 - 1


class BackoffRecord(NamedTuple):
    """Failures since the last success, and when the last of them was."""

    failures: int = 0
    last_failure: int = 0

    def after(self, succeeded: Sequence[ClusterPod], failed: Sequence[ClusterPod]) -> BackoffRecord:
        """The record with pods that have ended since."""
        if not succeeded and not failed:
            return self
        ends = sorted(finish_time(pod) for pod in failed)
        if succeeded:
            last_success = max(finish_time(pod) for pod in succeeded)
            ends = [end for end in ends if end > last_success]
            return BackoffRecord(len(ends), ends[-1]) if ends else BackoffRecord()
        return BackoffRecord(self.failures + len(ends), ends[-1])

    def remaining(self, now: int) -> int:
        """Nanoseconds until pods may be made again."""
        return remaining_delay(self.failures, self.last_failure, now)


def remaining_delay(failures: int, last_failure: int, now: int) -> int:
    """Nanoseconds that are left of the delay after so many failures."""
    if failures == 0:
        return 0
    delay = min(FIRST_DELAY << min(failures - 1, 10), MAX_DELAY)
    return max(0, delay - (now - last_failure))


def remaining_for_index(last_failed: ClusterPod | None, now: int) -> int:
    """Nanoseconds until an index may have a pod again, by the pod of it that failed last."""
    if last_failed is None:
        return 0
    return remaining_delay(all_failures(last_failed) + 1, finish_time(last_failed), now)


def finish_time(pod: ClusterPod) -> int:
    """When the pod ended: as its containers say, or its readiness, or its deletion; else when it was made."""
    if pod.finished is not None:
        return pod.finished
    if pod.ready == FALSE and pod.ready_since:
        return pod.ready_since
    if pod.deleted is not None:
        return pod.deleted - (pod.metadata.deletion_grace_period_seconds or 0) * SECOND
    return pod.created


def counted_failures(pod: ClusterPod) -> int:
    """Failures of the pod's index before it that counted."""
    return _number(pod, INDEX_FAILURE_COUNT)


def ignored_failures(pod: ClusterPod) -> int:
    """Failures of the pod's index before it that a rule ignored."""
    return _number(pod, INDEX_IGNORED_FAILURE_COUNT)


def all_failures(pod: ClusterPod) -> int:
    """Failures of the pod's index before it."""
    return counted_failures(pod) + ignored_failures(pod)


def _number(pod: ClusterPod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    if not (text.isascii() and text.isdigit()):
        return 0
    number = int(text)
    return number if number <= _MAX_INT32 else 0
