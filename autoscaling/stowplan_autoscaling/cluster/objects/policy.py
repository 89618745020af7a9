"""PodDisruptionBudget (policy/v1, staging/src/k8s.io/api/policy/v1/types.go of Kubernetes v1.37.2)."""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.objects import PodDisruptionBudget as SchedulerBudget
from stowplan_scheduler.objects import PodDisruptionBudgetSpec as SchedulerBudgetSpec
from stowplan_scheduler.objects import PodDisruptionBudgetStatus as SchedulerBudgetStatus
from stowplan_scheduler.objects.meta import ApiStruct

ALWAYS_ALLOW: Final = "AlwaysAllow"
IF_HEALTHY_BUDGET: Final = "IfHealthyBudget"

DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
SUFFICIENT_PODS: Final = "SufficientPods"
INSUFFICIENT_PODS: Final = "InsufficientPods"
SYNC_FAILED: Final = "SyncFailed"


class BudgetCondition(ApiStruct, frozen=True, kw_only=True):
    """status.conditions[] of a budget; the time is in nanoseconds."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: int = 0


class PodDisruptionBudgetSpec(SchedulerBudgetSpec, frozen=True, kw_only=True):
    """spec of a disruption budget; without a policy for unhealthy pods IfHealthyBudget holds."""

    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(SchedulerBudgetStatus, frozen=True, kw_only=True):
    """status of a disruption budget. The times in `disrupted_pods` are RFC 3339 texts, in whole seconds."""

    observed_generation: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[BudgetCondition, ...] = ()


class PodDisruptionBudget(SchedulerBudget, frozen=True, kw_only=True):
    """A disruption budget. `created`: nanoseconds since 1970."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
    version: int = 0
    created: int = 0
