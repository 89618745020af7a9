"""The eviction subresource: whether a pod may be evicted now, and its deletion if so.

Follows pkg/registry/core/pod/storage/eviction.go of Kubernetes v1.37.2. Requests are atomic here, so upstream's retries
after write conflicts never come into play; trying again after a refusal is the caller's affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_scheduler.objects import PodCondition
from stowplan_scheduler.selectors import LabelQuery, SelectorError
from stowplan_scheduler.timestamps import format_time

from .errors import ApiError, ForbiddenError, TooManyRequestsError
from .objects.policy import (
    ALWAYS_ALLOW,
    DISRUPTION_ALLOWED,
    INSUFFICIENT_PODS,
    SYNC_FAILED,
    BudgetCondition,
    PodDisruptionBudget,
)
from .pods import FAILED, PENDING, SUCCEEDED, ClusterPod

if TYPE_CHECKING:
    from .api_server import ApiServer

MOST_DISRUPTED_PODS: Final = 2000
"""Evictions of one budget that the disruption controller has not confirmed yet."""

RETRY_AFTER: Final = 10
"""Seconds; suggested where the budget's status is not up to date."""

DISRUPTION_TARGET: Final = "DisruptionTarget"
EVICTION_BY_EVICTION_API: Final = "EvictionByEvictionAPI"

_KIND: Final = "PodDisruptionBudget"
_REFUSAL: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class EvictionRefusedError(TooManyRequestsError):
    """The budget does not allow it now (429). `retry_after`: seconds, 0 without a suggestion; `cause`: why."""

    def __init__(self, cause: str, retry_after: int = 0) -> None:
        super().__init__(_REFUSAL)
        self.cause = cause
        self.retry_after = retry_after


def evict(server: ApiServer, pod_key: str, now: int, *, grace: int | None = None, dry_run: bool = False) -> None:
    """Evict a pod: charge its budget, mark it as a target of disruption, and delete it.

    `grace`: seconds, by default the pod's own. `dry_run`: change nothing. Raises NotFoundError, EvictionRefusedError,
    and ApiError where several budgets select the pod (500) or too many evictions wait for confirmation (403).
    """
    pod: ClusterPod = server.get("Pod", pod_key)
    if not can_ignore_budgets(pod):
        budgets = budgets_of(server, pod)
        if len(budgets) > 1:
            raise ApiError(_SEVERAL)
        if budgets and not _is_free(pod, budgets[0]):
            _charge(server, budgets[0], pod, now, dry_run=dry_run)
    if not dry_run:
        _mark(server, pod, now)
        server.delete("Pod", pod_key, grace=grace)


def can_ignore_budgets(pod: ClusterPod) -> bool:
    """Whether the pod disrupts nothing any more, or not yet."""
    return pod.deleted is not None or pod.status.phase in {SUCCEEDED, FAILED, PENDING}


def budgets_of(server: ApiServer, pod: ClusterPod) -> list[PodDisruptionBudget]:
    """The budgets that select a pod; one whose selector cannot be read selects nothing."""
    found: list[PodDisruptionBudget] = []
    for budget in server.all(_KIND).values():
        if budget.metadata.namespace == pod.metadata.namespace:
            try:
                query = LabelQuery.of(budget.spec.selector)
            except SelectorError:
                continue
            if query.matches(pod.metadata.labels):
                found.append(budget)
    return found


def _is_free(pod: ClusterPod, budget: PodDisruptionBudget) -> bool:
    """Whether the eviction costs the budget nothing: the pod is unhealthy, and that is no reason to keep it."""
    if pod.is_ready:
        return False
    if budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW:
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _charge(server: ApiServer, budget: PodDisruptionBudget, pod: ClusterPod, now: int, *, dry_run: bool) -> None:
    _check(budget)
    if dry_run:
        return
    status = budget.status
    allowed = status.disruptions_allowed - 1
    stamp = server.stamp(now)
    disrupted = {**(status.disrupted_pods or {}), pod.metadata.name: format_time(now // 10**9 * 10**9)}
    conditions = status.conditions if allowed else _insufficient(status.conditions, status.observed_generation, stamp)
    status = replace(status, disruptions_allowed=allowed, disrupted_pods=disrupted, conditions=conditions)
    server.update_status(_KIND, replace(budget, status=status))


def _check(budget: PodDisruptionBudget) -> None:
    name, status = budget.metadata.name, budget.status
    if status.observed_generation < budget.metadata.generation:
        raise EvictionRefusedError(f"The disruption budget {name} is still being processed by the server.", RETRY_AFTER)
    if status.disruptions_allowed < 0:
        raise ForbiddenError(f'poddisruptionbudget.policy "{name}" is forbidden: pdb disruptions allowed is negative')
    if len(status.disrupted_pods or ()) > MOST_DISRUPTED_PODS:
        raise ForbiddenError(
            f'poddisruptionbudget.policy "{name}" is forbidden: '
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if status.disruptions_allowed == 0:
        raise EvictionRefusedError(_cause(budget))


def _cause(budget: PodDisruptionBudget) -> str:
    name, status = budget.metadata.name, budget.status
    condition = next((each for each in status.conditions if each.type == DISRUPTION_ALLOWED), None)
    message = condition.message if condition is not None and condition.status == "False" else ""
    reason = condition.reason if condition is not None else ""
    if message and reason == SYNC_FAILED:
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if status.current_healthy <= status.desired_healthy:
        return (
            f"The disruption budget {name} needs {status.desired_healthy} healthy pods "
            f"and has {status.current_healthy} currently"
        )
    if message:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _insufficient(conditions: tuple[BudgetCondition, ...], generation: int, stamp: int) -> tuple[BudgetCondition, ...]:
    old = next((each for each in conditions if each.type == DISRUPTION_ALLOWED), None)
    new = BudgetCondition(
        type=DISRUPTION_ALLOWED,
        status="False",
        reason=INSUFFICIENT_PODS,
        observed_generation=generation,
        last_transition_time=old.last_transition_time if old is not None and old.status == "False" else stamp,
    )
    if old is None:
        return (*conditions, new)
    return tuple(new if each is old else each for each in conditions)


def _mark(server: ApiServer, pod: ClusterPod, now: int) -> None:
    """Set the condition DisruptionTarget."""
    conditions = with_disruption_target(pod, EVICTION_BY_EVICTION_API, "Eviction API: evicting", server.stamp(now))
    server.update_status("Pod", replace(pod, status=replace(pod.status, conditions=conditions)))


def with_disruption_target(pod: ClusterPod, reason: str, message: str, stamp: int) -> tuple[PodCondition, ...]:
    """The pod's conditions with DisruptionTarget=True; the time of transition stays if it was True already."""
    old = next((each for each in pod.status.conditions if each.type == DISRUPTION_TARGET), None)
    since = old.last_transition_time if old is not None and old.status == "True" else format_time(stamp)
    new = PodCondition(
        type=DISRUPTION_TARGET, status="True", reason=reason, message=message, last_transition_time=since
    )
    if old is None:
        return (*pod.status.conditions, new)
    return tuple(new if each is old else each for each in pod.status.conditions)
