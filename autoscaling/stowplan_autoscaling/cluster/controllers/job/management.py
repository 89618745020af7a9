"""As many active pods as a Job wants: manageJob of pkg/controller/job/job_controller.go of Kubernetes v1.37.2."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.client import SlowStart
from stowplan_autoscaling.cluster.errors import ApiError, NotFoundError
from stowplan_autoscaling.cluster.objects.batch import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
)
from stowplan_autoscaling.cluster.pod_template import pod_from_template
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import OwnerReference

from . import indexes
from .backoff import counted_failures, ignored_failures, remaining_for_index
from .finalizers import has_finalizer, remove_finalizer
from .policies import judge_failure
from .removal import pods_to_remove

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.pods import ClusterPod

    from .state import SyncState

MAX_PODS_PER_SYNC: Final = 500
"""Pods made or deleted in one sync."""
MIN_DELAY: Final = SECOND
"""The shortest wait for a back-off: the batch period."""
_MAX_PREFIX: Final = 58
"""Characters of a generated name before the part that the API server adds."""

Outcome = Generator[int, None, "ApiError | None"]
"""Steps that return the first failure."""


def manage(state: SyncState) -> Outcome:
    """Create or delete pods, never both in one sync."""
    spec = state.job.spec
    if spec.is_suspended:
        return (yield from _delete(state, pods_to_remove(state.held, state.active, _completions(state))))
    wanted = _wanted(state)
    surplus = pods_to_remove(state.held, max(0, state.active - wanted), _completions(state))
    if surplus:
        return (yield from _delete(state, surplus[:MAX_PODS_PER_SYNC]))
    missing = wanted - state.active - (state.terminating if spec.replaces_failed_only else 0)
    if missing <= 0:
        return None
    if not state.limits_indexes and _waits(state, state.record.remaining(state.kernel.now)):
        return None
    missing = min(missing, MAX_PODS_PER_SYNC)
    if not spec.is_indexed:
        return (yield from _create(state, (indexes.UNKNOWN,) * missing))
    chosen = _pending_indexes(state, missing)
    if state.limits_indexes:
        chosen, wait = _past_backoff(state, chosen)
        if _waits(state, wait):
            return None
    return (yield from _create(state, chosen))


def _completions(state: SyncState) -> int | None:
    return state.completions if state.job.spec.is_indexed else None


def _wanted(state: SyncState) -> int:
    """How many pods should be active."""
    spec = state.job.spec
    parallelism = spec.parallelism or 0
    if spec.completions is None:
        # The first success decides that the work is done; whatever still runs may finish.
        return state.active if state.succeeded > 0 else parallelism
    return max(0, min(spec.completions - state.succeeded, parallelism))


def _waits(state: SyncState, delay: int) -> bool:
    """Plan the next sync if a back-off is not over."""
    if delay > 0:
        state.queue.add_after(state.key, max(delay, MIN_DELAY))
    return delay > 0


def _pending_indexes(state: SyncState, count: int) -> Sequence[int]:
    """The lowest indexes without a pod and without an end."""
    busy = {indexes.index_of(pod) for pod in state.held}
    if state.job.spec.replaces_failed_only:
        busy.update(indexes.index_of(pod) for pod in state.pods if pod.deleted is not None and not pod.is_terminal)
    busy.discard(indexes.UNKNOWN)
    taken = indexes.with_indexes(state.succeeded_indexes, busy)
    return indexes.first_missing(indexes.merged(taken, state.failed_indexes or ()), count, state.completions)


def _past_backoff(state: SyncState, chosen: Sequence[int]) -> tuple[Sequence[int], int]:
    """Those of the indexes that may have a pod now; if none may, how long until the first may."""
    now = state.kernel.now
    waits = {index: remaining_for_index(state.delayed.get(index), now) for index in chosen}
    free = [index for index, wait in waits.items() if wait == 0]
    return free, 0 if free else min(waits.values(), default=0)


# ---- creating --------------------------------------------------------------------------------------------------------


def _create(state: SyncState, chosen: Sequence[int]) -> Outcome:
    """One pod for each of the indexes, or as many as there are entries."""
    job, client, expectations = state.job, state.client, state.memory.expectations
    expectations.expect(state.key, len(chosen), 0, state.kernel.now)
    meta = job.metadata
    owner = OwnerReference(api_version="batch/v1", kind="Job", name=meta.name, uid=meta.uid, controller=True)
    base = pod_from_template(job.spec.template, meta, owner)
    finalizers = job.spec.template.metadata.finalizers
    if TRACKING_FINALIZER not in finalizers:
        finalizers = (*finalizers, TRACKING_FINALIZER)
    base = replace(base, metadata=replace(base.metadata, finalizers=finalizers))
    waiting = iter(chosen)

    def create() -> None:
        index = next(waiting)
        pod = base if index == indexes.UNKNOWN else _with_index(state, base, index)
        try:
            made: ClusterPod = client.server.create("Pod", pod)
        except ApiError as failure:
            client.event("Job", job, "FailedCreate", f"Error creating: {failure}", warning=True)
            raise
        state.memory.written.wrote(state.key, "Pod", made.version)
        client.event("Job", job, "SuccessfulCreate", f"Created pod: {made.metadata.name}")

    batches = SlowStart(client, len(chosen), create)
    yield from batches.run()
    expectations.lower(state.key, len(chosen) - batches.done, 0)
    state.active += batches.done
    return batches.failure


def _with_index(state: SyncState, base: ClusterPod, index: int) -> ClusterPod:
    meta, text = base.metadata, str(index)
    annotations = {**meta.annotations, COMPLETION_INDEX: text}
    if state.limits_indexes:
        annotations |= _inherited_failures(state, state.delayed.get(index))
    tail = f"-{text}-"
    meta = replace(
        meta,
        labels={**meta.labels, COMPLETION_INDEX: text},
        annotations=annotations,
        generate_name=state.job.metadata.name[: _MAX_PREFIX - len(tail)] + tail,
    )
    return replace(base, metadata=meta)


def _inherited_failures(state: SyncState, replaced: ClusterPod | None) -> dict[str, str]:
    """The annotations by which a pod knows how often its index has failed."""
    if replaced is None:
        return {INDEX_FAILURE_COUNT: "0"}
    counted, ignored = counted_failures(replaced), ignored_failures(replaced)
    if judge_failure(state.job.spec.pod_failure_policy, replaced).counts:
        counted += 1
    else:
        ignored += 1
    made = {INDEX_FAILURE_COUNT: str(counted)}
    return made | {INDEX_IGNORED_FAILURE_COUNT: str(ignored)} if ignored > 0 else made


# ---- deleting --------------------------------------------------------------------------------------------------------


def _delete(state: SyncState, pods: Sequence[ClusterPod]) -> Outcome:
    """Delete pods that are not wanted; they do not count as failures, so their finalizer goes first."""
    expectations = state.memory.expectations
    expectations.expect(state.key, 0, len(pods), state.kernel.now)
    deleted, ready, first = len(pods), 0, None
    for pod in _by_age(state, pods):
        try:
            if has_finalizer(pod):
                yield from state.client.turn()
                stored = remove_finalizer(state.client, pod)
                state.memory.written.wrote(state.key, "Pod", stored.version)
        except NotFoundError:
            expectations.lower(state.key, 0, 1)
            continue
        failure = yield from _delete_pod(state, pod)
        if failure is not None:
            expectations.lower(state.key, 0, 1)
            if not isinstance(failure, NotFoundError):
                deleted -= 1
                first = first or failure
        ready += pod.is_ready
    _gone(state, deleted, ready)
    return first


def _by_age(state: SyncState, pods: Sequence[ClusterPod]) -> list[ClusterPod]:
    """In order of creation: the requests go out together, so which pods are chosen decides, not in which order."""
    chosen = {pod.metadata.uid for pod in pods}
    return [pod for pod in state.pods if pod.metadata.uid in chosen]


def delete_active(state: SyncState) -> Generator[int, None, tuple[int, ApiError | None]]:
    """Delete all active pods because the Job ends, finalizers stay; returns how many were, and the first failure."""
    deleted, ready, first = len(state.held), 0, None
    for pod in state.held:
        failure = yield from _delete_pod(state, pod)
        if failure is not None and not isinstance(failure, NotFoundError):
            deleted -= 1
            first = first or failure
        ready += pod.is_ready
    _gone(state, deleted, ready)
    return deleted, first


def _delete_pod(state: SyncState, pod: ClusterPod) -> Outcome:
    client = state.client
    yield from client.turn()
    try:
        client.server.delete("Pod", pod.key)
    except NotFoundError as failure:
        return failure
    except ApiError as failure:
        client.event("Job", state.job, "FailedDelete", f"Error deleting: {failure}", warning=True)
        return failure
    client.event("Job", state.job, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
    return None


def _gone(state: SyncState, deleted: int, ready: int) -> None:
    state.active -= deleted
    state.terminating += deleted
    state.ready -= ready
