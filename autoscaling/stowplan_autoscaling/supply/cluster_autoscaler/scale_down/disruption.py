"""What disruption budgets still allow while removals are imagined one after the other.

Follows pkg/core/scaledown/pdb/basic.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import PodDisruptionBudget
from stowplan_scheduler.selectors import LabelQuery, SelectorError


class _Budget:
    __slots__ = ("allowed", "namespace", "query")

    def __init__(self, budget: PodDisruptionBudget) -> None:
        """Raises SelectorError."""
        self.namespace = budget.metadata.namespace
        self.query = LabelQuery.of(budget.spec.selector)
        self.allowed = budget.status.disruptions_allowed


class RemainingBudgets:
    """The budgets of a loop with the disruptions that are left. One whose selector cannot be read selects nothing."""

    __slots__ = ("_budgets", "_by_shape")

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._budgets: list[_Budget] = []
        self._by_shape: dict[int, list[_Budget]] = {}
        for budget in budgets:
            try:
                self._budgets.append(_Budget(budget))
            except SelectorError:
                continue

    def _matching(self, pod: PodInfo) -> list[_Budget]:
        if not self._budgets:
            return []
        shape = pod.shape
        found = self._by_shape.get(shape.number)
        if found is None:
            found = self._by_shape[shape.number] = [
                each for each in self._budgets if each.namespace == shape.namespace and each.query.matches(shape.labels)
            ]
        return found

    def selects(self, pod: PodInfo) -> bool:
        """Whether any budget is about the pod."""
        return bool(self._matching(pod))

    def forbids(self, pod: PodInfo) -> bool:
        """Whether a budget has no disruption left for the pod."""
        return any(budget.allowed < 1 for budget in self._matching(pod))

    def allows_in_parallel(self, pods: Sequence[PodInfo]) -> bool:
        """Whether all of the pods may be evicted at once."""
        counts: dict[int, int] = {}
        for pod in pods:
            for budget in self._matching(pod):
                counts[id(budget)] = count = counts.get(id(budget), 0) + 1
                if budget.allowed < count:
                    return False
        return True

    def remove(self, pods: Iterable[PodInfo]) -> None:
        """The pods are evicted."""
        for pod in pods:
            for budget in self._matching(pod):
                budget.allowed -= 1
