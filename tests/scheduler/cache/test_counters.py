"""Topology counters: what they say after any history is what counting all pods of all nodes gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan_scheduler.cache import counters
from stowplan_scheduler.cache.counters import Contribution, TopologyCounter
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.cache.node_table import Bools, NodeTable
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import Bind, Effect
from stowplan_scheduler.events import EffectDone, ObjectAdded
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.scheduler import Scheduler
from support.builders import HOSTNAME, ZONE, node, pod, selector
from support.histories import BINDINGS, COMMON, RARE, History, Play, histories, scheduler_of
from support.tables import World

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


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
            table.counters.used(counter)
            got = {key: counter.at(key, rows).tolist() for key in counter.channels}
            assert got == recounted(counter, table)
            assert counter.is_empty == (not any(map(any, got.values())))
        return effects


@given(histories(kinds=(*COMMON, *COMMON, *RARE, *BINDINGS), steps=50))
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_counters_follow_every_pod_and_every_label(history: History) -> None:
    """Pods come, go, terminate and change their labels; nodes move to other zones; rows are laid out anew."""
    Recounted(history, scheduler_of(history)).run()


@given(histories(kinds=(*COMMON, *COMMON, *RARE, *BINDINGS), steps=50))
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_dropped_counters_are_made_anew(history: History) -> None:
    """With room for very few of them, counters are dropped all the time, and what is known of shapes is forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "MAX_COUNTERS", 4)
        patch.setattr(counters, "MAX_REMEMBERED", 6)
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


def test_counters_that_nobody_asks_for_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs have labels of their own, so each makes counters that are never asked for again."""
    monkeypatch.setattr(counters, "MAX_COUNTERS", 40)
    monkeypatch.setattr(counters, "MAX_REMEMBERED", 100)
    scheduler = Scheduler(load_configuration(CONFIG), First())
    scheduler.receive(ObjectAdded(node("n").capacity(cpu="1000", pods="1000").build()), 0)
    most = 0
    for number in range(200):
        job = pod(f"p{number}").labels(app="job", job=f"j{number}")
        job = job.anti_affinity(ZONE, selector(app="job"), weight=1).spread(HOSTNAME, selector(job=f"j{number}"))
        scheduler.receive(ObjectAdded(job.build()), 0)
        for effect in scheduler.run_cycle(0):
            if isinstance(effect, Bind):
                scheduler.receive(EffectDone(effect.id), 0)
        most = max(most, len(list(scheduler.cluster.table.counters)))
    assert scheduler.cache.pod_count == 200
    assert 35 <= most <= 40


def _itself(counter: TopologyCounter) -> TopologyCounter:
    return counter


def test_a_pod_is_not_asked_about_counters_of_other_labels() -> None:
    """A cluster has thousands of apps with selectors of their own; a new pod concerns one or two of them."""
    world = three_nodes()
    table = world.cluster.table
    asked: list[str] = []

    def contribution_of(app: str) -> Callable[[PodInfo], Contribution]:
        def contribution(each: PodInfo) -> Contribution:
            asked.append(app)
            return ((ZONE, 1),) if each.shape.labels.get("app") == app else ()

        return contribution

    for app in ("web", "db", "cache"):
        wanted = (("app", app), ("managed-by", "us"))
        made = TopologyCounter(table, (), contribution_of(app), all_pods, wanted=wanted)
        table.counters.get(app, partial(_itself, made))
    asked.clear()
    world.cache.add_pod(world.info(pod("late").labels(app="db", **{"managed-by": "us"}).on("a").build()))
    world.refresh()
    assert asked == ["db"]
    totals = {
        c.wanted[0][1]: sum(int(channel.per_row.sum()) for channel in c.channels.values()) for c in table.counters
    }
    assert totals == {"web": 0, "db": 1, "cache": 0}


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12), st.sampled_from([1, 2, 64]))
@settings(max_examples=60)
def test_a_counter_that_is_not_asked_for_a_while_catches_up(moves: list[tuple[int, bool]], most: int) -> None:
    """Nodes with a pod of each of two apps come and go, all of them too; one app's counter is read at the end only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "MOST_MOVES", most)
        world = World()
        often, seldom = (counting(world, app) for app in ("a", "b"))
        there: list[str] = []
        for number, (at, comes) in enumerate(moves):
            if comes or not there:
                name = f"n{number}"
                there.append(name)
                world.cache.add_node(node(name).zone(f"z{at % 2}").build())
                for app in ("a", "b"):
                    world.cache.add_pod(world.interner.info(pod(f"{app}-{name}").labels(app=app).on(name).build()))
            else:
                name = there.pop(at % len(there))
                gone = world.cache.get_node(name)
                assert gone is not None
                assert gone.node is not None
                for info in list(gone.pods):
                    world.cache.remove_pod(info)
                world.cache.remove_node(gone.node)
            world.refresh()
            assert world.cluster.table.counters.used(often).channels[ZONE].per_row.tolist() == [1] * len(there)
        assert world.cluster.table.counters.used(seldom).channels[ZONE].per_row.tolist() == [1] * len(there)


def counting(world: World, app: str) -> TopologyCounter:
    """The counter of an app's pods per zone."""

    def make() -> TopologyCounter:
        def contribution(info: PodInfo) -> tuple[tuple[str, int], ...]:
            return ((ZONE, 1),) if info.shape.labels.get("app") == app else ()

        return TopologyCounter(world.cluster.table, (ZONE,), contribution, lambda info: info.pods)

    return world.cluster.table.counters.get(app, make)
