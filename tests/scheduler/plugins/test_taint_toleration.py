"""Tests of TaintToleration. Normalised scores: the largest becomes 100, then 100 minus that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import Node
from stowplan_scheduler.plugins.taint_toleration import TaintToleration
from stowplan_scheduler.tolerations import find_untolerated_taint
from support.builders import node, pod
from support.tables import World, ask, info_of


def world() -> World:
    """A clean node and one per effect."""
    return World(
        [
            node("clean").build(),
            node("no-schedule").taint("team", "a").build(),
            node("no-execute").taint("team", "a", "NoExecute").build(),
            node("prefer-not").taint("team", "a", "PreferNoSchedule").build(),
        ]
    )


def test_hard_taints_refuse_and_soft_ones_do_not() -> None:
    """The reason names no taint, since v1.35."""
    verdicts = world().verdicts(TaintToleration(), pod("p").build())
    refused = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert [status.code for status in verdicts] == [Code.SUCCESS, refused, refused, Code.SUCCESS]
    assert verdicts[1].message == "node(s) had untolerated taint(s)"


def test_a_toleration_opens_the_effects_that_it_names() -> None:
    """An empty effect stands for all of them."""
    assert world().passing(TaintToleration(), pod("p").tolerate("team", "a", effect="NoSchedule").build()) == [
        "clean",
        "no-schedule",
        "prefer-not",
    ]
    assert len(world().passing(TaintToleration(), pod("p").tolerate("team", "a").build())) == 4
    assert world().passing(TaintToleration(), pod("p").tolerate("team", "b").build()) == ["clean", "prefer-not"]


def test_one_untolerated_taint_among_tolerated_ones_refuses() -> None:
    """All hard taints count, in whatever order."""
    here = World([node("n").taint("x").taint("y").build()])
    assert here.passing(TaintToleration(), pod("p").tolerate("x").build()) == []
    assert here.passing(TaintToleration(), pod("p").tolerate("x").tolerate("y").build()) == ["n"]


def test_score_counts_untolerated_soft_taints() -> None:
    """Raw 0, 1, 3 become 100, 67, 0: 100 * 1 // 3 = 33, reversed."""
    soft = "PreferNoSchedule"
    here = World(
        [
            node("none").build(),
            node("one").taint("a", "", soft).build(),
            node("three").taint("a", "", soft).taint("b", "", soft).taint("c", "", soft).build(),
        ]
    )
    assert here.raw_scores(TaintToleration(), pod("p").build()) == [0, 1, 3]
    assert here.scores(TaintToleration(), pod("p").build()) == [100, 67, 0]


def test_without_soft_taints_every_node_scores_100() -> None:
    """The plugin never skips scoring."""
    assert world().scores(TaintToleration(), pod("p").tolerate("team").build()) == [100, 100, 100, 100]


def test_a_toleration_for_hard_effects_does_not_count_for_the_score() -> None:
    """Only tolerations with an empty effect or PreferNoSchedule are collected."""
    here = World([node("n").taint("a", "", "PreferNoSchedule").build()])
    assert here.raw_scores(TaintToleration(), pod("p").tolerate("a", effect="NoSchedule").build()) == [1]
    assert here.raw_scores(TaintToleration(), pod("p").tolerate("a", effect="PreferNoSchedule").build()) == [0]
    assert here.raw_scores(TaintToleration(), pod("p").tolerate("a").build()) == [0]


def test_prepared_state_answers_for_taints_that_appear_later() -> None:
    """The memo keeps a state while nodes come and change: new taint sets get new codes."""
    here = World([node("a").build()])
    plugin = TaintToleration()
    state = plugin.pre_filter(here.info(pod("p").build()), here.cluster).state
    assert list(plugin.filter(state, here.view())) == [0]
    here.cache.add_node(node("b").taint("new").build())
    here.refresh()
    assert [bool(reason) for reason in plugin.filter(state, here.view())] == [False, True]


def test_keys_leave_out_what_the_rule_does_not_read() -> None:
    """Pods that differ in requests, or in how long they tolerate, share verdicts."""
    plugin = TaintToleration()
    one = info_of(pod("p").req(cpu="1").tolerate("a", effect="NoExecute").build())
    other = info_of(pod("q").tolerate("a", effect="NoExecute").build())
    assert plugin.filter_key(one) == plugin.filter_key(other)
    assert plugin.score_key(one) == plugin.score_key(info_of(pod("r").build()))


def test_node_change_helps_when_the_last_untolerated_taint_goes() -> None:
    """An added node counts as tainted before."""
    on_node, on_toleration = TaintToleration().events()
    info = info_of(pod("p").tolerate("mine").build())
    clean, tainted = node("n").build(), node("n").taint("theirs").build()
    assert ask(on_node.hint, info, tainted, clean) is Hint.QUEUE
    assert ask(on_node.hint, info, tainted, node("n").taint("mine").build()) is Hint.QUEUE
    assert ask(on_node.hint, info, None, clean) is Hint.QUEUE
    assert ask(on_node.hint, info, None, tainted) is Hint.SKIP
    assert ask(on_node.hint, info, clean, clean) is Hint.SKIP
    assert ask(on_toleration.hint, info) is Hint.QUEUE


taints = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["", "v"]),
        st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ),
    max_size=3,
)


def tainted_node(index: int, wanted: list[tuple[str, str, str]]) -> Node:
    """A node with those taints."""
    built = node(f"n{index}")
    for taint in wanted:
        built.taint(*taint)
    return built.build()


@given(
    st.lists(taints, min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["", "v"])), max_size=2),
)
def test_vector_rule_agrees_with_the_scalar_one(
    sets: list[list[tuple[str, str, str]]], own: list[tuple[str, str]]
) -> None:
    """Codes and gathering must not change what a node by node check says."""
    nodes = [tainted_node(i, wanted) for i, wanted in enumerate(sets)]
    wanting = pod("p")
    for key, value in own:
        wanting.tolerate(key, value)
    built = wanting.build()
    expected = [n.metadata.name for n in nodes if find_untolerated_taint(n.spec.taints, built.spec.tolerations) is None]
    assert World(nodes).passing(TaintToleration(), built) == expected
