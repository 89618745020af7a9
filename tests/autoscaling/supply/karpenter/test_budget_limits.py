"""Which pods disruption budgets keep where they are, and what of that is kept when their status changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from stowplan_autoscaling.supply.karpenter.budget_limits import BudgetLimits
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod
from stowplan_scheduler.objects import ObjectMeta, PodCondition
from support.builders import PodBuilder, selector

from .worlds import NOW, World, pool

WORLD = World(pool())


def known(app: str, *, ready: bool = True, namespace: str = "default") -> KnownPod:
    made = PodBuilder(f"{app}-pod", namespace).labels(app=app, tier="web").on("n").phase("Running").build()
    condition = PodCondition(type="Ready", status="True" if ready else "False")
    made = replace(made, status=replace(made.status, conditions=(condition,)))
    return KnownPod(made, WORLD.engine.shapes.of(made))


def budget(name: str, allowed: int, **spec: Any) -> PodDisruptionBudget:
    """A budget for the app of its name unless `spec` has another selector."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(**{"selector": selector(app=name), **spec}),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


ALL_WEB = {"selector": selector(tier="web")}


@pytest.mark.parametrize(
    ("budgets", "now", "for_good"),
    [
        ([], (), ()),
        ([budget("a", 1)], (), ()),
        ([budget("a", 0)], ("a",), ()),
        ([budget("b", 0)], (), ()),
        ([budget("a", 0, max_unavailable=0)], ("a",), ("a",)),
        ([budget("a", 1, max_unavailable="0%")], (), ("a",)),
        ([budget("a", 0, min_available="100%")], ("a",), ("a",)),
        ([budget("a", 1), budget("all", 1, **ALL_WEB)], ("a", "all"), ("a", "all")),
        ([budget("b", 0), budget("all", 1, **ALL_WEB)], (), ()),
    ],
)
def test_a_budget_blocks_that_is_used_up_and_two_always_do(
    budgets: list[PodDisruptionBudget], now: tuple[str, ...], for_good: tuple[str, ...]
) -> None:
    limits, pod = BudgetLimits(budgets), known("a")
    assert limits.are_any == bool(budgets)
    assert limits.blocking(pod, NOW, fully=False) == now
    assert limits.blocking(pod, NOW, fully=True) == for_good
    assert limits.can_evict([known("b", namespace="other"), pod], NOW) == (not now)
    assert limits.all_can_go([known("b", namespace="other"), pod], NOW) == (not for_good)
    assert limits.is_currently_reschedulable(pod, NOW) == (not for_good)


def test_a_budget_may_let_pods_go_that_are_not_ready() -> None:
    limits = BudgetLimits([budget("a", 0, unhealthy_pod_eviction_policy="AlwaysAllow")])
    assert limits.can_evict([known("a", ready=False)], NOW)
    assert not limits.can_evict([known("a")], NOW)


def test_budgets_whose_status_alone_changed_are_not_matched_with_pods_again() -> None:
    budgets = [budget("a", 1), budget("b", 1)]
    before = BudgetLimits(budgets)
    assert before.can_evict([known("a")], NOW)
    used_up = replace(budgets[0], status=PodDisruptionBudgetStatus(disruptions_allowed=0))
    after = BudgetLimits([used_up, budgets[1]], before)
    assert after.matching is before.matching
    assert not after.can_evict([known("a")], NOW)
    assert before.can_evict([known("a")], NOW)


@pytest.mark.parametrize("seed", range(6))
def test_what_follows_other_budgets_is_what_new_ones_would_be(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    choices: list[dict[str, Any]] = [{}, {"max_unavailable": 0}, {"min_available": "100%"}, ALL_WEB]
    there = {name: budget(name, 1) for name in "abc"}
    pods = [known(app) for app in "abcd"]
    limits = BudgetLimits(list(there.values()))
    for _ in range(40):
        name = str(drawn.choice(list("abcd")))
        if drawn.integers(3) and name in there:
            status = PodDisruptionBudgetStatus(disruptions_allowed=int(drawn.integers(2)))
            there[name] = replace(there[name], status=status)
        elif drawn.integers(3):
            there[name] = budget(name, int(drawn.integers(2)), **choices[drawn.integers(4)])
        else:
            there.pop(name, None)
        limits = BudgetLimits(list(there.values()), limits)
        fresh = BudgetLimits(list(there.values()))
        for pod in pods:
            for fully in (False, True):
                assert limits.blocking(pod, NOW, fully=fully) == fresh.blocking(pod, NOW, fully=fully)
