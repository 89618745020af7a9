"""Proofs that taking a node away comes to nothing: what must have a place beside the pods that move."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_autoscaling.supply.karpenter import Disruption
from stowplan_autoscaling.supply.karpenter.disruption import DisruptionController, DisruptionQueue, simulation
from stowplan_autoscaling.supply.karpenter.disruption.candidates import Candidate
from support.builders import PodBuilder, selector

from .worlds import NOW, World, instance_type, pool

SMALL, LARGE = "small", "large"
TYPES = (instance_type(SMALL, "2", "8Gi", 0.1), instance_type(LARGE, "4", "16Gi", 0.2))


def small_world(**fields: Any) -> World:
    """Machines with 2 and 4 cores at 0.1 and 0.2 an hour."""
    return World(pool("default", disruption=Disruption(), **fields), types=TYPES)


def pods(name: str, count: int, cpu: str) -> list[PodBuilder]:
    return [PodBuilder(f"{name}{at}").req(cpu=cpu).owner("ReplicaSet", name) for at in range(count)]


def candidates_of(world: World) -> list[Candidate]:
    single = DisruptionController(DisruptionQueue(world.state)).methods[3]
    return single.candidates(world.scene, NOW)[0]


def works(world: World, candidate: Candidate) -> bool:
    """Whether a round without the node comes to something, bounds or not."""
    results = world.scene.without([candidate], NOW, consolidating=True)
    return results is not None and results.all_bound_pods_placed


def two_small_nodes(*waiting: PodBuilder, **fields: Any) -> World:
    """Half a core runs on one; on the other 0.6 are left."""
    world = small_world(**fields)
    world.node("a", SMALL, *pods("a", 1, "500m"))
    world.node("b", SMALL, *pods("b", 1, "500m"), *pods("filler", 1, "900m"))
    world.pending(*waiting)
    return world


def test_a_node_can_go_whose_pods_fit_elsewhere() -> None:
    world = two_small_nodes()
    a, b = candidates_of(world)
    assert [a.name, b.name] == ["a", "b"]
    assert world.scene.are_hopeless_alone([a, b], NOW) == [False, False]
    assert works(world, a)


def test_pods_that_wait_need_a_place_too() -> None:
    """The one that waits fills the room that the node's pod would have needed; no smaller machine is to be had."""
    world = two_small_nodes(*pods("w", 1, "500m"))
    a, _ = candidates_of(world)
    assert world.scene.are_hopeless_alone([a], NOW) == [True]
    assert not works(world, a)


def test_a_pod_that_no_machine_would_take_needs_no_place() -> None:
    world = two_small_nodes(PodBuilder("w").req(cpu="64"))
    a, _ = candidates_of(world)
    assert world.scene.are_hopeless_alone([a], NOW) == [False]
    assert works(world, a)


@pytest.mark.parametrize("limit", [10 * 10**9, 100 * 10**9])
def test_a_pod_that_waits_counts_for_nothing_where_its_pool_has_limits(limit: int) -> None:
    """Whether it would get a machine depends on what else the round has launched."""
    world = two_small_nodes(*pods("w", 1, "500m"), limits={"cpu": limit})
    a, _ = candidates_of(world)
    assert world.scene.are_hopeless_alone([a], NOW) == [False]


def test_a_pod_that_waits_counts_for_nothing_where_pods_keep_others_out() -> None:
    guard = PodBuilder("guard").req(cpu="100m").owner("ReplicaSet", "guard")
    world = two_small_nodes(*pods("w", 1, "500m"))
    world.node("c", SMALL, guard.anti_affinity("zone", selector(app="w")))
    a = candidates_of(world)[0]
    assert world.scene.are_hopeless_alone([a], NOW) == [False]


def test_pods_of_nodes_that_leave_anyway_need_a_place_first() -> None:
    world = two_small_nodes()
    world.node("c", SMALL, *pods("c", 1, "500m"))
    world.state.mark_for_deletion(["id-c"], NOW)
    a, _ = candidates_of(world)
    assert world.scene.are_hopeless_alone([a], NOW) == [True]
    assert not works(world, a)


def test_room_in_pieces_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.9 cores are left on each of two nodes, as much as three pods with 0.6 demand, but only two of them fit."""
    world = small_world()
    for name in "bc":
        world.node(name, SMALL, *pods(name, 1, "1100m"))
    world.node("a", SMALL, *pods("a", 3, "600m"))
    a = candidates_of(world)[0]
    assert world.scene.are_hopeless_alone([a], NOW) == [False]
    monkeypatch.setattr(simulation, "Scheduler", None)
    assert world.scene.without([a], NOW, consolidating=True) is None


def test_what_does_not_fit_may_go_to_a_cheaper_machine() -> None:
    world = small_world()
    for name in "bc":
        world.node(name, SMALL, *pods(name, 1, "1100m"))
    world.node("a", LARGE, *pods("a", 3, "600m"))
    a = candidates_of(world)[0]
    results = world.scene.without([a], NOW, consolidating=True)
    assert results is not None
    assert [(len(claim.pods), claim.types[0].name) for claim in results.claims] == [(1, SMALL)]
