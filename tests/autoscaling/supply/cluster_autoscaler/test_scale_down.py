"""Loops that take nodes away, and what keeps nodes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    AddTaint,
    DeleteNode,
    LoopResult,
    RemoveTaint,
)
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupState
from stowplan_autoscaling.supply.cluster_autoscaler.options import GroupOptions
from stowplan_autoscaling.supply.cluster_autoscaler.scale_down.budgets import ScaleDownBudget
from stowplan_autoscaling.supply.cluster_autoscaler.taints import DELETION_CANDIDATE, TO_BE_DELETED, candidate_taint
from stowplan_scheduler.objects import Taint

from .builders import HOST, T0, Cluster, make_budget, make_group, make_node, make_pod

AFTER = T0 + 10 * MINUTE + 1
"""The first moment at which a node of the first loop has been unneeded for long enough."""


def two_nodes(flags: Mapping[str, str] | None = None, *, idle: str = "500m") -> Cluster:
    """A busy node and an idle one."""
    cluster = Cluster(flags=flags)
    cluster.add_node(make_node("busy"))
    cluster.add_node(make_node("idle"))
    cluster.add_pods(make_pod("b", "2500m", node="busy"), make_pod("i", idle, node="idle"))
    return cluster


def deleted(result: LoopResult) -> list[tuple[str, bool]]:
    return [(each.node, each.drain) for each in result.decisions if isinstance(each, DeleteNode)]


def why(result: LoopResult, name: str) -> str:
    return result.scale_down.unremovable[name].reason


def test_an_idle_node_is_drained_after_ten_minutes() -> None:
    cluster = two_nodes()
    first = cluster.autoscaler.run_once(T0)
    assert first.scale_down.unneeded == {"idle": T0}
    assert why(first, "idle") == "NotUnneededLongEnough"
    assert why(first, "busy") == "NotUnderutilized"
    assert first.scale_down.unremovable["busy"].utilization == 0.625
    assert next(each for each in first.decisions if isinstance(each, AddTaint)).taint == candidate_taint(T0)
    exactly = cluster.autoscaler.run_once(AFTER - 1)
    assert deleted(exactly) == []
    result = cluster.autoscaler.run_once(AFTER)
    assert deleted(result) == [("idle", True)]
    assert result.scale_down.result == "NodeDeleteStarted"
    taint, delete = result.decisions[0], result.decisions[1]
    assert isinstance(taint, AddTaint)
    assert (taint.node, taint.taint.key, taint.cordon) == ("idle", TO_BE_DELETED, True)
    assert isinstance(delete, DeleteNode)
    assert [pod.key for pod in delete.evict] == ["default/i"]
    assert delete.delay == 5 * SECOND


def test_an_empty_node_goes_without_a_drain_and_daemons_do_not_count() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("a"))
    cluster.add_pods(make_pod("d", node="a", kind="DaemonSet"))
    cluster.autoscaler.run_once(T0)
    assert deleted(cluster.autoscaler.run_once(AFTER)) == [("a", False)]


def test_time_starts_anew_when_a_node_was_needed() -> None:
    cluster = two_nodes()
    cluster.autoscaler.run_once(T0)
    cluster.add_pods(make_pod("more", "2", node="idle"))
    assert cluster.autoscaler.run_once(T0 + MINUTE).scale_down.unneeded == {}
    cluster.observation.remove_pod("uid-more")
    again = cluster.autoscaler.run_once(T0 + 2 * MINUTE)
    assert again.scale_down.unneeded == {"idle": T0 + 2 * MINUTE}


def test_a_node_whose_pods_fit_nowhere_stays_and_is_not_looked_at_for_five_minutes() -> None:
    cluster = two_nodes(idle="1900m")
    assert why(cluster.autoscaler.run_once(T0), "idle") == "NoPlaceToMovePods"
    cluster.observation.remove_pod("uid-b")
    cluster.add_pods(make_pod("smaller", "2100m", node="busy"))
    assert why(cluster.autoscaler.run_once(T0 + MINUTE), "idle") == "RecentlyUnremovable"
    assert why(cluster.autoscaler.run_once(T0 + 5 * MINUTE), "idle") == "NotUnneededLongEnough"


def test_a_pod_that_may_not_go_is_named() -> None:
    cluster = two_nodes()
    cluster.add_pods(make_pod("bare", "100m", node="idle", kind=""))
    found = cluster.autoscaler.run_once(T0).scale_down.unremovable["idle"]
    assert (found.reason, found.pod and found.pod.key, found.pod_reason) == (
        "BlockedByPod",
        "default/bare",
        "NotReplicated",
    )


def test_an_annotation_keeps_a_node() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("a", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}))
    assert why(cluster.autoscaler.run_once(T0), "a") == "ScaleDownDisabledAnnotation"


def test_a_group_keeps_its_minimum() -> None:
    cluster = Cluster([make_group(least=1)])
    for name in "ab":
        cluster.add_node(make_node(name))
    cluster.autoscaler.run_once(T0)
    result = cluster.autoscaler.run_once(AFTER)
    assert deleted(result) == [("a", False)]
    assert why(result, "b") == "NodeGroupMinSizeReached"
    single = Cluster([make_group(least=1)])
    single.add_node(make_node("a"))
    assert single.autoscaler.run_once(T0).scale_down.result == "NoCandidates"


def test_the_cluster_keeps_its_least_cores() -> None:
    cluster = Cluster(flags={"cores-total": "6:100"})
    for name in "ab":
        cluster.add_node(make_node(name))
    cluster.autoscaler.run_once(T0)
    result = cluster.autoscaler.run_once(AFTER)
    assert deleted(result) == []
    assert why(result, "a") == "MinimalResourceLimitExceeded"


def test_a_scale_up_forbids_deletions_for_ten_minutes() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("a"))
    cluster.autoscaler.last_scale_up = T0 + MINUTE
    cluster.autoscaler.run_once(T0)
    assert cluster.autoscaler.run_once(AFTER).scale_down.result == "InCooldown"
    assert cluster.autoscaler.run_once(T0 + 11 * MINUTE).scale_down.result == "NodeDeleteStarted"


def test_one_node_is_drained_at_a_time_and_ten_empty_ones() -> None:
    cluster = Cluster([make_group(most=30)])
    for number in range(14):
        cluster.add_node(make_node(f"n{number:02}"))
    for number in range(2):
        cluster.add_pods(make_pod(f"p{number}", "100m", node=f"n{number:02}"))
    cluster.autoscaler.run_once(T0)
    found = deleted(cluster.autoscaler.run_once(AFTER))
    assert len(found) == 10
    assert not any(drain for _, drain in found)
    few = two_nodes({"max-scale-down-parallelism": "1"}, idle="100m")
    few.add_node(make_node("empty"))
    few.autoscaler.run_once(T0)
    assert deleted(few.autoscaler.run_once(AFTER)) == [("empty", False)]


def test_a_node_on_its_way_out_is_neither_candidate_nor_destination_and_its_pods_wait_for_a_place() -> None:
    cluster = two_nodes()
    cluster.add_node(make_node("spare"))
    cluster.add_pods(make_pod("s", "500m", node="spare", app="s"))
    cluster.autoscaler.run_once(T0)
    assert deleted(cluster.autoscaler.run_once(AFTER)) == [("idle", True)]
    during = cluster.autoscaler.run_once(AFTER + 10 * SECOND)
    assert "idle" not in during.scale_down.unneeded
    assert "idle" not in during.scale_down.unremovable
    assert deleted(during) == []
    cluster.autoscaler.deletion_ended("idle", AFTER + 20 * SECOND, deleted=False)
    after = cluster.autoscaler.run_once(AFTER + 20 * SECOND)
    assert after.scale_down.unneeded["idle"] == AFTER + 20 * SECOND


def test_before_its_deletion_a_node_is_looked_at_again() -> None:
    cluster = two_nodes()
    moves = cluster.autoscaler.pods_to_move("idle", T0)
    assert moves is not None
    assert [pod.key for pod in moves.pods] == ["default/i"]
    cluster.add_pods(make_pod("bare", node="idle", kind=""))
    moves = cluster.autoscaler.pods_to_move("idle", T0)
    assert moves is not None
    assert moves.reason == "NotReplicated"
    assert cluster.autoscaler.pods_to_move("gone", T0) is None


def test_soft_taints_follow_need_ten_at_a_time() -> None:
    cluster = Cluster([make_group(most=30)])
    for number in range(12):
        cluster.add_node(make_node(f"n{number:02}"))
    tainted = make_node("used", taints=[Taint(key=DELETION_CANDIDATE, effect="PreferNoSchedule")])
    cluster.add_node(tainted)
    cluster.add_pods(make_pod("p", "3", node="used"))
    decisions = cluster.autoscaler.run_once(T0).decisions
    assert decisions[0] == RemoveTaint("used", DELETION_CANDIDATE)
    assert [each.node for each in decisions[1:] if isinstance(each, AddTaint)] == [f"n{n:02}" for n in range(9)]
    assert Cluster(flags={"max-bulk-soft-taint-count": "0"}).autoscaler.run_once(T0).decisions == []


def test_taints_of_an_earlier_life_are_taken_off_in_the_first_loop() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("a", taints=[Taint(key=TO_BE_DELETED, value="1", effect="NoSchedule")]))
    assert cluster.autoscaler.run_once(T0).decisions[0] == RemoveTaint("a", TO_BE_DELETED, uncordon=True)


def test_unready_nodes_wait_twenty_minutes() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("a", ready=False))
    assert why(cluster.autoscaler.run_once(T0), "a") == "NotUnreadyLongEnough"
    assert deleted(cluster.autoscaler.run_once(T0 + 20 * MINUTE)) == []
    assert deleted(cluster.autoscaler.run_once(T0 + 20 * MINUTE + 1)) == [("a", False)]
    off = Cluster(flags={"scale-down-unready-enabled": "false"})
    off.add_node(make_node("a", ready=False))
    assert why(off.autoscaler.run_once(T0), "a") == "ScaleDownUnreadyDisabled"


def test_a_ghost_of_the_leaving_node_still_counts_for_spreading() -> None:
    """Three pods on three hosts with skew 1: the third host cannot go, though its pod would fit elsewhere."""
    cluster = Cluster()
    for name in "abc":
        cluster.add_node(make_node(name))
        cluster.add_pods(make_pod(f"p{name}", "100m", node=name, spread=HOST))
    result = cluster.autoscaler.run_once(T0)
    assert result.scale_down.unneeded == {}
    assert {each.reason for each in result.scale_down.unremovable.values()} == {"NoPlaceToMovePods"}


def test_nodes_with_tight_budgets_are_drained_last() -> None:
    cluster = Cluster(flags={"scale-down-utilization-threshold": "0.9"})
    for name in "abc":
        cluster.add_node(make_node(name, labels={"disk": "hdd" if name == "b" else "ssd"}))
    cluster.add_pods(*(make_pod(f"x{n}", "100m", node="a", app="x", selector={"disk": "ssd"}) for n in range(2)))
    cluster.add_pods(make_pod("p3", "100m", node="b", app="y"))
    cluster.add_pods(make_pod("p4", "3600m", node="c", app="z"))
    cluster.observation.set_budgets([make_budget("x", "x", 1), make_budget("y", "y", 1)])
    first = cluster.autoscaler.run_once(T0)
    assert set(first.scale_down.unneeded) == {"a", "b"}
    assert deleted(cluster.autoscaler.run_once(AFTER)) == [("b", True)]


def test_utilization_may_leave_daemons_out() -> None:
    for text, used in (("false", 0.5), ("true", 1000 / 3000)):
        cluster = Cluster(flags={"ignore-daemonsets-utilization": text})
        cluster.add_node(make_node("a"))
        cluster.add_pods(make_pod("d", "1", node="a", kind="DaemonSet"), make_pod("p", "1", node="a"))
        found = cluster.autoscaler.run_once(T0).scale_down.unremovable["a"]
        assert found.utilization == pytest.approx(used, rel=1e-12)


def test_delays_may_count_for_each_group_alone() -> None:
    groups = [make_group("a"), make_group("b")]
    cluster = Cluster(groups, {"scale-down-delay-type-local": "true", "scale-down-unneeded-time": "1m"})
    cluster.add_node(make_node("a1"), "a")
    cluster.add_node(make_node("b1"), "b")
    cluster.autoscaler.scale_down.candidates.scale_ups["a"] = T0
    cluster.autoscaler.run_once(T0)
    assert deleted(cluster.autoscaler.run_once(T0 + 2 * MINUTE)) == [("b1", False)]


def test_a_group_that_has_all_of_its_nodes_or_none_goes_as_a_whole() -> None:
    cluster = Cluster([make_group(options=GroupOptions(zero_or_max_node_scaling=True))])
    for name in "ab":
        cluster.add_node(make_node(name))
    cluster.add_pods(make_pod("p", "3", node="b"))
    cluster.autoscaler.run_once(T0)
    result = cluster.autoscaler.run_once(AFTER)
    assert deleted(result) == []
    assert why(result, "a") == "AtomicScaleDownFailed"
    cluster.observation.remove_pod("uid-p")
    cluster.autoscaler.run_once(AFTER)
    assert deleted(cluster.autoscaler.run_once(AFTER + 11 * MINUTE)) == [("a", False), ("b", False)]


@pytest.mark.parametrize(
    ("parallel", "drain", "expected"),
    [(10, 1, (3, 1)), (10, 5, (3, 3)), (4, 5, (3, 1)), (2, 5, (2, 0)), (0, 5, (0, 0)), (10, 0, (3, 0))],
)
def test_budgets_of_parallel_deletions(parallel: int, drain: int, expected: tuple[int, int]) -> None:
    """Three empty nodes and three to be drained."""
    cluster = Cluster()
    for number in range(6):
        cluster.add_node(make_node(f"n{number}"))
    nodes = list(cluster.observation.nodes.values())
    table = cluster.autoscaler.table
    table.states["ng"] = GroupState(6)
    budget = ScaleDownBudget(table, parallel, drain, lambda _: 6)
    empty, drained = budget.crop(nodes[:3], nodes[3:])
    assert (sum(len(each.nodes) for each in empty), sum(len(each.nodes) for each in drained)) == expected
