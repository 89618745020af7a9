"""The status of a Deployment and its conditions.

Follows calculateStatus (pkg/controller/deployment/sync.go) and pkg/controller/deployment/progress.go of Kubernetes
v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.apps import Condition, Deployment, DeploymentStatus, ReplicaSet
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.kernel import SECOND, whole_seconds

from .arithmetic import available, has_deadline, max_unavailable, total

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

NEW_AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
_AVAILABLE: Final = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
_UNAVAILABLE: Final = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")

PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"


def condition(kind: str, status: str, reason: str, message: str, now: int) -> Condition:
    """A new condition; times have whole seconds."""
    at = whole_seconds(now)
    return Condition(
        type=kind, status=status, reason=reason, message=message, last_update_time=at, last_transition_time=at
    )


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """The conditions with one set; nothing changes where status and reason are the same."""
    current = condition_of(conditions, new.type)
    if current is not None and current.status == new.status:
        if current.reason == new.reason:
            return conditions
        new = replace(new, last_transition_time=current.last_transition_time)
    return (*without_condition(conditions, new.type), new)


def without_condition(conditions: tuple[Condition, ...], kind: str) -> tuple[Condition, ...]:
    """The conditions without one type."""
    if condition_of(conditions, kind) is None:
        return conditions
    return tuple(each for each in conditions if each.type != kind)


def calculate_status(
    deployment: Deployment, replica_sets: Sequence[ReplicaSet], new: ReplicaSet | None, now: int
) -> DeploymentStatus:
    """The status as its ReplicaSets make it."""
    spec, old = deployment.spec, deployment.status
    ready = available(replica_sets)
    is_available = ready >= spec.replicas - max_unavailable(deployment)
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum([each.status.replicas for each in replica_sets]),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum([each.status.ready_replicas for each in replica_sets]),
        available_replicas=ready,
        unavailable_replicas=max(0, total(replica_sets) - ready),
        terminating_replicas=_terminating(replica_sets),
        collision_count=old.collision_count,
        conditions=_with_availability(old.conditions, is_available, now),
    )


def _with_availability(conditions: tuple[Condition, ...], is_available: bool, now: int) -> tuple[Condition, ...]:
    known = condition_of(conditions, AVAILABLE)
    status, reason, message = _AVAILABLE if is_available else _UNAVAILABLE
    if known is not None and known.status == status and known.reason == reason:
        return conditions
    return with_condition(conditions, condition(AVAILABLE, status, reason, message, now))


def _terminating(replica_sets: Sequence[ReplicaSet]) -> int | None:
    """None as long as one of them, that was looked at, does not say."""
    count = 0
    for each in replica_sets:
        status = each.status
        if status.terminating_replicas is not None:
            count += status.terminating_replicas
        elif status.observed_generation:
            return None
    return count


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all pods are of the new kind and available."""
    replicas = deployment.spec.replicas
    return (
        status.updated_replicas == replicas
        and status.replicas == replicas
        and status.available_replicas == replicas
        and status.observed_generation >= deployment.metadata.generation
    )


def with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: int
) -> DeploymentStatus:
    """The status with the condition Progressing."""
    if not has_deadline(deployment):
        return replace(status, conditions=without_condition(status.conditions, PROGRESSING))
    current = condition_of(deployment.status.conditions, PROGRESSING)
    if current is not None and current.reason == NEW_AVAILABLE and status.replicas == status.updated_replicas:
        return status
    who = f'Deployment "{deployment.metadata.name}"' if new is None else f'ReplicaSet "{new.metadata.name}"'
    conditions = status.conditions
    if is_complete(deployment, status):
        made = condition(PROGRESSING, "True", NEW_AVAILABLE, f"{who} has successfully progressed.", now)
    elif _has_progressed(deployment.status, status):
        made = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if current is not None:
            if current.status == "True":
                made = replace(made, last_transition_time=current.last_transition_time)
            conditions = without_condition(conditions, PROGRESSING)
    elif is_timed_out(deployment, status, now):
        made = condition(PROGRESSING, "False", TIMED_OUT, f"{who} has timed out progressing.", now)
    else:
        return status
    return replace(status, conditions=with_condition(conditions, made))


def _has_progressed(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def is_timed_out(deployment: Deployment, status: DeploymentStatus, now: int) -> bool:
    """Whether the last progress is longer ago than the deadline."""
    current = condition_of(status.conditions, PROGRESSING)
    seconds = deployment.spec.progress_deadline_seconds
    if current is None or seconds is None or current.reason == NEW_AVAILABLE:
        return False
    return current.reason == TIMED_OUT or current.last_update_time + seconds * SECOND < now


def watch_until(deployment: Deployment, status: DeploymentStatus) -> int | None:
    """When a rollout that makes no progress fails; None if there is nothing to wait for."""
    current = condition_of(deployment.status.conditions, PROGRESSING)
    seconds = deployment.spec.progress_deadline_seconds
    if current is None or seconds is None or not has_deadline(deployment):
        return None
    if is_complete(deployment, status) or current.reason == TIMED_OUT:
        return None
    return current.last_update_time + seconds * SECOND


def with_failures(
    status: DeploymentStatus, replica_sets: Sequence[ReplicaSet], new: ReplicaSet | None
) -> DeploymentStatus:
    """The status with the failure of a ReplicaSet, the new one's before others'."""
    for each in (*((new,) if new is not None else ()), *replica_sets):
        failure = condition_of(each.status.conditions, REPLICA_FAILURE)
        if failure is not None:
            failure = replace(failure, last_update_time=failure.last_transition_time)
            return replace(status, conditions=with_condition(status.conditions, failure))
    if condition_of(status.conditions, REPLICA_FAILURE) is None:
        return status
    return replace(status, conditions=without_condition(status.conditions, REPLICA_FAILURE))
