"""Where no node has a pod of lower priority, all are passed over at once; the outcome is that of visiting each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.preemption.world import World, message
from stowplan_scheduler.framework.search import RowArray
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.preemption.budgets import Budgets
from stowplan_scheduler.preemption.candidates import CandidateSearch, Outcome, potential_nodes
from stowplan_scheduler.preemption.lowest_priority import LowestPriorities
from support.builders import node, pod


class SomebodyEverywhere(LowestPriorities):
    """Says at the first question that every node has a victim, so that each is visited; then the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def below(self, table: Any, rows: Any, priority: int) -> Any:
        truth = super().below(table, rows, priority)
        if not self.asked:
            self.asked = True
            return np.ones(len(rows), np.bool_)
        return truth


def full_world(priorities: list[list[int]]) -> World:
    """One node of 12 cores for each list, filled up with pods of these priorities."""
    made: list[Node | Pod] = []
    for at, present in enumerate(priorities):
        made.append(node(f"n{at}").capacity(cpu="12").build())
        made += [
            pod(f"p{at}-{number}").req(cpu=str(12 // len(present))).priority(priority).on(f"n{at}").build()
            for number, priority in enumerate(present)
        ]
    return World(*made)


def searched(world: World, lowest: LowestPriorities, wanted: int) -> tuple[Outcome, RowArray]:
    failure = world.fail(pod("in").req(cpu="5").priority(10).build())
    rows = potential_nodes(failure.diagnosis)
    assert len(rows) == failure.diagnosis.node_count, "every node may be helped by preemption"
    return CandidateSearch(failure.search, Budgets([]), lowest, wanted).run(rows), rows


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([10, 11, 50, 9, 20]), min_size=1, max_size=3), min_size=1, max_size=40),
    st.booleans(),
    st.integers(1, 5),
)
def test_the_outcome_is_that_of_visiting_every_node(
    priorities: list[list[int]], only_important: bool, wanted: int
) -> None:
    """Rows, verdicts, statuses, candidates and errors, with and without anybody to drive out."""
    if only_important:
        priorities = [[max(priority, 10) for priority in present] for present in priorities]
    quick, _ = searched(full_world(priorities), LowestPriorities(), wanted)
    slow, _ = searched(full_world(priorities), SomebodyEverywhere(), wanted)
    assert quick.statuses == slow.statuses
    assert repr(quick.candidates) == repr(slow.candidates)
    assert quick.errors == slow.errors
    mine, theirs = (outcome.diagnosis(len(priorities)) for outcome in (quick, slow))
    assert mine.rows.tolist() == theirs.rows.tolist()
    assert mine.verdicts.tolist() == theirs.verdicts.tolist()
    assert mine.message() == theirs.message()


def test_no_node_is_visited_where_nobody_is_less_important(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal priority is not lower."""

    def visit(self: CandidateSearch, rows: RowArray) -> None:
        raise AssertionError("visited")

    monkeypatch.setattr(CandidateSearch, "_visit", visit)
    world = full_world([[10, 11], [20], [10]])
    outcome, rows = searched(world, LowestPriorities(), 3)
    assert outcome.diagnosis(3).rows.tolist() == rows.tolist() == [0, 1, 2]
    assert outcome.candidates == []
    with pytest.raises(AssertionError, match="visited"):
        searched(full_world([[10, 11], [9]]), LowestPriorities(), 3)


def test_the_message_counts_every_node() -> None:
    """As kube-scheduler words it."""
    result = full_world([[10], [20, 30], [10]]).preempt(pod("in").req(cpu="1").priority(10))
    assert message(result) == ("preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.")
