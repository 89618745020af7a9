"""What a search reads off the rows that are known to fit is what it would find by visiting them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.preemption.world import World
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.search import Found, Search
from support.builders import node, pod

FREE, FULL, SMALL, TAINTED = range(4)


def world_of(kinds: list[int]) -> World:
    """A node of each kind, as a pod of 2 cores sees it."""
    made: list[Any] = []
    for at, kind in enumerate(kinds):
        built = node(f"n{at}").capacity(cpu="1" if kind == SMALL else "4")
        made.append((built.taint("k", "v", "NoSchedule") if kind == TAINTED else built).build())
        if kind == FULL:
            made.append(pod(f"p{at}").req(cpu="3").on(f"n{at}").build())
    return World(*made)


def shown(found: Found) -> tuple[list[int], int, int, int, list[int]]:
    rows = found.rows
    listed = list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()
    return listed, found.count, found.shift, found.failed_count, found.failed.tolist()


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from([FREE, FREE, FULL, SMALL, TAINTED]), min_size=1, max_size=30),
    st.integers(0, 60),
    st.integers(1, 32),
)
def test_the_search_finds_the_same_as_by_visiting(kinds: list[int], start: int, want: int) -> None:
    """Rows in the order of the visits, how many failed, and which."""
    world = world_of(kinds)
    searching = pod("in").req(cpu="2").build()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "fitting", lambda _: None)
        visited = shown(world.search(searching).find(None, start, want))
    search = world.search(searching)
    search.plan.bundle.ensure(world.cluster.table, slice(0, len(kinds)))
    assert search.fitting() is not None
    assert shown(search.find(None, start, want)) == visited


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40), st.integers(1, 6))
def test_answers_recalled_by_amounts_are_those_that_would_be_computed(
    moves: list[tuple[int, bool]], count: int
) -> None:
    """Pods come to and go from nodes of two sizes; verdict and score of every row are followed."""
    world = World(*(node(f"n{at}").capacity(cpu="8" if at % 2 else "4", pods="3").build() for at in range(count)))
    searching = pod("in").req(cpu="2", memory="1Gi").build()
    search = world.search(searching)
    table, bundle = world.cluster.table, search.plan.bundle
    everything = slice(0, count)
    bundle.ensure(table, everything)
    there: list[Any] = []
    for number, (at, comes) in enumerate(moves):
        if comes or not there:
            info = world.interner.info(pod(f"p{number}").req(cpu="1").on(f"n{at % count}").build())
            world.cache.add_pod(info)
            there.append(info)
        else:
            world.cache.remove_pod(there.pop(at % len(there)))
        assert world.search(searching).plan.bundle is bundle
        assert bundle.is_complete
        view = NodeView(table, everything)
        assert bundle.verdicts.tolist() == bundle.judge(view).tolist()
        assert bundle.scores.tolist() == bundle.sum_scores(view).tolist()


def test_pods_that_fail_alike_share_the_verdicts_until_a_row_changes() -> None:
    """Templates differ in labels that no rule reads here; the text counts the nodes anew after a change."""
    world = World(*(node(f"n{at}").capacity(cpu="1").build() for at in range(3)))
    first = world.fail(pod("a").labels(app="a").req(cpu="2").build())
    second = world.fail(pod("b").labels(app="b").req(cpu="2").build())
    assert second.diagnosis.failed is first.diagnosis.failed
    assert second.diagnosis.message() == "0/3 nodes are available: 3 Insufficient cpu."
    world.cache.add_node(node("n3").capacity(cpu="1").taint("k", "v", "NoSchedule").build())
    third = world.fail(pod("c").req(cpu="2").build())
    assert third.diagnosis.failed is not first.diagnosis.failed
    text = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."
    assert third.diagnosis.message() == text
    assert first.diagnosis.message() == "0/3 nodes are available: 3 Insufficient cpu."


@pytest.mark.parametrize("dropped", ["mask", "bundle", "fitting"])
def test_a_plan_made_after_the_memo_dropped_an_entry_hangs_together(dropped: str) -> None:
    """What is brought up to date for a search must be what the rows that fit are read off."""
    world = world_of([FREE, FULL])
    first = world.search(pod("a").labels(app="a").req(cpu="2").build()).plan
    entries = world.profile.memo._entries
    for key in [key for key in entries if isinstance(key, tuple) and key[0] == dropped]:
        del entries[key]
    second = world.search(pod("b").labels(app="b").req(cpu="2").build()).plan
    assert (second.fitting is first.fitting) is (dropped != "fitting")
    assert second.mask is second.fitting.mask
    assert second.bundle is second.fitting.bundle
