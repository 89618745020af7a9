"""Tests of NodePorts."""

from __future__ import annotations

import pytest

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.plugins.node_ports import NodePorts
from support.builders import PodBuilder, node, pod
from support.tables import World, ask, info_of


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        (pod("t").port(80), pod("p").port(80), False),
        (pod("t").port(80), pod("p").port(81), True),
        (pod("t").port(80), pod("p").port(80, "UDP"), True),
        (pod("t").port(80), pod("p").port(80, ip="10.0.0.1"), False),
        (pod("t").port(80, ip="10.0.0.1"), pod("p").port(80), False),
        (pod("t").port(80, ip="10.0.0.1"), pod("p").port(80, ip="10.0.0.2"), True),
        (pod("t").port(80, ip="10.0.0.1"), pod("p").port(80, ip="10.0.0.1"), False),
        (pod("t").port(80, ip="0.0.0.0"), pod("p").port(80, ip="10.0.0.2"), False),
        (pod("t").port(80).port(443), pod("p").port(8080).port(443), False),
    ],
)
def test_conflicts(taken: PodBuilder, wanted: PodBuilder, fits: bool) -> None:
    """0.0.0.0 and an absent address conflict with every address of the same protocol and port."""
    world = World([node("n").build()], [taken.on("n").build()])
    assert (world.passing(NodePorts(), wanted.build()) == ["n"]) is fits


def test_only_nodes_with_the_port_taken_refuse() -> None:
    """Preemption may help: the code is Unschedulable."""
    world = World([node("free").build(), node("full").build()], [pod("t").port(80).on("full").build()])
    verdicts = world.verdicts(NodePorts(), pod("p").port(80).build())
    assert [status.code for status in verdicts] == [Code.SUCCESS, Code.UNSCHEDULABLE]
    assert verdicts[1].message == "node(s) didn't have free ports for the requested pod ports"


def test_pod_without_host_ports_skips() -> None:
    """Container ports alone take nothing on the node."""
    world = World([node("n").build()])
    assert NodePorts().pre_filter(world.info(pod("p").build()), world.cluster).status.is_skip


def test_hypothetical_view_shows_the_changed_node() -> None:
    """Preemption asks what the node would say without a pod."""
    taker = pod("t").port(80).on("n").build()
    world = World([node("n").build()], [taker])
    emptied = world.cluster.table.infos[0].clone()
    emptied.remove_pod(emptied.pods[0])
    hypothesis = NodeView(world.cluster.table, slice(0, 1), [emptied])
    (status,) = world.verdicts(NodePorts(), pod("p").port(80).build(), hypothesis)
    assert status.is_success


def test_freed_port_is_seen_after_the_next_snapshot() -> None:
    """The rule reads the row, so a deleted pod must change its answer."""
    taker = pod("t").port(80).on("n").build()
    world = World([node("n").build()], [taker])
    assert world.passing(NodePorts(), pod("p").port(80).build()) == []
    world.cache.remove_pod(taker)
    world.refresh()
    assert world.passing(NodePorts(), pod("p").port(80).build()) == ["n"]


def test_deleted_pod_helps_if_it_had_a_place_and_a_conflicting_port() -> None:
    """A waiting pod without nomination holds no port."""
    on_delete, on_node = NodePorts().events()
    info = info_of(pod("p").port(80).build())
    assert ask(on_delete.hint, info, pod("t").port(80).on("n").build()) is Hint.QUEUE
    assert ask(on_delete.hint, info, pod("t").port(80).nominated("n").build()) is Hint.QUEUE
    assert ask(on_delete.hint, info, pod("t").port(80).build()) is Hint.SKIP
    assert ask(on_delete.hint, info, pod("t").port(81).on("n").build()) is Hint.SKIP
    assert ask(on_delete.hint, info, pod("t").on("n").build()) is Hint.SKIP
    assert ask(on_node.hint, info, None, node("n").build()) is Hint.QUEUE
