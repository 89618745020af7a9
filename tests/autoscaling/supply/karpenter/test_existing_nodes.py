"""Pods that look at nothing but the node are put on nodes many at a time, to where each alone would go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter import Budget, Disruption, one_of
from stowplan_autoscaling.supply.karpenter.existing_nodes import ExistingNodes
from stowplan_autoscaling.supply.karpenter.labels import ZONE
from stowplan_autoscaling.supply.karpenter.scheduler import Scheduler
from stowplan_autoscaling.supply.karpenter.shapes import Shapes
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod
from stowplan_scheduler.objects import NodeSelectorRequirement, NodeSelectorTerm, Taint
from support.builders import PodBuilder, selector

from .worlds import NOW, A, B, World, claims_of, pool

TYPES = ("c-2x-amd64-linux", "s-4x-amd64-linux", "m-8x-amd64-linux")
CPU = ("100m", "400m", "400m", "1500m")


def unlike(key: str, value: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=key, operator="NotIn", values=(value,)),))


def pod(drawn: np.random.Generator, name: str) -> PodBuilder:
    """Mostly a pod that looks at nothing but the node."""
    app = f"app{drawn.integers(2)}"
    made = PodBuilder(name).labels(app=app).req(cpu=str(drawn.choice(CPU)), memory="300Mi").owner("ReplicaSet", app)
    made = made.created(f"2020-01-0{drawn.integers(1, 4)}T00:00:00Z")
    kind = drawn.integers(12)
    if kind == 0:
        return made.node_selector(**{ZONE: A})
    if kind == 1:
        return made.tolerate("dedicated", operator="Exists")
    if kind == 2:
        return made.require_node(unlike("disk", "slow"))
    if kind == 3:
        return made.require_node(NodeSelectorTerm(match_expressions=(one("disk", "fast"),)))
    if kind == 4:
        return made.port(8080)
    if kind == 5:
        return made.spread("zone", selector(app=app), soft=bool(drawn.integers(2)))
    return made


def one(key: str, value: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator="In", values=(value,))


def world(seed: int) -> World:
    """Nodes with and without room, some of which have not settled; pods that wait."""
    drawn = np.random.default_rng(seed)
    rules = Disruption(consolidate_after=5 * MINUTE, budgets=(Budget(nodes="100%"),))
    made = World(pool("default", one_of(ZONE, A, B), cpu_below=9, disruption=rules))
    for number in range(9):
        there = [
            pod(drawn, f"n{number}-{at}").phase(str(drawn.choice(["Running", "Running", "Pending"])))
            for at in range(int(drawn.integers(5)))
        ]
        made.node(
            f"n{number}", str(drawn.choice(TYPES)), *there, zone=str(drawn.choice([A, B])),
            since=NOW - int(drawn.integers(600)) * SECOND,
            taints=(Taint(key="dedicated", effect="NoSchedule"),) if not drawn.integers(4) else (),
            labels={"disk": "slow"} if not drawn.integers(3) else {},
        )  # fmt: skip
    made.pending(*(pod(drawn, f"w{at}") for at in range(int(drawn.integers(14)))))
    return made


def answer(made: World, gone: list[str], *, consolidating: bool) -> Any:
    """Who goes where, in the order in which they came there."""
    snapshot = made.engine.snapshot(made.state, made.catalogue)
    moving: list[KnownPod] = [known for row in gone for known in snapshot.active[snapshot.rows[row]].bound.values()]
    scheduler = Scheduler(
        made.engine, made.catalogue, made.state, snapshot, NOW, moving, gone, consolidating=consolidating
    )
    results = scheduler.solve()
    existing = [(node.name, [each.metadata.name for each in pods]) for node, pods in results.existing]
    return existing, claims_of(results), results.errors


@pytest.mark.parametrize("seed", range(40))
def test_pods_that_are_alike_go_where_each_alone_would_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = world(seed)
    with monkeypatch.context() as patched:
        patched.setattr(Shapes, "_footing", lambda *_: None)
        plain = world(seed)
        one_by_one = [
            answer(plain, gone, consolidating=consolidating)
            for gone in ([], ["n3"], ["n1", "n2", "n5"])
            for consolidating in (False, True)
        ]
    assert [
        answer(quick, gone, consolidating=consolidating)
        for gone in ([], ["n3"], ["n1", "n2", "n5"])
        for consolidating in (False, True)
    ] == one_by_one


def test_most_pods_of_a_kind_are_put_on_a_node_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes with four cores: of ten pods with one core, less what the system keeps, three fit on each."""
    asked: list[tuple[int, int]] = []
    fill = ExistingNodes.fill

    def counted(self: ExistingNodes, pods: Any, *arguments: Any, **more: Any) -> int:
        placed = fill(self, pods, *arguments, **more)
        asked.append((len(pods), placed))
        return placed

    monkeypatch.setattr(ExistingNodes, "fill", counted)
    made = World(pool("default", cpu_below=9))
    for number in range(3):
        made.node(f"n{number}", "s-4x-amd64-linux")
    made.pending(*(PodBuilder(f"p{at}").labels(app=f"app{at}").req(cpu="1") for at in range(10)))
    results = made.round()
    assert [len(pods) for _, pods in results.existing] == [3, 3, 3]
    assert asked == [(10, 9), (1, 0)]


def test_a_node_that_a_pod_does_without_a_label_is_then_open_to_those_that_want_the_label() -> None:
    """As upstream: once a pod that must not find disk=slow is there, the node may have any other value of disk."""
    made = World(pool("default", cpu_below=9))
    made.node("n", "s-4x-amd64-linux")
    wants = PodBuilder("b").req(cpu="100m").require_node(NodeSelectorTerm(match_expressions=(one("disk", "fast"),)))
    made.pending(PodBuilder("a").req(cpu="200m").require_node(unlike("disk", "slow")), wants)
    results = made.round()
    assert [(node.name, [each.metadata.name for each in pods]) for node, pods in results.existing] == [
        ("n", ["a", "b"])
    ]
    alone = World(pool("default", cpu_below=9))
    alone.node("n", "s-4x-amd64-linux")
    alone.pending(wants)
    assert list(alone.round().errors) == ["default/b"]
