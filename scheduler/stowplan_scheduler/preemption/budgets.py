"""Which victims would violate a PodDisruptionBudget.

Budgets are a preference of preemption only: pods that they protect are spared first, and nodes without violations are
preferred. Follows FilterVictimsWithPDBViolation of pkg/scheduler/framework/preemption/util.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan_scheduler.framework.pod_info import PodInfo, PodShape
from stowplan_scheduler.objects import PodDisruptionBudget
from stowplan_scheduler.selectors import LabelQuery, SelectorError


class Budgets:
    """The budgets during one attempt. Where a pod has several, they are asked in the order given.

    A budget without selector, with an empty one or with one that cannot be read protects nothing.
    """

    __slots__ = ("_allowed", "_by_namespace", "_disrupted", "_of_shape")

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._allowed: list[int] = []
        self._disrupted: list[frozenset[str]] = []
        self._by_namespace: dict[str, list[tuple[int, LabelQuery]]] = {}
        self._of_shape: dict[PodShape, tuple[int, ...]] = {}
        for budget in budgets:
            self._add(budget)

    def _add(self, budget: PodDisruptionBudget) -> None:
        try:
            query = LabelQuery.of(budget.spec.selector)
        except SelectorError:
            return
        if query.nothing or query.is_empty:
            return
        number = len(self._allowed)
        self._allowed.append(budget.status.disruptions_allowed)
        self._disrupted.append(frozenset(budget.status.disrupted_pods or ()))
        self._by_namespace.setdefault(budget.metadata.namespace, []).append((number, query))

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """(violating, others), both in the given order, if the pods were evicted one after the other."""
        if not self._by_namespace:
            return [], list(pods)
        left: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if self._violates(pod, left) else others).append(pod)
        return violating, others

    def _violates(self, pod: PodInfo, left: dict[int, int]) -> bool:
        """Charge the pod to its budgets, up to the first that is overdrawn; `left` is what others left of them."""
        for number in self._protecting(pod.shape):
            if pod.pod.metadata.name in self._disrupted[number]:
                # The API server has charged this eviction already.
                continue
            rest = left.get(number, self._allowed[number]) - 1
            left[number] = rest
            if rest < 0:
                return True
        return False

    def _protecting(self, shape: PodShape) -> tuple[int, ...]:
        found = self._of_shape.get(shape)
        if found is None:
            labels = shape.labels
            listed = self._by_namespace.get(shape.namespace, ()) if labels else ()
            found = self._of_shape[shape] = tuple(number for number, query in listed if query.matches(labels))
        return found
