"""What the result of a scenario says of Jobs, CronJobs, StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Any

from stowplan_autoscaling.cluster.objects.batch import COMPLETE, FAILED, SUSPENDED, CronJob, Job
from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
from stowplan_autoscaling.kernel import SECOND

from .cluster_world import EPOCH


def _reason(job: Job, *kinds: str) -> str:
    for condition in job.status.conditions:
        if condition.type in kinds and condition.status == "True":
            return condition.reason
    return ""


def job_numbers(job: Job) -> list[Any]:
    """[active, ready, succeeded, failed, reason] of a sample."""
    status = job.status
    reason = _reason(job, COMPLETE, FAILED, SUSPENDED)
    return [status.active, status.ready or 0, status.succeeded, status.failed, reason]


def _seconds(at: int | None) -> float | None:
    return None if at is None else (at - EPOCH) / SECOND


def cron_job_numbers(cron_job: CronJob) -> list[int]:
    """[active, last schedule, last success]; seconds, -1 for never."""
    status = cron_job.status
    times = (status.last_schedule_time, status.last_successful_time)
    return [len(status.active), *(-1 if at is None else (at - EPOCH) // SECOND for at in times)]


def stateful_set_numbers(stateful_set: StatefulSet) -> list[int]:
    """[replicas, ready, current, updated, available]."""
    status = stateful_set.status
    return [
        status.replicas, status.ready_replicas, status.current_replicas, status.updated_replicas,
        status.available_replicas,
    ]  # fmt: skip


def daemon_set_numbers(daemon_set: DaemonSet) -> list[int]:
    """[desired, current, ready, updated, unavailable]."""
    status = daemon_set.status
    return [
        status.desired_number_scheduled, status.current_number_scheduled, status.number_ready,
        status.updated_number_scheduled, status.number_unavailable,
    ]  # fmt: skip


def job_end(job: Job) -> dict[str, Any]:
    """What has become of a job that is there at the end."""
    status = job.status
    return {
        "name": job.metadata.name,
        "active": status.active,
        "ready": status.ready or 0,
        "terminating": status.terminating or 0,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "started": _seconds(status.start_time),
        "completed": _seconds(status.completion_time),
        "completedIndexes": status.completed_indexes,
        "failedIndexes": status.failed_indexes or "",
        "conditions": [
            [each.type, each.status, each.reason, _seconds(each.last_transition_time)] for each in status.conditions
        ],
    }
