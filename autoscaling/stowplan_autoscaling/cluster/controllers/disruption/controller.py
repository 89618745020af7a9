"""The disruption controller: keeps the status of every PodDisruptionBudget, and tidies up after evictions that failed.

Follows pkg/controller/disruption/disruption.go and staging/src/k8s.io/component-helpers/apps/poddisruptionbudget of
Kubernetes v1.37.2. A pod that several budgets select wakes one of them only; upstream takes an arbitrary one, here it
is the first by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError, ConflictError
from stowplan_autoscaling.cluster.int_or_percent import scaled_value
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.objects.policy import (
    DISRUPTION_ALLOWED,
    INSUFFICIENT_PODS,
    SUFFICIENT_PODS,
    SYNC_FAILED,
    BudgetCondition,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import MINUTE
from stowplan_scheduler.objects import PodCondition, key_of
from stowplan_scheduler.objects.meta import LabelSelector
from stowplan_scheduler.timestamps import format_time, parse_time

from .budget_pods import BudgetIndex, BudgetPods, is_healthy
from .expected_scale import ExpectedScaleError, expected_scale

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "PodDisruptionBudget"

DELETION_TIMEOUT: Final = 2 * MINUTE
"""How long an eviction may take from its approval to the deletion of the pod."""

STALE_DISRUPTION_TIMEOUT: Final = 2 * MINUTE
"""How long a pod that nobody deletes may be called a target of disruption."""

DISRUPTION_TARGET: Final = "DisruptionTarget"
TERMINATION_BY_KUBELET: Final = "TerminationByKubelet"


class DisruptionController:
    """All budgets of a cluster. Needs an informer of Pod and PodDisruptionBudget, and of the kinds that own pods."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 1) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._index = BudgetIndex()
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        self._recheck = WorkQueue(kernel, self._look_again)
        self._stale = WorkQueue(kernel, self.sync_stale)
        informers.handle("Pod", self._pod_changed)
        informers.handle(KIND, self._budget_changed)

    # ---- what wakes it -----------------------------------------------------------------------

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        budget = new or old
        if budget is None:
            return
        if new is None:
            self._index.remove_budget(budget)
        elif old is None or old.spec.selector != new.spec.selector:
            self._index.add_budget(budget, self._informers.all("Pod").values())
        self.queue.add(key_of(budget.metadata))

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        selecting = self._index.set_pod(old, new)
        if selecting:
            if len(selecting) > 1:
                self._complain_of_several(new or old, selecting[0])
            self.queue.add(selecting[0])
        if new is not None and new.status.conditions:
            wait = self._stale_in(new)
            if wait is not None:
                self._stale.add_after(new.key, wait)

    def _complain_of_several(self, pod: ClusterPod | None, chosen: str) -> None:
        if pod is None:
            return
        meta = pod.metadata
        name = chosen.rpartition("/")[2]
        self._client.event(
            "Pod",
            pod,
            "MultiplePodDisruptionBudgets",
            f'Pod "{meta.namespace}"/"{meta.name}" matches multiple PodDisruptionBudgets.  Chose "{name}" arbitrarily.',
            warning=True,
        )

    def _look_again(self, key: str) -> None:
        self.queue.add_rate_limited(key)

    # ---- one sync ----------------------------------------------------------------------------

    def sync(self, key: str) -> Steps | None:
        """Bring the status of one budget up to date. Raises ApiError to be called again."""
        budget: PodDisruptionBudget | None = self._informers.get(KIND, key)
        if budget is None:
            return None
        pods = self._index.pods_of(budget)
        if pods.error is not None:
            self._client.event(KIND, budget, "NoPods", f"Failed to get pods: {pods.error}", warning=True)
            return self._fail_safe(budget, str(pods.error))
        if not pods.pods:
            self._client.event(KIND, budget, "NoPods", "No matching pods found")
        try:
            expected, desired, counts_owners = self._expected(budget, pods)
        except (ExpectedScaleError, ValueError) as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._client.event(KIND, budget, "CalculateExpectedPodCountFailed", message, warning=True)
            return self._fail_safe(budget, str(error))
        if counts_owners and pods.unmanaged:
            self._client.event(KIND, budget, "UnmanagedPods", _unmanaged_text(budget), warning=True)
        return self._settle(budget, pods, expected, desired)

    def _expected(self, budget: PodDisruptionBudget, pods: BudgetPods) -> tuple[int, int, bool]:
        """(expected pods, desired healthy pods, whether the scales of the owners count).

        Raises ExpectedScaleError, and ValueError for a share that is none.
        """
        spec = budget.spec
        if spec.max_unavailable is None and isinstance(spec.min_available, int):
            return len(pods.pods), spec.min_available, False
        if spec.max_unavailable is None and spec.min_available is None:
            return 0, 0, False
        scale = expected_scale(pods, budget.metadata.namespace, self._informers, self._client.server)
        if spec.max_unavailable is not None:
            return scale, max(0, scale - scaled_value(spec.max_unavailable, scale, round_up=True)), True
        return scale, scaled_value(spec.min_available or 0, scale, round_up=True), True

    def _settle(self, budget: PodDisruptionBudget, pods: BudgetPods, expected: int, desired: int) -> Steps | None:
        disrupted, healthy, recheck = self._disrupted(budget, pods)
        allowed = healthy - desired if expected > 0 and healthy > desired else 0
        status = PodDisruptionBudgetStatus(
            current_healthy=healthy,
            desired_healthy=desired,
            expected_pods=expected,
            disruptions_allowed=allowed,
            disrupted_pods=disrupted or None,
            observed_generation=budget.metadata.generation,
            conditions=budget.status.conditions,
        )
        wait = None if recheck is None else recheck - self._kernel.now
        if _is_up_to_date(budget.status, status):
            self._plan_recheck(budget, wait)
            return None
        return self._write(budget, replace(status, conditions=self._allowed_condition(status)), wait)

    def _plan_recheck(self, budget: PodDisruptionBudget, wait: int | None) -> None:
        if wait is not None:
            self._recheck.add_after(key_of(budget.metadata), wait)

    def _disrupted(self, budget: PodDisruptionBudget, pods: BudgetPods) -> tuple[dict[str, str], int, int | None]:
        """(evicted pods whose deletion is still to come, healthy pods without them, when the first is overdue)."""
        now = self._kernel.now
        kept: dict[str, str] = {}
        healthy = pods.healthy
        recheck: int | None = None
        for name, text in (budget.status.disrupted_pods or {}).items():
            pod = pods.pods.get(name)
            if pod is None or pod.deleted is not None:
                continue
            due = parse_time(text) + DELETION_TIMEOUT
            if due < now:
                namespace = budget.metadata.namespace
                message = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                self._client.event("Pod", pod, "NotDeleted", message, warning=True)
                continue
            kept[name] = text
            recheck = due if recheck is None else min(recheck, due)
            if due > now and is_healthy(pod):
                healthy -= 1
        return kept, healthy, recheck

    # ---- writing -----------------------------------------------------------------------------

    def _write(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus, wait: int | None) -> Steps:
        yield from self._client.turn()
        try:
            self._client.server.update_status(KIND, replace(budget, status=status))
        except ConflictError:
            raise
        except ApiError as error:
            yield from self._fail_safe(budget, str(error))
        else:
            self._plan_recheck(budget, wait)

    def _fail_safe(self, budget: PodDisruptionBudget, message: str) -> Steps:
        """Whatever has gone wrong: allow no eviction until it is known how many there may be."""
        old = budget.status
        condition = BudgetCondition(
            type=DISRUPTION_ALLOWED,
            status="False",
            reason=SYNC_FAILED,
            message=message,
            observed_generation=old.observed_generation,
        )
        conditions = self._with_condition(old.conditions, condition)
        yield from self._client.turn()
        status = replace(old, disruptions_allowed=0, conditions=conditions)
        self._client.server.update_status(KIND, replace(budget, status=status))

    def _allowed_condition(self, status: PodDisruptionBudgetStatus) -> tuple[BudgetCondition, ...]:
        is_allowed = status.disruptions_allowed > 0
        condition = BudgetCondition(
            type=DISRUPTION_ALLOWED,
            status="True" if is_allowed else "False",
            reason=SUFFICIENT_PODS if is_allowed else INSUFFICIENT_PODS,
            observed_generation=status.observed_generation,
        )
        return self._with_condition(status.conditions, condition)

    def _with_condition(
        self, conditions: tuple[BudgetCondition, ...], new: BudgetCondition
    ) -> tuple[BudgetCondition, ...]:
        """The condition set; its time of transition changes with its status only."""
        old = condition_of(conditions, DISRUPTION_ALLOWED)
        changed = old is None or old.status != new.status
        since = self._client.server.stamp(self._kernel.now) if old is None or changed else old.last_transition_time
        new = replace(new, last_transition_time=since)
        if old is None:
            return (*conditions, new)
        return tuple(new if each is old else each for each in conditions)

    # ---- pods that were to be evicted, and were not ------------------------------------------

    def _stale_in(self, pod: ClusterPod) -> int | None:
        """In how many nanoseconds the pod's DisruptionTarget is to be taken back; None: it is not."""
        if pod.deleted is not None or pod.status.phase in {SUCCEEDED, FAILED}:
            return None
        for condition in pod.status.conditions:
            if condition.type == DISRUPTION_TARGET:
                if condition.status != "True" or condition.reason == TERMINATION_BY_KUBELET:
                    return None
                since = parse_time(condition.last_transition_time) if condition.last_transition_time else 0
                return max(0, since + STALE_DISRUPTION_TIMEOUT - self._kernel.now)
        return None

    def sync_stale(self, key: str) -> Steps | None:
        """Take DisruptionTarget back from a pod that nobody has deleted for 2 min. Raises ApiError."""
        pod: ClusterPod | None = self._informers.get("Pod", key)
        wait = None if pod is None else self._stale_in(pod)
        if pod is None or wait is None:
            return None
        if wait > 0:
            self._stale.add_after(key, wait)
            return None
        return self._take_back(pod)

    def _take_back(self, pod: ClusterPod) -> Steps:
        now = format_time(self._client.server.stamp(self._kernel.now))
        reset = PodCondition(type=DISRUPTION_TARGET, status="False", last_transition_time=now)
        conditions = tuple(reset if each.type == DISRUPTION_TARGET else each for each in pod.status.conditions)
        yield from self._client.turn()
        self._client.server.update_status("Pod", replace(pod, status=replace(pod.status, conditions=conditions)))


def _is_up_to_date(old: PodDisruptionBudgetStatus, new: PodDisruptionBudgetStatus) -> bool:
    if replace(old, disrupted_pods=old.disrupted_pods or None) != new:
        return False
    condition = condition_of(old.conditions, DISRUPTION_ALLOWED)
    if condition is None:
        return False
    wanted = ("True", SUFFICIENT_PODS) if new.disruptions_allowed > 0 else ("False", INSUFFICIENT_PODS)
    return (condition.status, condition.reason) == wanted


def _unmanaged_text(budget: PodDisruptionBudget) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {_selector_text(budget.spec.selector)}) were found "
        "to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in "
        'undefined behavior. To account for these pods please set ".spec.minAvailable" '
        "field of the PDB to an integer value."
    )


def _selector_text(selector: LabelSelector | None) -> str:
    """As Go prints it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {text}," for key, text in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
