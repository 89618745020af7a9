"""What the pods of a Job amount to, and whether it ends by that.

Follows syncJob (pkg/controller/job/job_controller.go of Kubernetes v1.37.2): an end that was decided before stays; then
failures are looked for, then successes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.cluster.objects.batch import FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, is_true
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import PENDING, RUNNING, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import SECOND

from . import indexes
from .backoff import all_failures, counted_failures, finish_time
from .finalizers import has_finalizer
from .policies import find_success, judge_failure

if TYPE_CHECKING:
    from .state import SyncState


def count(state: SyncState) -> None:
    """Successes and failures, those included that are not in the status yet, and the back-off they cause."""
    status, job = state.status, state.job
    succeeded = [pod for pod in _new(state, status.uncounted_succeeded) if pod.status.phase == SUCCEEDED]
    failed = [pod for pod in _new(state, status.uncounted_failed) if state.has_failed(pod)]
    policy = job.spec.pod_failure_policy
    counting = len(failed) if policy is None else sum(judge_failure(policy, pod).counts for pod in failed)
    state.succeeded = status.succeeded + len(succeeded) + len(status.uncounted_succeeded)
    state.failed = status.failed + counting + len(status.uncounted_failed)
    state.record = state.record.after(succeeded, failed)


def _new(state: SyncState, uncounted: tuple[str, ...]) -> list[ClusterPod]:
    """Pods that are neither in the counters nor on the way there."""
    is_indexed = state.job.spec.is_indexed
    return [
        pod
        for pod in state.pods
        if not state.is_counted(pod)
        and pod.metadata.uid not in uncounted
        and (not is_indexed or state.has_valid_index(pod))
    ]


def find_end(state: SyncState) -> None:
    """Set `state.end` if the Job is to end, and the sets of indexes."""
    _find_standing_end(state)
    if state.end is None:
        _find_failure(state)
    if state.job.spec.is_indexed:
        _evaluate_indexes(state)


def _find_standing_end(state: SyncState) -> None:
    """What an earlier sync decided, or a rule of the pod failure policy."""
    conditions = state.status.conditions
    if is_true(state.status, SUCCESS_CRITERIA_MET):
        state.end = condition_of(conditions, SUCCESS_CRITERIA_MET)
        return
    target = condition_of(conditions, FAILURE_TARGET)
    if target is not None and target.status == "True":
        state.end = state.condition(FAILED, "True", target.reason, target.message)
        return
    message = _failing_rule(state)
    if message is not None:
        state.end = state.condition(FAILURE_TARGET, "True", "PodFailurePolicy", message)


def _failing_rule(state: SyncState) -> str | None:
    policy = state.job.spec.pod_failure_policy
    if policy is None:
        return None
    verdicts = (judge_failure(policy, pod) for pod in state.pods if state.has_failed(pod))
    return next((verdict.message for verdict in verdicts if verdict.message is not None), None)


def _fail(state: SyncState, reason: str, message: str) -> None:
    state.end = state.condition(FAILURE_TARGET, "True", reason, message)


def _find_failure(state: SyncState) -> None:
    """Too many failures, or too long a time; else plan the look at the deadline."""
    spec = state.job.spec
    limit = spec.backoff_limit
    if limit is not None and (state.failed > limit or _restarts_exceed(state, limit)):
        _fail(state, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        return
    deadline, start = spec.active_deadline_seconds, state.status.start_time
    if deadline is None or start is None or spec.is_suspended:
        return
    left = start + deadline * SECOND - state.kernel.now
    if left <= 0:
        _fail(state, "DeadlineExceeded", "Job was active longer than specified deadline")
    else:
        state.queue.add_after(state.key, left)


def _restarts_exceed(state: SyncState, limit: int) -> bool:
    """Whether containers that restart in place have failed too often."""
    if state.job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(pod.restarts for pod in state.pods if pod.status.phase in {RUNNING, PENDING})
    return restarts > 0 if limit == 0 else restarts >= limit


# ---- indexed Jobs ----------------------------------------------------------------------------------------------------


def _evaluate_indexes(state: SyncState) -> None:
    completions = state.completions
    state.previous_indexes = indexes.parse(state.status.completed_indexes, completions)
    new = {indexes.index_of(pod) for pod in state.pods if pod.status.phase == SUCCEEDED and _is_eligible(state, pod)}
    state.succeeded_indexes = indexes.with_indexes(state.previous_indexes, new)
    state.succeeded = indexes.total(state.succeeded_indexes)
    if state.limits_indexes:
        _evaluate_failed_indexes(state)
        _find_delayed(state)
    if state.end is None:
        message = find_success(state.job.spec.success_policy, completions, state.succeeded_indexes)
        if message is not None:
            state.end = state.condition(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", message)


def _is_eligible(state: SyncState, pod: ClusterPod) -> bool:
    return has_finalizer(pod) and state.has_valid_index(pod)


def _evaluate_failed_indexes(state: SyncState) -> None:
    spec = state.job.spec
    known = indexes.parse(state.status.failed_indexes or "", state.completions)
    new = {indexes.index_of(pod) for pod in state.pods if _is_eligible(state, pod) and _fails_index(state, pod)}
    failed = state.failed_indexes = indexes.with_indexes(known, new)
    if state.end is not None:
        return
    number = indexes.total(failed)
    if spec.max_failed_indexes is not None and number > spec.max_failed_indexes:
        _fail(state, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    elif number > 0 and number + state.succeeded >= state.completions:
        _fail(state, "FailedIndexes", "Job has failed indexes")


def _fails_index(state: SyncState, pod: ClusterPod) -> bool:
    """Whether the pod's failure is the last that its index may have."""
    if not state.has_failed(pod):
        return False
    verdict = judge_failure(state.job.spec.pod_failure_policy, pod)
    if verdict.action == "FailIndex":
        return True
    return verdict.counts and counted_failures(pod) >= (state.job.spec.backoff_limit_per_index or 0)


def _find_delayed(state: SyncState) -> None:
    """The last failed pod of each index that waits for its next pod."""
    busy = {indexes.index_of(pod) for pod in state.held}
    failed = state.failed_indexes or ()
    for pod in state.pods:
        index = indexes.index_of(pod)
        if state.is_counted(pod) or not state.has_valid_index(pod) or not state.has_failed(pod):
            continue
        if index in busy or indexes.contains(state.succeeded_indexes, index) or indexes.contains(failed, index):
            continue
        known = state.delayed.get(index)
        if known is None or (all_failures(known) <= all_failures(pod) and finish_time(pod) >= finish_time(known)):
            state.delayed[index] = pod
