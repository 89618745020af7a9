"""The division of cores that is kept from look to look is the one that is made anew, to the last bit."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.contention import CpuShares, CpuTree
from stowplan_autoscaling.cosim.roster import Floats, Ints, NodeColumns, Roster
from stowplan_scheduler.objects import Container, NodeStatus, ObjectMeta, PodSpec, ResourceRequirements

Resources = dict[str, dict[str, str | int | float]]
SIMPLE: tuple[Resources, ...] = ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "2"}}, {})
WITH_LIMITS: tuple[Resources, ...] = (
    *SIMPLE,
    {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}},
)
WORKLOADS = 4


def a_pod(number: int, node: str, resources: Resources) -> ClusterPod:
    own = ResourceRequirements(requests=resources.get("requests"), limits=resources.get("limits"))
    container = Container(name="c", resources=own)
    meta = ObjectMeta(name=f"p{number}", namespace="shop", uid=f"p{number}")
    return ClusterPod(metadata=meta, spec=PodSpec(node_name=node, containers=(container,)))


def a_node(name: str, cpu: str) -> Node:
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity={"cpu": cpu, "memory": "64Gi"}))


def anew(roster: Roster) -> tuple[CpuShares, Floats]:
    """All shares, and what is available, worked out for all rows at once."""
    nodes, rows = roster.nodes, roster.rows
    tree = CpuTree(
        node=roster.node[rows],
        capacity=nodes.cpu,
        request=roster.request[rows],
        limit=roster.limit[rows],
        qos=roster.qos[rows],
    )
    works = nodes.works[roster.node[rows]]
    shares = tree.share(np.where(works, roster.demand[rows], 0.0))
    return shares, np.where(works, shares.available, 0.0)


class Cluster:
    """A roster that changes at random, a few workloads at a time."""

    def __init__(self, seed: int, *, has_limits: bool) -> None:
        self.random = Random(seed)
        self.nodes = NodeColumns()
        self.roster = Roster(self.nodes)
        self.kinds = WITH_LIMITS if has_limits else SIMPLE
        self.rows: list[int] = []
        self.count = 0
        for _ in range(3):
            self.add_node()

    def add_node(self) -> None:
        self.nodes.put(a_node(f"n{len(self.nodes.names)}", self.random.choice(["2", "4", "16"])))

    def change(self) -> Ints:
        """Pods come and go, and those of one workload want something else; returns the rows that do."""
        random, roster = self.random, self.roster
        for _ in range(random.randint(0, 3)):
            if self.rows:
                row = self.rows.pop(random.randrange(len(self.rows)))
                roster.remove(row)
        if random.random() < 0.2:
            self.add_node()
        new = []
        for _ in range(random.randint(0, 4)):
            self.count += 1
            pod = a_pod(self.count, random.choice(self.nodes.names), random.choice(self.kinds))
            new.append(roster.add(pod, random.randrange(WORKLOADS)))
        self.rows += new
        chosen = random.randrange(WORKLOADS)
        rows = np.array([row for row in self.rows if row in new or roster.workload[row] == chosen], np.int64)
        roster.demand[rows] = [random.choice([0.0, 0.1, 0.30000001, 1.5]) for _ in rows]
        return rows


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), has_limits=st.booleans(), may_fail=st.booleans())
def test_a_division_that_is_kept_is_the_one_that_is_made_anew(seed: int, has_limits: bool, may_fail: bool) -> None:
    """Pods, nodes and wants change; the workloads that are named are those that may use something else."""
    cluster = Cluster(seed, has_limits=has_limits)
    roster, random = cluster.roster, cluster.random
    division = roster.division
    for step in range(12):
        rows = cluster.change()
        if may_fail and random.random() < 0.3:
            cluster.nodes.set_working(random.choice(cluster.nodes.names), works=random.random() < 0.5)
        before = division.available.copy()
        is_full = step == 0 or random.random() < 0.3
        plan = division.plan(None if is_full else rows)
        assert division.available.tolist() == before.tolist(), "a plan changes nothing until it is put"
        division.put(plan)
        shares, available = anew(roster)
        alive = roster.rows
        assert division.available[alive].tolist() == available.tolist()
        assert division.granted[alive].tolist() == shares.granted.tolist()
        assert division.throttled[alive].tolist() == shares.throttled.tolist()
        if not is_full:
            others = np.setdiff1d(alive, rows)
            changed = others[division.available[others] != before[others]]
            mine = {int(number) for number in roster.workload[rows]}
            named = set(plan.touched.tolist())
            assert named - mine == {int(number) for number in roster.workload[changed]} - mine


def test_a_new_pod_may_use_nothing_before_the_next_look() -> None:
    """Though its row was another's, who had 4 cores."""
    cluster = Cluster(1, has_limits=False)
    roster = cluster.roster
    cluster.nodes.put(a_node("big", "4"))
    row = roster.add(a_pod(1, "big", SIMPLE[0]), 0)
    roster.demand[row] = 1.0
    roster.division.put(roster.division.plan(None))
    assert (roster.division.available[row], roster.division.granted[row]) == (4.0, 1.0)
    roster.remove(row)
    assert roster.add(a_pod(2, "big", SIMPLE[0]), 1) == row
    assert (roster.division.available[row], roster.division.granted[row]) == (0.0, 0.0)


def test_a_row_that_is_kept_is_nobody_elses_until_it_is_free() -> None:
    """It does not count, and is not given to the next pod."""
    cluster = Cluster(2, has_limits=False)
    roster = cluster.roster
    row = roster.add(a_pod(1, "n0", SIMPLE[0]), 0)
    roster.keep(row)
    assert len(roster) == 0
    assert roster.add(a_pod(2, "n0", SIMPLE[0]), 0) != row
    roster.free(row)
    assert roster.add(a_pod(3, "n0", SIMPLE[0]), 0) == row


def test_a_cluster_may_begin_without_a_node() -> None:
    """A look at nothing, then nodes come, and a pod."""
    nodes = NodeColumns()
    roster = Roster(nodes)
    roster.division.put(roster.division.plan(None))
    nodes.put(a_node("n0", "2"))
    nodes.put(a_node("n1", "4"))
    roster.division.put(roster.division.plan(np.zeros(0, np.int64)))
    row = roster.add(a_pod(1, "n1", SIMPLE[0]), 0)
    roster.demand[row] = 1.5
    roster.division.put(roster.division.plan(np.array([row])))
    assert (roster.division.available[row], roster.division.granted[row]) == (4.0, 1.5)
