"""Which pods belong to which disruption budget, counted as they change.

A sync of a budget reads counts and looks at the few pods that are in `status.disruptedPods`; it never goes through all
pods. Membership follows the selector alone: an absent one selects nothing, an empty one every pod of the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stowplan_scheduler.objects import OwnerReference, controller_of, key_of
from stowplan_scheduler.selectors import NOTHING, LabelQuery, SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget
    from stowplan_autoscaling.cluster.pods import ClusterPod

_MOST_LABELS: Final = 4096
"""Label sets that are remembered per namespace."""


class Owner:
    """A controller that some pods of a budget belong to."""

    __slots__ = ("pods", "reference")

    def __init__(self, reference: OwnerReference) -> None:
        self.reference = reference
        self.pods: dict[str, None] = {}
        """Their names, in the order in which they were seen."""


class BudgetPods:
    """The pods of one budget."""

    __slots__ = ("error", "healthy", "owners", "pods", "query", "unmanaged")

    def __init__(self, query: LabelQuery, error: SelectorError | None = None) -> None:
        self.query = query
        self.error = error
        """Why the selector cannot be read; such a budget has no pods."""
        self.pods: dict[str, ClusterPod] = {}
        """By name."""
        self.owners: dict[str, Owner] = {}
        """By uid."""
        self.unmanaged = 0
        """Pods without a controller."""
        self.healthy = 0
        """Ready pods that are not being deleted."""

    @classmethod
    def of(cls, budget: PodDisruptionBudget) -> BudgetPods:
        """An empty index for a budget."""
        try:
            return cls(LabelQuery.of(budget.spec.selector))
        except SelectorError as error:
            return cls(NOTHING, error)

    def set(self, name: str, pod: ClusterPod | None) -> None:
        """Take in what a pod has become; None: it is gone, or no longer one of these."""
        old = self.pods.get(name)
        if old is not None:
            self.healthy -= is_healthy(old)
        if pod is None:
            self.pods.pop(name, None)
        else:
            self.healthy += is_healthy(pod)
            self.pods[name] = pod
        before = None if old is None else controller_of(old.metadata)
        after = None if pod is None else controller_of(pod.metadata)
        self.unmanaged += (pod is not None and after is None) - (old is not None and before is None)
        if before is not None and (after is None or after.uid != before.uid):
            self._leave(name, before)
        if after is not None:
            self._join(name, after)

    def _join(self, name: str, reference: OwnerReference) -> None:
        owner = self.owners.get(reference.uid)
        if owner is None:
            owner = self.owners[reference.uid] = Owner(reference)
        owner.pods[name] = None

    def _leave(self, name: str, reference: OwnerReference) -> None:
        owner = self.owners[reference.uid]
        del owner.pods[name]
        if not owner.pods:
            del self.owners[reference.uid]


def is_healthy(pod: ClusterPod) -> bool:
    """Whether a pod counts as healthy unless its eviction has begun."""
    return pod.deleted is None and pod.is_ready


class BudgetIndex:
    """All budgets of a cluster with their pods. Pods of one template share their labels; they are matched once."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, BudgetPods]] = {}
        self._selecting: dict[str, dict[int, tuple[Mapping[str, str], tuple[str, ...]]]] = {}

    def pods_of(self, budget: PodDisruptionBudget) -> BudgetPods:
        """The pods of a budget."""
        return self._by_namespace[budget.metadata.namespace][key_of(budget.metadata)]

    def add_budget(self, budget: PodDisruptionBudget, pods: Iterable[ClusterPod]) -> None:
        """A new budget, or one whose selector has changed. `pods`: all there are."""
        namespace = budget.metadata.namespace
        found = BudgetPods.of(budget)
        held = {**self._by_namespace.get(namespace, {}), key_of(budget.metadata): found}
        self._by_namespace[namespace] = dict(sorted(held.items()))
        self._selecting.pop(namespace, None)
        for pod in pods:
            if pod.metadata.namespace == namespace and found.query.matches(pod.metadata.labels):
                found.set(pod.metadata.name, pod)

    def remove_budget(self, budget: PodDisruptionBudget) -> None:
        """The budget is gone."""
        namespace = budget.metadata.namespace
        held = self._by_namespace.get(namespace, {})
        held.pop(key_of(budget.metadata), None)
        self._selecting.pop(namespace, None)
        if not held:
            self._by_namespace.pop(namespace, None)

    def set_pod(self, old: ClusterPod | None, new: ClusterPod | None) -> tuple[str, ...]:
        """Take in a change of a pod; returns the keys of the budgets that select it now (or did, if it is gone)."""
        pod = new or old
        if pod is None:
            return ()
        namespace, name, labels = pod.metadata.namespace, pod.metadata.name, pod.metadata.labels
        budgets = self._by_namespace.get(namespace)
        if not budgets:
            return ()
        selecting = self._keys(namespace, labels)
        for key in selecting:
            budgets[key].set(name, new)
        if old is not None and old.metadata.labels is not labels and old.metadata.labels != labels:
            for key in self._keys(namespace, old.metadata.labels):
                if key not in selecting:
                    budgets[key].set(name, None)
        return selecting

    def _keys(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The budgets that select pods with these labels, by name."""
        known = self._selecting.setdefault(namespace, {})
        found = known.get(id(labels))
        if found is None:
            if len(known) >= _MOST_LABELS:
                known.clear()
            budgets = self._by_namespace[namespace].items()
            # The entry holds on to the labels: their id stays taken.
            found = known[id(labels)] = (labels, tuple(key for key, each in budgets if each.query.matches(labels)))
        return found[1]
