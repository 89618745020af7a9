"""How many nodes pods need. The numbers of the table are those of upstream's own tests."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan_autoscaling.supply.cluster_autoscaler.equivalence import PodGroup, build_pod_groups
from stowplan_autoscaling.supply.cluster_autoscaler.estimation_limits import (
    NONE_LEFT,
    EstimationLimiter,
    estimation_limit,
)
from stowplan_autoscaling.supply.cluster_autoscaler.estimator import (
    BinpackingEstimator,
    best_for_fastpath,
    decreasing_order,
)
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.templates import TemplateNode
from stowplan_scheduler.framework.pod_info import PodInterner
from stowplan_scheduler.objects import Pod

from .builders import HOST, ZONE, make_group, make_node, make_pod
from .test_snapshot import new_snapshot, node_info

INTERNER = PodInterner()
MILLI = 1000


def template(cpu: int, memory: int, *, pods: int = 10, zone: str = "z") -> TemplateNode:
    """`cpu` in milli cores, `memory` in MiB."""
    node = make_node("template-node-for-ng-0", f"{cpu}m", f"{memory}Mi", pods=str(pods), labels={ZONE: zone})
    return TemplateNode(node, ())


def pods(count: int, cpu: int, memory: int, *, app: str = "web", spread: str = "", host_port: int = 0) -> list[Pod]:
    return [
        make_pod(f"{app}-{n}", f"{cpu}m", f"{memory}Mi", app=app, spread=spread, host_port=host_port)
        for n in range(count)
    ]


def groups_of(*lists: list[Pod]) -> list[PodGroup]:
    return build_pod_groups(INTERNER.info(pod) for each in lists for pod in each)


@pytest.mark.parametrize("arithmetic", [True, False])
@pytest.mark.parametrize(
    ("node", "asked", "limit", "nodes", "placed"),
    [
        ((1000, 2000), [pods(10, 350, 1000)], 0, 5, 10),
        ((10_000, 20_000), [pods(20, 10, 100)], 0, 2, 20),
        ((1000, 5000), [pods(8, 200, 1000, host_port=5555)], 0, 8, 8),
        ((1000, 5000), [pods(20, 500, 1000)], 5, 5, 10),
        ((1000, 5000), [pods(10, 50, 1000, app="small"), pods(10, 500, 1000, app="large")], 5, 5, 10),
    ],
    ids=["resource bound", "pods per node", "host port", "limiter", "decreasing order"],
)
def test_the_numbers_are_upstreams(
    node: tuple[int, int], asked: list[list[Pod]], limit: int, nodes: int, placed: int, *, arithmetic: bool
) -> None:
    estimator = BinpackingEstimator(new_snapshot(), arithmetic=arithmetic)
    found = estimator.estimate(groups_of(*asked), template(*node), EstimationLimiter(limit))
    assert (found[0], len(found[1])) == (nodes, placed)


def test_larger_pods_go_first_within_the_limit() -> None:
    small, large = pods(10, 50, 1000, app="small"), pods(10, 500, 1000, app="large")
    estimator = BinpackingEstimator(new_snapshot())
    _, placed = estimator.estimate(groups_of(small, large), template(1000, 5000), EstimationLimiter(5))
    assert {pod.shape.labels["app"] for pod in placed} == {"large"}


def test_spreading_over_zones_stops_where_another_zone_stays_behind() -> None:
    """One foreign zone without pods: two more than there would be one too many (skew 1: only one)."""
    snapshot = new_snapshot([make_node("other", labels={ZONE: "foreign"}, unschedulable=True)])
    estimator = BinpackingEstimator(snapshot)
    found = estimator.estimate(groups_of(pods(8, 20, 100, spread=ZONE)), template(1000, 5000), EstimationLimiter(0))
    assert (found[0], len(found[1])) == (1, 1)


def test_spreading_over_hosts_opens_a_node_per_pod() -> None:
    estimator = BinpackingEstimator(new_snapshot())
    found = estimator.estimate(groups_of(pods(5, 100, 100, spread=HOST)), template(1000, 5000), EstimationLimiter(0))
    assert (found[0], len(found[1])) == (1, 5)


def test_an_estimation_leaves_nothing_behind() -> None:
    snapshot = new_snapshot([make_node("a")])
    for asked in (pods(5, 100, 100), pods(5, 100, 100, spread=HOST)):
        BinpackingEstimator(snapshot).estimate(groups_of(asked), template(1000, 5000), EstimationLimiter(0))
        assert [(info.name, info.pods) for info in snapshot.infos()] == [("a", [])]


def test_arithmetic_places_as_asking_for_each_pod_does() -> None:
    """Nodes, pods in order, and where the next search begins are the same, whatever is asked for."""
    rng = np.random.default_rng(11)
    for case in range(60):
        asked = []
        for app in range(int(rng.integers(1, 6))):
            cpu, memory = int(rng.integers(1, 30)) * 100, int(rng.integers(1, 40)) * 100
            asked.append(pods(int(rng.integers(1, 30)), cpu, memory, app=f"{case}-{app}"))
        node = (int(rng.integers(10, 80)) * 100, int(rng.integers(20, 120)) * 100)
        limit = int(rng.integers(0, 12))
        existing = [make_node(f"n{n}", "2") for n in range(int(rng.integers(0, 4)))]
        last = int(rng.integers(0, 20))
        found = []
        for arithmetic in (True, False):
            snapshot = new_snapshot(existing)
            snapshot.last_match = last
            fitting = [
                group
                for group in groups_of(*asked)
                if group.sample.shape.fit.milli_cpu <= node[0] and group.sample.shape.fit.memory <= node[1] << 20
            ]
            estimator = BinpackingEstimator(snapshot, arithmetic=arithmetic)
            limiter = EstimationLimiter(limit)
            count, placed = estimator.estimate(fitting, template(*node, pods=int(5 + case % 20)), limiter)
            position = snapshot.last_match % max(1, len(existing)) if not placed else snapshot.last_match
            found.append((count, [pod.key for pod in placed], position, limiter.left))
        assert found[0] == found[1]


def test_a_pod_that_another_rule_is_about_goes_the_long_way() -> None:
    """Host ports are no arithmetic."""
    snapshot = new_snapshot()
    snapshot.add(node_info(make_node("a"), [INTERNER.info(make_pod("x", host_port=80))]))
    asked = groups_of(pods(3, 100, 100, host_port=80))
    assert BinpackingEstimator(snapshot).estimate(asked, template(1000, 5000), EstimationLimiter(0))[0] == 3


def test_equal_shares_stay_in_order() -> None:
    asked = groups_of(pods(1, 100, 100, app="a"), pods(1, 300, 100, app="b"), pods(1, 100, 100, app="c"))
    ordered = decreasing_order(asked, template(1000, 1000).node)
    assert [group.sample.shape.labels["app"] for group in ordered] == ["b", "a", "c"]


def test_the_fast_path_fills_one_node_and_counts_the_others() -> None:
    """Four pods of 250m go on a node of 1000m: ten need three; the last group that gains most is taken."""
    asked = groups_of(pods(10, 250, 100, app="many"), pods(2, 900, 100, app="few"))
    node = template(1000, 5000)
    best = best_for_fastpath(asked, node.node)
    assert best is asked[0]
    found = BinpackingEstimator(new_snapshot(), fastpath=True).estimate(asked, node, EstimationLimiter(0))
    assert (found[0], len(found[1])) == (5, 12)


def test_the_strictest_limit_counts() -> None:
    group, similar = make_group("a", most=10), make_group("b", most=5)
    table = GroupTable.of((group, similar))
    table.change_target("a", 4)
    options = AutoscalingOptions()
    assert estimation_limit(options, table, group, (), 0) == 6
    assert estimation_limit(options, table, group, (similar,), 0) == 11
    few = AutoscalingOptions.from_flags({"max-nodes-per-scaleup": "3"})
    assert estimation_limit(few, table, group, (), 0) == 3
    total = AutoscalingOptions.from_flags({"max-nodes-total": "6"})
    assert estimation_limit(total, table, group, (), 4) == 2
    assert estimation_limit(total, table, group, (), 6) == NONE_LEFT
    assert not EstimationLimiter(NONE_LEFT).permission()


def test_equivalent_pods_of_a_controller_are_one_group_and_at_most_ten_are_compared() -> None:
    same = pods(3, 100, 100)
    assert [len(group.pods) for group in groups_of(same)] == [3]
    bare = [make_pod(f"b{n}", kind="") for n in range(2)]
    assert [len(group.pods) for group in groups_of(bare)] == [1, 1]
    different = [make_pod(f"d{n}", f"{n + 1}m") for n in range(11)]
    again = [make_pod("again", "1m"), make_pod("last", "11m")]
    sizes = [len(group.pods) for group in groups_of(different, again)]
    assert sizes == [2, *[1] * 11]
