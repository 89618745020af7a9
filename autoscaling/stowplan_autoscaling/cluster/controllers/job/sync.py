"""One sync of one Job: count, decide, act, write (syncJob of pkg/controller/job/job_controller.go of v1.37.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.batch import SUCCESS_CRITERIA_MET, SUSPENDED
from stowplan_autoscaling.cluster.objects.conditions import condition_of

from .evaluation import count, find_end
from .management import delete_active, manage
from .tracking import Tracker

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.errors import ApiError
    from stowplan_autoscaling.cluster.work_queue import Steps

    from .state import SyncState


def sync_steps(state: SyncState) -> Steps:
    """The whole sync. Raises ApiError."""
    may_manage = state.memory.expectations.are_satisfied(state.key, state.kernel.now)
    count(state)
    if state.status.start_time is None and not state.job.spec.is_suspended:
        state.status = replace(state.status, start_time=state.kernel.now)
    find_end(state)
    failure: ApiError | None = None
    flush = False
    if state.end is not None:
        before = state.active
        deleted, failure = yield from delete_active(state)
        if deleted != before or not may_manage:
            # Pods may be left, or be there without having been seen yet.
            state.end = None
    else:
        if may_manage:
            failure = yield from manage(state)
        if _is_complete(state):
            message = "Reached expected number of succeeded pods"
            state.end = state.condition(SUCCESS_CRITERIA_MET, "True", "CompletionsReached", message)
        elif may_manage:
            flush = _note_suspension(state)
    yield from Tracker(state, flush=_note_numbers(state) or flush).steps()
    if failure is not None:
        raise failure


def _is_complete(state: SyncState) -> bool:
    completions = state.job.spec.completions
    if state.active:
        return False
    return state.succeeded > 0 if completions is None else state.succeeded >= completions


def _note_suspension(state: SyncState) -> bool:
    """The condition Suspended, its event, and the start time that begins anew; returns whether anything changed."""
    suspended = state.job.spec.is_suspended
    old = condition_of(state.status.conditions, SUSPENDED)
    if (old is None and not suspended) or (old is not None and (old.status == "True") == suspended):
        return False
    if suspended:
        made = state.condition(SUSPENDED, "True", "JobSuspended", "Job suspended")
    else:
        made = state.condition(SUSPENDED, "False", "JobResumed", "Job resumed")
    conditions = state.status.conditions
    conditions = (*conditions, made) if old is None else tuple(made if each is old else each for each in conditions)
    start = None if suspended else state.kernel.now
    state.status = replace(state.status, conditions=conditions, start_time=start)
    state.client.event("Job", state.job, "Suspended" if suspended else "Resumed", made.message)
    return True


def _note_numbers(state: SyncState) -> bool:
    """Pods that are active, ready and terminating; returns whether a number changed."""
    old = state.status
    state.status = replace(old, active=state.active, ready=state.ready, terminating=state.terminating)
    return state.status != old
