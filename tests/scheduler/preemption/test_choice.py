"""Which of several nodes: each criterion decides only where the ones before it tie."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.framework.pod_info import PodInterner
from stowplan_scheduler.preemption.choice import Candidate, choose_candidate
from stowplan_scheduler.preemption.importance import by_importance
from support.builders import pod

INTERNER = PodInterner()
Victim = tuple[int, int | None]
"""Priority, and the day of December 1999 on which it started (None: not yet)."""


def candidate(name: str, victims: list[Victim], violations: int = 0) -> Candidate:
    infos = []
    for number, (priority, day) in enumerate(victims):
        started = None if day is None else f"1999-12-{day:02d}T00:00:00Z"
        infos.append(INTERNER.info(pod(f"{name}-{number}").priority(priority).on(name, started).build()))
    return Candidate(0, name, tuple(by_importance(infos)), violations)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(candidate("b", [(9, 1), (9, 1)]), candidate("w", [(1, 5)], 1), id="fewer violated budgets"),
        pytest.param(candidate("b", [(1, 1)] * 5), candidate("w", [(2, 5)]), id="lower highest priority"),
        pytest.param(candidate("b", [(5, 1), (1, 1)]), candidate("w", [(5, 9), (2, 9)]), id="lower sum of priorities"),
        # -10 - 10 < -10, but each victim adds 2**31.
        pytest.param(candidate("b", [(-10, 1)]), candidate("w", [(-10, 9), (-10, 9)]), id="few negative victims"),
        pytest.param(candidate("b", [(5, 2), (1, 1)]), candidate("w", [(5, 1), (1, 9)]), id="later start of the top"),
        # The earliest of the top two on each node: 3 against 2.
        pytest.param(candidate("b", [(5, 3), (5, 3)]), candidate("w", [(5, 2), (5, 9)]), id="the earliest counts"),
        pytest.param(candidate("b", [(5, None)]), candidate("w", [(5, 28)]), id="not started is latest"),
    ],
)
def test_the_better_node_is_chosen_wherever_it_stands(better: Candidate, worse: Candidate) -> None:
    """One criterion per case, the later ones pointing the other way where they can."""
    assert choose_candidate([better, worse]).node_name == "b"
    assert choose_candidate([worse, better]).node_name == "b"


def test_fewer_victims_decide_where_the_sums_are_equal() -> None:
    """priority -2**31 adds 0 to the sum, so one victim more can leave the sum as it is."""
    few = candidate("b", [(3, 1)])
    many = candidate("w", [(3, 9), (-(2**31), 9)])
    assert choose_candidate([many, few]).node_name == "b"


def test_the_first_of_equal_nodes_is_chosen() -> None:
    """Upstream walks a map here; candidate order is one of its orders."""
    same = [candidate(name, [(1, 1)]) for name in "abc"]
    for order in permutations(same):
        assert choose_candidate(order) is order[0]


@given(st.lists(st.tuples(st.integers(-5, 5), st.one_of(st.none(), st.integers(1, 28))), max_size=20))
def test_importance_is_a_stable_order(victims: list[Victim]) -> None:
    """Priorities fall, starts rise within a priority, and equal pods keep their places."""
    infos = [
        INTERNER.info(
            pod(f"{at:02d}").priority(p).on("n", None if day is None else f"1999-12-{day:02d}T00:00:00Z").build()
        )
        for at, (p, day) in enumerate(victims)
    ]
    ranks = [
        (-victims[int(i.pod.metadata.name)][0], victims[int(i.pod.metadata.name)][1] or 99, i.key)
        for i in by_importance(infos)
    ]
    assert ranks == sorted(ranks)
    assert len(ranks) == len(victims)
