"""Loops that add nodes, and loops that do not."""

from __future__ import annotations

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    DecreaseTargetSize,
    DeleteInstances,
    IncreaseSize,
    LoopResult,
)
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import (
    CREATING,
    OUT_OF_RESOURCES,
    Instance,
    InstanceError,
)
from stowplan_autoscaling.supply.cluster_autoscaler.options import HOUR, GroupOptions

from .builders import T0, ZONE, Cluster, make_group, make_node, make_pod


def increases(result: LoopResult) -> list[tuple[str, int]]:
    return [(each.group, each.amount) for each in result.decisions if isinstance(each, IncreaseSize)]


def test_pods_that_fit_nowhere_get_nodes_and_the_next_loop_waits_for_them() -> None:
    """Five pods of 1500m need three nodes of 4 cores; what is upcoming counts as there."""
    cluster = Cluster()
    cluster.add_pods(*(make_pod(f"p{n}", "1500m") for n in range(5)))
    first = cluster.autoscaler.run_once(T0)
    assert first.scale_up.result == "ScaleUpSuccessful"
    assert increases(first) == [("ng", 3)]
    assert first.scale_up.plan == [("ng", 0, 3)]
    assert first.scale_down.result == "InCooldown"
    cluster.set_target("ng", 3)
    second = cluster.autoscaler.run_once(T0 + 10 * SECOND)
    assert second.scale_up.result == "ScaleUpNotNeeded"
    assert second.groups["ng"].upcoming == 3
    assert second.decisions == []


def test_pods_that_fit_on_a_node_need_none() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("n"))
    cluster.add_pods(*(make_pod(f"p{n}") for n in range(4)))
    assert cluster.autoscaler.run_once(T0).scale_up.result == "ScaleUpNotNeeded"


def test_new_pods_wait_a_loop_for_more() -> None:
    cluster = Cluster()
    cluster.add_pods(make_pod("p"), age=SECOND)
    waiting = cluster.autoscaler.run_once(T0)
    assert (waiting.scale_up.result, waiting.scale_down.result) == ("ScaleUpInCooldown", "InCooldown")
    assert cluster.autoscaler.run_once(T0 + SECOND).scale_up.result == "ScaleUpSuccessful"


def test_a_pod_may_ask_for_more_patience() -> None:
    cluster = Cluster()
    delay = {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "90s"}
    cluster.add_pods(make_pod("p", annotations=delay), age=MINUTE)
    assert cluster.autoscaler.run_once(T0).scale_up.result == "ScaleUpNotNeeded"
    assert cluster.autoscaler.run_once(T0 + 31 * SECOND).scale_up.result == "ScaleUpSuccessful"


def test_unimportant_pods_and_daemons_get_no_nodes() -> None:
    cluster = Cluster()
    cluster.add_pods(make_pod("p", priority=-11), make_pod("d", kind="DaemonSet"))
    assert cluster.autoscaler.run_once(T0).scale_up.result == "ScaleUpNotNeeded"
    cluster.add_pods(make_pod("q", priority=-10))
    assert cluster.autoscaler.run_once(T0).scale_up.result == "ScaleUpSuccessful"


def test_a_nominated_pod_holds_its_place() -> None:
    from msgspec.structs import replace

    cluster = Cluster()
    cluster.add_node(make_node("n"))
    nominated = make_pod("big", "4")
    nominated = replace(nominated, status=replace(nominated.status, nominated_node_name="n"))
    cluster.add_pods(nominated, make_pod("p"))
    result = cluster.autoscaler.run_once(T0)
    assert [pod.key for pod in result.scale_up.triggered] == ["default/p"]


def test_pods_that_no_group_helps_are_told_with_reasons() -> None:
    cluster = Cluster([make_group("full", most=0), make_group("ng")])
    cluster.add_pods(make_pod("p", "5"), make_pod("q", selector={"disk": "ssd"}, app="q"))
    result = cluster.autoscaler.run_once(T0)
    assert result.scale_up.result == "ScaleUpNoOptionsAvailable"
    assert result.scale_up.skipped == {"full": ("max node group size reached",)}
    assert [(each.pod.key, each.rejected) for each in result.scale_up.unhelped] == [
        ("default/p", {"ng": ("Insufficient cpu",)}),
        ("default/q", {"ng": ("node(s) didn't match Pod's node affinity/selector",)}),
    ]


def test_skipped_groups_are_looked_at_too_if_that_is_asked_for() -> None:
    flags = {"scaleup-simulation-for-skipped-node-groups-enabled": "true"}
    cluster = Cluster([make_group("full", most=0, cpu="8"), make_group("tiny", most=0, cpu="1")], flags)
    cluster.add_pods(make_pod("p", "5"))
    (found,) = cluster.autoscaler.run_once(T0).scale_up.unhelped
    assert found.rejected == {"tiny": ("Insufficient cpu",)}
    assert found.skipped == {"full": ("max node group size reached",)}


def test_the_largest_size_and_the_limits_of_the_cluster_cap_the_plan() -> None:
    pods = [make_pod(f"p{n}", "3") for n in range(9)]
    cluster = Cluster([make_group(most=4)])
    cluster.add_pods(*pods)
    assert increases(cluster.autoscaler.run_once(T0)) == [("ng", 4)]
    cluster = Cluster([make_group(most=40)], {"cores-total": "0:11"})
    cluster.add_pods(*pods)
    result = cluster.autoscaler.run_once(T0)
    assert increases(result) == [("ng", 2)]
    assert result.scale_up.limited_by == ("cpu",)
    cluster = Cluster([make_group(most=40)], {"max-nodes-total": "1"})
    cluster.add_node(make_node("n"))
    cluster.add_pods(*(make_pod(f"r{n}", "4") for n in range(2)))
    result = cluster.autoscaler.run_once(T0)
    assert result.scale_up.result == "ScaleUpLimitedByMaxNodesTotal"
    assert len(result.scale_up.unhelped) == 1


def test_similar_groups_share_new_nodes() -> None:
    groups = [make_group(name, labels={ZONE: name}) for name in ("a", "b", "c")]
    cluster = Cluster(groups, {"balance-similar-node-groups": "true"})
    cluster.add_pods(*(make_pod(f"p{n}", "3") for n in range(7)))
    result = cluster.autoscaler.run_once(T0)
    assert sorted(increases(result)) == [("a", 3), ("b", 2), ("c", 2)]
    assert result.options[0].similar == ("b", "c")


def test_a_salvo_helps_pods_of_several_groups_in_one_loop() -> None:
    groups = [make_group("a", labels={"pool": "a"}), make_group("b", labels={"pool": "b"})]
    pods = [make_pod("p", selector={"pool": "a"}, app="p"), make_pod("q", selector={"pool": "b"}, app="q")]
    single = Cluster(groups)
    single.add_pods(*pods)
    assert len(increases(single.autoscaler.run_once(T0))) == 1
    salvo = Cluster(groups, {"salvo-scale-up": "true"})
    salvo.add_pods(*pods)
    result = salvo.autoscaler.run_once(T0)
    assert sorted(increases(result)) == [("a", 1), ("b", 1)]
    assert sorted(result.scale_up.plan) == [("a", 0, 1), ("b", 0, 1)]


def test_groups_below_their_minimum_are_filled_up_if_that_is_asked_for() -> None:
    assert Cluster([make_group(least=2)]).autoscaler.run_once(T0).decisions == []
    cluster = Cluster([make_group(least=2)], {"enforce-node-group-min-size": "true"})
    result = cluster.autoscaler.run_once(T0)
    assert increases(result) == [("ng", 2)]
    assert result.scale_up.result == "ScaleUpSuccessful"


def test_a_group_that_has_all_of_its_nodes_or_none_is_filled_at_once() -> None:
    cluster = Cluster([make_group(most=6, options=GroupOptions(zero_or_max_node_scaling=True))])
    cluster.add_pods(make_pod("p"))
    assert increases(cluster.autoscaler.run_once(T0)) == [("ng", 6)]


def test_a_refused_increase_backs_the_group_off_and_does_not_count_as_a_scale_up() -> None:
    cluster = Cluster()
    before = cluster.autoscaler.last_scale_up
    cluster.add_pods(make_pod("p"))
    cluster.autoscaler.run_once(T0)
    cluster.autoscaler.scale_up_failed("ng", 1, InstanceError(code="quota", message="no quota"), T0)
    assert cluster.autoscaler.last_scale_up == before
    result = cluster.autoscaler.run_once(T0 + 10 * SECOND)
    assert result.scale_up.skipped == {"ng": ("in backoff after failed scale-up",)}
    assert cluster.autoscaler.run_once(T0 + 5 * MINUTE).scale_up.skipped == result.scale_up.skipped
    assert cluster.autoscaler.run_once(T0 + 5 * MINUTE + 1).scale_up.result == "ScaleUpSuccessful"


def test_a_stock_out_sends_the_pods_to_another_group() -> None:
    cluster = Cluster([make_group("a"), make_group("b", cpu="8")])
    cluster.add_pods(make_pod("p", "2"))
    assert increases(cluster.autoscaler.run_once(T0)) == [("a", 1)]
    error = InstanceError(OUT_OF_RESOURCES, "STOCKOUT", "none left")
    cluster.set_target("a", 1, [Instance("a-1", CREATING, error)])
    result = cluster.autoscaler.run_once(T0 + 10 * SECOND)
    assert DeleteInstances("a", ("a-1",), "failed creation") in result.decisions
    assert increases(result) == [("b", 1)]
    assert [(each.group, each.error.code) for each in result.failures] == [("a", "STOCKOUT")]


def test_machines_that_never_register_are_deleted_down_to_the_minimum() -> None:
    cluster = Cluster([make_group(least=1)])
    machines = [Instance("m1"), Instance("m2")]
    cluster.set_target("ng", 2, machines)
    cluster.autoscaler.run_once(T0)
    assert cluster.autoscaler.run_once(T0 + 15 * MINUTE).decisions == []
    result = cluster.autoscaler.run_once(T0 + 15 * MINUTE + 1)
    assert result.decisions == [DeleteInstances("ng", ("m1",), "unregistered")]


def test_a_target_that_is_never_reached_is_lowered() -> None:
    cluster = Cluster(flags={"scale-down-enabled": "false"})
    cluster.add_node(make_node("n"))
    cluster.set_target("ng", 3)
    cluster.autoscaler.run_once(T0)
    assert cluster.autoscaler.run_once(T0 + 15 * MINUTE).decisions == []
    assert cluster.autoscaler.run_once(T0 + 15 * MINUTE + 1).decisions == [DecreaseTargetSize("ng", 2)]


def test_nothing_is_done_in_an_unhealthy_cluster() -> None:
    cluster = Cluster()
    for number in range(4):
        cluster.add_node(make_node(f"n{number}", ready=False), age=HOUR)
    cluster.add_pods(make_pod("p", "4"))
    result = cluster.autoscaler.run_once(T0)
    assert not result.healthy
    assert result.scale_up.result == "ScaleUpNotTried"
    assert result.decisions == []


def test_a_node_with_a_start_up_taint_is_still_upcoming() -> None:
    from stowplan_scheduler.objects import Taint

    cluster = Cluster(flags={"startup-taint": "cni"})
    cluster.add_pods(make_pod("p", "3"))
    cluster.autoscaler.run_once(T0)
    cluster.add_node(make_node("n", taints=[Taint(key="cni", effect="NoSchedule")]), age=0)
    cluster.set_target("ng", 1)
    result = cluster.autoscaler.run_once(T0 + 10 * SECOND)
    assert (result.groups["ng"].not_started, result.groups["ng"].upcoming) == (1, 1)
    assert result.scale_up.result == "ScaleUpNotNeeded"


def test_an_empty_cluster_is_left_alone_if_that_is_asked_for() -> None:
    cluster = Cluster(flags={"scale-up-from-zero": "false"})
    cluster.add_pods(make_pod("p"))
    assert cluster.autoscaler.run_once(T0).scale_up.result == "ScaleUpNotTried"
    cluster.add_node(make_node("n"))
    cluster.add_pods(make_pod("q", "4", app="q"))
    assert cluster.autoscaler.run_once(T0).scale_up.result == "ScaleUpSuccessful"
