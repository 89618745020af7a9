"""Tests of NodeUnschedulable."""

from __future__ import annotations

import pytest

from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.plugins.node_unschedulable import NodeUnschedulable
from support.builders import PodBuilder, node, pod
from support.tables import World, ask, info_of

TAINT = "node.kubernetes.io/unschedulable"


def test_cordoned_node_is_refused() -> None:
    """No taint is needed: spec.unschedulable alone decides."""
    world = World([node("open").build(), node("cordoned").unschedulable().build()])
    verdicts = world.verdicts(NodeUnschedulable(), pod("p").build())
    assert [status.code for status in verdicts] == [Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]
    assert verdicts[1].message == "node(s) were unschedulable"


@pytest.mark.parametrize(
    ("wanting", "passes"),
    [
        (pod("p").tolerate(TAINT, effect="NoSchedule"), True),
        (pod("p").tolerate(TAINT), True),
        (pod("p").tolerate(), True),
        (pod("p").tolerate(TAINT, effect="NoExecute"), False),
        (pod("p").tolerate("other", effect="NoSchedule"), False),
        (pod("p").tolerate(TAINT, "yes", effect="NoSchedule"), False),
    ],
)
def test_pod_that_tolerates_the_taint_tolerates_the_cordon(wanting: PodBuilder, passes: bool) -> None:
    """DaemonSet pods carry this toleration; a wrong effect or value does not do."""
    world = World([node("cordoned").unschedulable().build()])
    assert bool(world.passing(NodeUnschedulable(), wanting.build())) is passes


def test_key_is_whether_the_cordon_is_tolerated() -> None:
    """Two verdict columns serve all pods of a cluster."""
    keys = {NodeUnschedulable().filter_key(info_of(p.build())) for p in (pod("a"), pod("b").tolerate("other"))}
    assert keys == {False}


def test_node_change_helps_when_the_node_opens() -> None:
    """An added node counts as closed before."""
    on_node, _ = NodeUnschedulable().events()
    info = info_of(pod("p").build())
    is_open, closed = node("n").build(), node("n").unschedulable().build()
    assert ask(on_node.hint, info, None, is_open) is Hint.QUEUE
    assert ask(on_node.hint, info, None, closed) is Hint.SKIP
    assert ask(on_node.hint, info, closed, is_open) is Hint.QUEUE
    assert ask(on_node.hint, info, is_open, is_open) is Hint.SKIP


def test_own_toleration_helps_only_if_it_is_the_right_one() -> None:
    """Tolerations can only be added, so the old ones need no look."""
    _, on_toleration = NodeUnschedulable().events()
    bare, right = pod("p").build(), pod("p").tolerate(TAINT).build()
    wrong = pod("p").tolerate("other").build()
    assert ask(on_toleration.hint, info_of(bare), bare, right) is Hint.QUEUE
    assert ask(on_toleration.hint, info_of(bare), bare, wrong) is Hint.SKIP
