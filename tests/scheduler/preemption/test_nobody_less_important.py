"""Where no node has a pod of lower priority, all are passed over at once; the outcome is that of visiting each."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.preemption.world import World, message
from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.cache.snapshot import NO_PODS, Snapshot
from stowplan_scheduler.framework.pod_info import PodInterner
from stowplan_scheduler.framework.search import RowArray
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.preemption.candidates import CandidateSearch
from stowplan_scheduler.preemption.lowest_priority import LowestPriorities
from support.builders import node, pod


def full_world(priorities: list[list[int]], *others: Node | Pod) -> World:
    """One node of 12 cores for each list, filled up with pods of these priorities."""
    made = list(others)
    for at, present in enumerate(priorities):
        made.append(node(f"n{at}").capacity(cpu="12").build())
        made += [
            pod(f"p{at}-{number}").req(cpu=str(12 // len(present))).priority(priority).on(f"n{at}").build()
            for number, priority in enumerate(present)
        ]
    return World(*made)


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([10, 11, 50, 9, 20]), min_size=1, max_size=3), min_size=1, max_size=40),
    st.booleans(),
)
def test_the_outcome_is_that_of_visiting_every_node(priorities: list[list[int]], only_important: bool) -> None:
    """Status, node and victims, with and without anybody to drive out."""
    if only_important:
        priorities = [[max(priority, 10) for priority in present] for present in priorities]
    quick = full_world(priorities).preempt(pod("in").req(cpu="5").priority(10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LowestPriorities, "any_below", lambda *_: True)
        slow = full_world(priorities).preempt(pod("in").req(cpu="5").priority(10))
    assert repr(quick) == repr(slow)


@pytest.mark.parametrize("also_elsewhere", [False, True], ids=["nowhere", "on a node that is too small anyway"])
def test_no_node_is_visited_where_nobody_is_less_important(
    also_elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal priority is not lower."""

    def visit(self: CandidateSearch, rows: RowArray) -> None:
        raise AssertionError("visited")

    monkeypatch.setattr(CandidateSearch, "_visit", visit)
    wanted = pod("in").req(cpu="5").priority(10)
    others = [node("small").capacity(cpu="1").build(), pod("low").priority(1).on("small").build()]
    world = full_world([[10, 11], [20], [10]], *(others if also_elsewhere else ()))
    assert message(world.preempt(wanted)).startswith(f"preemption: 0/{3 + also_elsewhere} nodes are available")
    with pytest.raises(AssertionError, match="visited"):
        full_world([[10, 11], [9]]).preempt(wanted)


def test_the_snapshot_knows_the_lowest_priority_of_all_pods() -> None:
    """It follows pods that come and go; without pods nobody is less important than anybody."""
    cache, snapshot = Cache(), Snapshot()
    interner = PodInterner()
    low, high = (interner.info(pod(f"p{number}").priority(number).on("n").build()) for number in (-5, 7))
    assert snapshot.lowest_priority < -(1 << 31), "of a snapshot that was never taken anything may be true"
    seen = []
    for info, comes in ((high, True), (low, True), (low, False), (high, False)):
        if comes:
            cache.add_pod(info)
        else:
            cache.remove_pod(info)
        cache.update_snapshot(snapshot)
        seen.append(snapshot.lowest_priority)
    assert seen == [7, -5, 7, NO_PODS]


def test_the_message_counts_every_node() -> None:
    """As kube-scheduler words it."""
    result = full_world([[10], [20, 30], [10]]).preempt(pod("in").req(cpu="1").priority(10))
    assert message(result) == ("preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.")
