"""What disruption budgets (policy/v1) allow, in Karpenter's eyes.

Follows pkg/utils/pdb/pdb.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_scheduler.objects import Pod, PodDisruptionBudget
from stowplan_scheduler.selectors import LabelQuery

from .pods import is_disruptable, is_evictable, is_reschedulable

_ALWAYS_ALLOW: Final = "AlwaysAllow"


class _Budget(NamedTuple):
    name: str
    namespace: str
    query: LabelQuery
    allowed: int
    blocks_fully: bool
    lets_unhealthy_go: bool


class BudgetLimits:
    """The budgets of the cluster at one moment."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = [_read(budget) for budget in budgets]

    @property
    def are_any(self) -> bool:
        """Whether there is a budget at all."""
        return bool(self._budgets)

    def blocking(self, pod: Pod, now: int, *, fully: bool) -> tuple[str, ...]:
        """The names of the budgets that keep the pod from being evicted: now, or with `fully` for good.

        More than one matching budget blocks in any case: the API server then refuses evictions.
        """
        if not self._budgets or not is_evictable(pod, now):
            return ()
        meta = pod.metadata
        matching = [b for b in self._budgets if b.namespace == meta.namespace and b.query.matches(meta.labels)]
        if len(matching) > 1:
            return tuple(budget.name for budget in matching)
        for budget in matching:
            ready = condition_of(pod.status.conditions, "Ready")
            if budget.lets_unhealthy_go and ready is not None and ready.status == "False":
                return ()
            if budget.blocks_fully if fully else budget.allowed == 0:
                return (budget.name,)
        return ()

    def can_evict(self, pods: Iterable[Pod], now: int) -> bool:
        """Whether each of the pods could be evicted, perhaps not all at once."""
        return not any(self.blocking(pod, now, fully=False) for pod in pods)

    def is_currently_reschedulable(self, pod: Pod, now: int) -> bool:
        """Whether capacity is to be found for a pod whose node goes: not if nothing would make it leave."""
        if not is_reschedulable(pod) or not is_disruptable(pod, now):
            return False
        return not self.blocking(pod, now, fully=True)


def _read(budget: PodDisruptionBudget) -> _Budget:
    spec = budget.spec
    return _Budget(
        budget.metadata.name,
        budget.metadata.namespace,
        LabelQuery.of(spec.selector),
        budget.status.disruptions_allowed,
        spec.max_unavailable in {0, "0%"} or spec.min_available == "100%",
        getattr(spec, "unhealthy_pod_eviction_policy", None) == _ALWAYS_ALLOW,
    )
