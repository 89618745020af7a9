"""Topology counters: what they say after any history is what counting all pods of all nodes gives."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings

from stowplan_scheduler.cache.counters import Contribution, TopologyCounter
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.cache.node_table import Bools, NodeTable
from stowplan_scheduler.effects import Effect
from stowplan_scheduler.framework.pod_info import PodInfo
from support.builders import ZONE, node, pod
from support.histories import BINDINGS, COMMON, RARE, History, Play, histories, scheduler_of
from support.tables import World


def recounted(counter: TopologyCounter, table: NodeTable) -> dict[str, list[int]]:
    """The sum of each row's domain, by key, from the pods themselves."""
    infos = table.infos
    eligible = [True] * len(infos) if counter._eligible_fn is None else counter._eligible_fn(table).tolist()
    domains: dict[str, Counter[str]] = {key: Counter() for key in counter.channels}
    for info, counts in zip(infos, eligible, strict=True):
        for each in counter.source(info) if counts else ():
            for key, weight in counter._contribution(each):
                domains[key][label(info, key)] += weight
    return {key: [sums[label(info, key)] if label(info, key) else 0 for info in infos] for key, sums in domains.items()}


def label(info: NodeInfo, key: str) -> str:
    """A node's value, marked as present; "" where the node lacks the key."""
    value = info.node.metadata.labels.get(key) if info.node else None
    return "" if value is None else f"={value}"


class Recounted(Play):
    """A play that counts again after every cycle."""

    def cycle(self, kind: str = "cycle") -> list[Effect]:
        effects = super().cycle(kind)
        table = self.scheduler.cluster.table
        rows = slice(0, table.size)
        for counter in table.counters:
            counter.refresh()
            got = {key: counter.at(key, rows).tolist() for key in counter.channels}
            assert got == recounted(counter, table)
            assert counter.is_empty == (not any(map(any, got.values())))
        return effects


@given(histories(kinds=(*COMMON, *COMMON, *RARE, *BINDINGS), steps=50))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_counters_follow_every_pod_and_every_label(history: History) -> None:
    """Pods come, go, terminate and change their labels; nodes move to other zones; rows are laid out anew."""
    Recounted(history, scheduler_of(history)).run()


# ---- by hand -------------------------------------------------------------------------------


def count_web(each: PodInfo) -> Contribution:
    """One per pod of the app in its zone."""
    return ((ZONE, 1),) if each.shape.labels.get("app") == "web" and not each.terminating else ()


def all_pods(info: NodeInfo) -> list[PodInfo]:
    return info.pods


def three_nodes() -> World:
    return World(
        [node("a").zone("z1").build(), node("b").zone("z2").build(), node("c").build()],
        [pod(f"p{i}").labels(app="web").on(on).build() for i, on in enumerate(("a", "a", "b", "c"))],
    )


def counter_of(world: World) -> TopologyCounter:
    table = world.cluster.table
    return table.counters.get("web", lambda: TopologyCounter(table, (ZONE,), count_web, all_pods))


def sums(world: World) -> dict[str, int]:
    """By node."""
    at = counter_of(world).at(ZONE, slice(0, world.cluster.table.size))
    return dict(zip(world.names(), at.tolist(), strict=True))


def test_a_node_without_the_label_is_in_no_domain() -> None:
    """Its pod is not counted anywhere, and its own sum is 0."""
    assert sums(three_nodes()) == {"a": 2, "b": 1, "c": 0}


def test_a_node_that_gets_the_label_brings_its_pods() -> None:
    """The pods did not move, so no event of theirs could tell the counter."""
    world = three_nodes()
    assert sums(world)["b"] == 1
    world.cache.update_node(node("c").zone("z2").build())
    world.refresh()
    assert sums(world) == {"a": 2, "b": 2, "c": 2}


def test_a_pod_that_begins_to_terminate_is_counted_no_more() -> None:
    """Its shape stays the same: what it contributes is decided by shape and by whether it terminates."""
    world = three_nodes()
    assert sums(world)["a"] == 2
    world.cache.update_pod(world.info(pod("p0").labels(app="web").on("a").deleting().build()))
    world.refresh()
    assert sums(world)["a"] == 1


def test_only_eligible_nodes_count_and_they_are_looked_up_again() -> None:
    """A pod's own node affinity decides which nodes count for its constraints."""

    def without_taint(table: NodeTable) -> Bools:
        return np.array([not (info.node and info.node.spec.taints) for info in table.infos], np.bool_)

    world = World(
        [node("a").zone("z1").build(), node("b").zone("z1").build()],
        [pod(f"p{i}").labels(app="web").on(on).build() for i, on in enumerate(("a", "b", "b"))],
    )
    table = world.cluster.table

    def total() -> int:
        counter = table.counters.get(
            "eligible", lambda: TopologyCounter(table, (ZONE,), count_web, all_pods, without_taint)
        )
        return int(counter.at(ZONE, slice(0, 1))[0])

    assert total() == 3
    world.cache.update_node(node("b").zone("z1").taint("spot").build())
    world.refresh()
    assert total() == 1
    world.cache.add_pod(world.info(pod("late").labels(app="web").on("b").build()))
    world.refresh()
    assert total() == 1
    world.cache.update_node(node("b").zone("z1").build())
    world.refresh()
    assert total() == 4


def test_rows_that_move_take_their_counts_along() -> None:
    """With a node of the first zone gone, b moves up to its row."""
    world = three_nodes()
    assert sums(world) == {"a": 2, "b": 1, "c": 0}
    world.cache.remove_node(node("a").build())
    world.cache.add_node(node("d").zone("z2").build())
    world.refresh()
    assert sums(world) == {"b": 1, "c": 0, "d": 1}


def test_every_counter_hears_of_a_shape_that_was_there_before_it() -> None:
    """Who is told of a shape is remembered; a counter made later must be asked, too."""
    world = three_nodes()
    table = world.cluster.table
    numbers = []
    for round_number in range(3):
        counter = table.counters.get(
            ("web", round_number), lambda: TopologyCounter(table, (ZONE,), count_web, all_pods)
        )
        world.cache.add_pod(world.info(pod(f"late{round_number}").labels(app="web").on("a").build()))
        world.refresh()
        counter.refresh()
        numbers.append([int(each.at(ZONE, slice(0, 1))[0]) for each in table.counters])
    assert numbers == [[3], [4, 4], [5, 5, 5]]
    assert all(earlier < later for earlier, later in pairwise(numbers))
