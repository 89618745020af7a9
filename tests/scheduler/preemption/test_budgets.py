"""Which victims would violate a budget (upstream TestFilterPodsWithPDBViolation has the same cases)."""

from __future__ import annotations

import pytest

from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.objects import PodDisruptionBudget
from stowplan_scheduler.preemption.budgets import Budgets
from support.builders import budget, pod, selector

INTERNER = PodInterner()
APP = selector(app="a")


def infos(*names: str, namespace: str = "default") -> list[PodInfo]:
    return [INTERNER.info(pod(name, namespace).labels(app="a").build()) for name in names]


def split(budgets: list[PodDisruptionBudget], pods: list[PodInfo]) -> tuple[str, str]:
    """The names of the violating pods and of the others, joined."""
    violating, others = Budgets(budgets).split(pods)
    return "".join(p.pod.metadata.name for p in violating), "".join(p.pod.metadata.name for p in others)


@pytest.mark.parametrize(
    ("budgets", "want"),
    [
        pytest.param([], ("", "abc"), id="no budget"),
        pytest.param([budget("g", APP, 0)], ("abc", ""), id="nothing allowed"),
        pytest.param([budget("g", APP, 1)], ("bc", "a"), id="one allowed, the first takes it"),
        pytest.param([budget("g", APP, 3)], ("", "abc"), id="enough allowed"),
        pytest.param([budget("g", APP, 0, disrupted=["b"])], ("ac", "b"), id="an eviction under way is not charged"),
        pytest.param([budget("g", None, 0)], ("", "abc"), id="no selector selects nobody"),
        pytest.param([budget("g", selector(), 0)], ("", "abc"), id="nor does an empty one"),
        pytest.param([budget("g", selector(app="b"), 0)], ("", "abc"), id="another label"),
        pytest.param([budget("g", APP, 0, namespace="other")], ("", "abc"), id="another namespace"),
        pytest.param([budget("g", selector(("app", "Near", ("a",))), 0)], ("", "abc"), id="a selector that is none"),
        pytest.param([budget("g", APP, 2), budget("h", APP, 1)], ("bc", "a"), id="the tighter of two budgets counts"),
        # a and b are within g and violate h; c violates both.
        pytest.param([budget("g", APP, 2), budget("h", APP, 0)], ("abc", ""), id="each budget alone can forbid"),
    ],
)
def test_split(budgets: list[PodDisruptionBudget], want: tuple[str, str]) -> None:
    """Three pods a, b, c of one template, in this order."""
    assert split(budgets, infos("a", "b", "c")) == want


def test_pods_without_labels_are_never_protected() -> None:
    """Not even by a selector that an absent label satisfies (NotIn)."""
    bare = [INTERNER.info(pod("a").build())]
    assert split([budget("g", selector(("app", "NotIn", ("x",))), 0)], bare) == ("", "a")


def test_a_split_charges_nothing_for_the_next_one() -> None:
    """Every node begins with the full allowance."""
    budgets = Budgets([budget("g", APP, 1)])
    for _ in range(2):
        violating, others = budgets.split(infos("a", "b"))
        assert [len(violating), len(others)] == [1, 1]


def test_a_violated_budget_ends_the_charges_of_a_pod() -> None:
    """a overdraws g, so h keeps its one disruption, which b (only in h) then takes."""
    only_h = INTERNER.info(pod("b").labels(app="b", tier="x").build())
    both = INTERNER.info(pod("a").labels(app="a", tier="x").build())
    budgets = [budget("g", APP, 0), budget("h", selector(tier="x"), 1)]
    assert split(budgets, [both, only_h]) == ("a", "b")
