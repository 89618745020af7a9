"""Tests of NodeName."""

from __future__ import annotations

from stowplan_scheduler.framework.cluster_event import NODE_ADD
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.plugins.node_name import NodeName
from support.builders import node, pod
from support.tables import World


def world() -> World:
    """Three nodes."""
    return World([node(name).build() for name in ("a", "b", "c")])


def test_pod_without_a_node_name_passes_everywhere_and_restricts_nothing() -> None:
    """PreFilter is plain success, not Skip: the plugin stays in the list of those that filter."""
    result = NodeName().pre_filter(world().info(pod("p").build()), world().cluster)
    assert result.status.is_success
    assert result.node_names is None
    assert world().passing(NodeName(), pod("p").build()) == ["a", "b", "c"]


def test_named_node_alone_passes_and_preemption_cannot_help_elsewhere() -> None:
    """Since v1.37 PreFilter restricts the search as well."""
    wanting = pod("p").wants_node("b").build()
    assert NodeName().pre_filter(world().info(wanting), world().cluster).node_names == frozenset({"b"})
    verdicts = world().verdicts(NodeName(), wanting)
    assert [status.code for status in verdicts] == [
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.SUCCESS,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ]
    assert verdicts[0].message == "node(s) didn't match the requested node name"


def test_unknown_node_matches_nothing() -> None:
    """The pod waits until the node is there."""
    assert world().passing(NodeName(), pod("p").wants_node("zz").build()) == []


def test_pods_share_verdicts_by_node_name_alone() -> None:
    """The key decides what is computed anew."""
    one, other = pod("p").req(cpu="1").build(), pod("q").req(cpu="2").build()
    here = world()
    assert NodeName().filter_key(here.info(one)) == NodeName().filter_key(here.info(other))


def test_a_new_node_wakes_the_pod() -> None:
    """Nothing else can."""
    assert [registration.event for registration in NodeName().events()] == [NODE_ADD]
