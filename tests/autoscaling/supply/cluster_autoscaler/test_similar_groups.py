"""Similar groups, and new nodes spread over them; limits of the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.quotas import QuotaTracker
from stowplan_autoscaling.supply.cluster_autoscaler.similar_groups import GroupComparator, balance
from stowplan_autoscaling.supply.cluster_autoscaler.templates import TemplateNode
from stowplan_scheduler.framework.pod_info import PodInterner

from .builders import ZONE, make_group, make_node, make_pod

INTERNER = PodInterner()


def balanced(sizes: Mapping[str, tuple[int, int]], new: int) -> dict[str, int]:
    """Sizes after adding nodes; `sizes`: (now, at most)."""
    groups = tuple(make_group(name, most=most) for name, (_, most) in sizes.items())
    table = GroupTable.of(groups)
    for name, (now, _) in sizes.items():
        table.change_target(name, now)
    found = {name: now for name, (now, _) in sizes.items()}
    found.update({info.group.id: info.new_size for info in balance(table, groups, new)})
    return found


@pytest.mark.parametrize(
    ("new", "expected"),
    [(1, [2, 3, 5, 5]), (2, [3, 3, 5, 5]), (4, [4, 4, 5, 5]), (10, [6, 6, 6, 6])],
)
def test_nodes_go_to_the_smallest_group(new: int, expected: list[int]) -> None:
    """Upstream's vectors for groups of 1, 3, 5 and 5."""
    sizes = {"a": (1, 20), "b": (3, 20), "c": (5, 20), "d": (5, 20)}
    assert sorted(balanced(sizes, new).values()) == expected


def test_full_groups_are_left_out_and_what_does_not_fit_is_dropped() -> None:
    full = {"a": (1, 1), "b": (1, 3)}
    assert balanced(full, 1) == {"a": 1, "b": 2}
    assert balanced(full, 5) == {"a": 1, "b": 3}
    assert balanced({"a": (1, 3), "b": (3, 10)}, 4) == {"a": 3, "b": 5}


def node(**changes: str) -> TemplateNode:
    labels = {"pool": changes.get("pool", "x"), ZONE: changes.get("zone", "z1")}
    return TemplateNode(make_node("t", changes.get("cpu", "4"), changes.get("memory", "16Gi"), labels=labels), ())


def test_zones_and_a_little_memory_do_not_matter_but_cores_and_labels_do() -> None:
    comparator = GroupComparator(AutoscalingOptions())
    assert comparator.are_similar(node(), node(zone="z2"))
    assert comparator.are_similar(node(), node(memory="16200Mi"))
    assert not comparator.are_similar(node(), node(memory="15Gi"))
    assert not comparator.are_similar(node(), node(cpu="4010m"))
    assert not comparator.are_similar(node(), node(pool="y"))
    assert GroupComparator(AutoscalingOptions(balancing_ignore_label=("pool",))).are_similar(node(), node(pool="y"))


def test_daemons_of_one_group_alone_make_a_difference() -> None:
    with_daemon = TemplateNode(node().node, [INTERNER.info(make_pod("d", "1", kind="DaemonSet"))])
    assert not GroupComparator(AutoscalingOptions()).are_similar(node(), with_daemon)


def test_chosen_labels_replace_every_other_comparison() -> None:
    comparator = GroupComparator(AutoscalingOptions(balancing_label=("pool",)))
    assert comparator.are_similar(node(), node(cpu="32"))
    assert not comparator.are_similar(node(), node(pool="y"))


def test_limits_of_cores_and_memory_allow_some_of_the_nodes() -> None:
    options = AutoscalingOptions.from_flags({"cores-total": "4:10", "memory-total": "0:1000"})
    one = make_node("a", "3500m")
    up = QuotaTracker.to_maximum(options, [(one, "ng")])
    assert up.check(one, "ng", 3).allowed == 1
    assert up.check(one, "ng", 3).exceeded == ("cpu",)
    assert up.check(one, "ng", 1).exceeded == ()
    assert up.consume(one, "ng", 1).allowed == 1
    assert up.check(one, "ng", 1).allowed == 0
    down = QuotaTracker.to_minimum(options, [(one, "ng"), (make_node("b", "3500m"), "ng")])
    assert down.consume(one, "ng", 1).exceeded == ()
    assert down.consume(one, "ng", 1).exceeded == ("cpu",)
