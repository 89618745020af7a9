"""What disruption budgets (policy/v1) allow, in Karpenter's eyes.

Which budgets are about a pod depends on its shape, and is kept as long as the budgets ask for the same; what they allow
changes with every pod.

Follows pkg/utils/pdb/pdb.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Final, NamedTuple

from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_scheduler.objects import PodDisruptionBudget
from stowplan_scheduler.selectors import LabelQuery

from .pods import is_disruptable, is_evictable
from .shapes import Shape
from .state_nodes import KnownPod

_ALWAYS_ALLOW: Final = "AlwaysAllow"


class _Rule(NamedTuple):
    """What a budget asks for. `spec` is what it was read from."""

    name: str
    namespace: str
    spec: object
    query: LabelQuery
    blocks_fully: bool
    lets_unhealthy_go: bool


class _Suspicion(dict[Shape, bool]):
    """Whether pods of a shape may be blocked, worked out when it is first asked."""

    def __init__(self, limits: BudgetLimits, *, fully: bool) -> None:
        super().__init__()
        self._limits = limits
        self._fully = fully

    def __missing__(self, shape: Shape) -> bool:
        found = self[shape] = self._limits.may_block(shape, fully=self._fully)
        return found


class BudgetLimits:
    """The budgets of the cluster at one moment. `before`: those of another one, for what stays as it was.

    `rules`: what they ask for; `matching`: the numbers of those that are about the pods of a shape.
    """

    rules: Sequence[_Rule]
    matching: dict[Shape, tuple[int, ...]]

    def __init__(self, budgets: Sequence[PodDisruptionBudget], before: BudgetLimits | None = None) -> None:
        known = {} if before is None else {(rule.namespace, rule.name): rule for rule in before.rules}
        self.rules = [_read(budget, known) for budget in budgets]
        self.matching = {}
        if before is not None and len(before.rules) == len(self.rules) and all(map(is_, before.rules, self.rules)):
            self.matching = before.matching
        self._allowed = [budget.status.disruptions_allowed for budget in budgets]
        self._suspects = _Suspicion(self, fully=False)
        self._full_suspects = _Suspicion(self, fully=True)

    @property
    def are_any(self) -> bool:
        """Whether there is a budget at all."""
        return bool(self.rules)

    def may_block(self, shape: Shape, *, fully: bool) -> bool:
        """Whether a pod of the shape may be kept from being evicted: now, or with `fully` for good."""
        matching = self._matching(shape)
        return len(matching) > 1 or any(self._is_used_up(number, fully=fully) for number in matching)

    def _matching(self, shape: Shape) -> tuple[int, ...]:
        known = self.matching.get(shape)
        if known is None:
            known = self.matching[shape] = tuple(
                number
                for number, rule in enumerate(self.rules)
                if rule.namespace == shape.namespace and rule.query.matches(shape.labels)
            )
        return known

    def _is_used_up(self, number: int, *, fully: bool) -> bool:
        return self.rules[number].blocks_fully if fully else self._allowed[number] == 0

    def blocking(self, known: KnownPod, now: int, *, fully: bool) -> tuple[str, ...]:
        """The names of the budgets that keep the pod from being evicted: now, or with `fully` for good.

        More than one matching budget blocks in any case: the API server then refuses evictions.
        """
        suspects = self._full_suspects if fully else self._suspects
        if not self.rules or not suspects[known.shape] or not is_evictable(known.pod, now):
            return ()
        matching = self._matching(known.shape)
        if len(matching) == 1 and self.rules[matching[0]].lets_unhealthy_go:
            ready = condition_of(known.pod.status.conditions, "Ready")
            if ready is not None and ready.status == "False":
                return ()
        return tuple(self.rules[number].name for number in matching)

    def can_evict(self, pods: Iterable[KnownPod], now: int) -> bool:
        """Whether each of the pods could be evicted, perhaps not all at once."""
        if not self.rules:
            return True
        suspects = [known for known in pods if self._suspects[known.shape]]
        return not any(self.blocking(known, now, fully=False) for known in suspects)

    def all_can_go(self, pods: Iterable[KnownPod], now: int) -> bool:
        """Whether no budget keeps one of the pods for good."""
        if not self.rules:
            return True
        suspects = [known for known in pods if self._full_suspects[known.shape]]
        return not any(self.blocking(known, now, fully=True) for known in suspects)

    def is_currently_reschedulable(self, known: KnownPod, now: int) -> bool:
        """Whether capacity is to be found for a pod whose node goes: not if nothing would make it leave."""
        if not known.is_reschedulable or not is_disruptable(known.pod, now):
            return False
        return not self.blocking(known, now, fully=True)


def _read(budget: PodDisruptionBudget, known: dict[tuple[str, str], _Rule]) -> _Rule:
    spec, meta = budget.spec, budget.metadata
    before = known.get((meta.namespace, meta.name))
    if before is not None and before.spec is spec:
        return before
    return _Rule(
        meta.name,
        meta.namespace,
        spec,
        LabelQuery.of(spec.selector),
        spec.max_unavailable in {0, "0%"} or spec.min_available == "100%",
        getattr(spec, "unhealthy_pod_eviction_policy", None) == _ALWAYS_ALLOW,
    )
