"""The node table: after any history its columns are those of a table that reads the snapshot for the first time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from stowplan_scheduler.cache.node_table import NodeTable
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.cache.snapshot import RowChange, Snapshot, SnapshotDelta
from stowplan_scheduler.effects import Effect
from stowplan_scheduler.framework.pod_info import PodInfo
from support.builders import ZONE, node, pod
from support.histories import BINDINGS, COMMON, RARE, History, Play, histories, scheduler_of
from support.tables import World

NUMBERS = ("allowed_pods", "pod_count", "unschedulable", "with_ports")
CODES = (("taints", "taint_sets"), ("images", "image_sets"), ("features", "feature_sets"))
KEYS = ("kubernetes.io/hostname", ZONE, "rack", "size", "absent")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "example.com/absent")


def contents(table: NodeTable) -> dict[str, list[object]]:
    """Every column in plain values: codes stand in another order in another table."""
    view = NodeView(table, slice(0, table.size))
    found: dict[str, list[object]] = {name: getattr(table, name).tolist() for name in NUMBERS}
    for column, values in CODES:
        meaning = getattr(table, values).values
        found[column] = [meaning[code] for code in getattr(table, column)]
    for key in KEYS:
        label = table.labels(key)
        found[key] = [label.interned.values[code] for code in label.codes]
    # Matrices with a row per resource; cpu and memory alone are read another way than a mixture.
    for prefix, resources in (("", RESOURCES), ("main ", RESOURCES[:2])):
        found[f"{prefix}requested"] = view.requested(resources).tolist()
        found[f"{prefix}non-zero requested"] = view.non_zero_requested(resources).tolist()
        found[f"{prefix}allocatable"] = view.allocatable(resources).tolist()
    found["names"] = [info.name for info in table.infos]
    return found


def read_anew(snapshot: Snapshot) -> NodeTable:
    """A table that has never seen another snapshot."""
    infos = snapshot.node_info_list
    changes = [RowChange(info, [(each, 1) for each in info.pods], True) for info in infos]
    table = NodeTable()
    table.apply(snapshot, SnapshotDelta(changes=changes, relaid=True, previous_rows=[-1] * len(infos)))
    return table


def test_amounts_are_those_of_the_nodes_and_their_pods() -> None:
    """Worked out by hand: millicores, bytes, counts; containers without requests count as 100m and 200 MiB."""
    made = node("a").capacity(cpu="1930m", memory="4Gi", gpu="2").build()
    running = [pod("p").req(cpu="250m", memory="1Gi", gpu="1").on("a").build(), pod("q").on("a").build()]
    found = contents(World([made], running).cluster.table)
    amounts = zip(found["requested"], found["non-zero requested"], found["allocatable"], strict=True)
    order = dict(zip(RESOURCES, amounts, strict=True))
    assert found["main requested"] == found["requested"][:2]
    assert found["main non-zero requested"] == found["non-zero requested"][:2]
    assert found["main allocatable"] == found["allocatable"][:2]
    assert order["cpu"] == ([250], [350], [1930])
    assert order["memory"] == ([2**30], [2**30 + 200 * 2**20], [4 * 2**30])
    assert order["example.com/gpu"] == ([1], [1], [2])
    assert order["example.com/absent"] == ([0], [0], [0])


class Watched(Play):
    """A play that looks at the table after every cycle."""

    def cycle(self, kind: str = "cycle") -> list[Effect]:
        effects = super().cycle(kind)
        cluster = self.scheduler.cluster
        assert contents(cluster.table) == contents(read_anew(cluster.snapshot))
        assert {name: info.row for name, info in cluster.snapshot.node_info_map.items()} == cluster.table.row_of
        return effects


@given(histories(kinds=(*COMMON, *RARE, *BINDINGS), steps=40))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_following_deltas_comes_to_the_same_as_reading_everything(history: History) -> None:
    """Nodes come, go and change; pods come and go; rows are laid out anew in between."""
    Watched(history, scheduler_of(history)).run()


# ---- what readers of the table rely on ---------------------------------------------------


def moved(world: World, change: Callable[[], object]) -> dict[str, int]:
    """By how much each version moves when the cache changes like that."""
    before = versions(world)
    change()
    world.refresh()
    after = versions(world)
    return {name: after[name] - before[name] for name in before if after[name] != before[name]}


def versions(world: World) -> dict[str, int]:
    table = world.cluster.table
    return {name: getattr(table, name) for name in ("layout", "node_version", "topology_version")}


def two_nodes() -> World:
    world = World([node("a").zone("z1").build(), node("b").zone("z2").build()])
    world.cluster.table.labels(ZONE)
    return world


def test_a_pod_moves_no_version_but_is_logged() -> None:
    """Rules that read the node alone must keep their answers when a pod comes; the others must not."""
    world = two_nodes()
    log = world.cluster.table.rows
    position = log.end
    assert moved(world, lambda: world.cache.add_pod(world.info(pod("p").on("b").build()))) == {}
    assert log.since(position) == [1]


def test_a_new_object_of_a_pod_is_logged_only_where_it_takes_ports() -> None:
    """What rules kept for the row still holds when a pod became ready; a pod with ports takes them again, though."""
    world = two_nodes()
    log = world.cluster.table.rows
    for built, expected in ((pod("p").on("b"), []), (pod("q").on("a").port(80), [0])):
        info = world.info(built.build())
        world.cache.add_pod(info)
        world.refresh()
        position = log.end
        world.cache.update_pod(PodInfo(replace(info.pod, status=replace(info.pod.status, phase="Running")), info.shape))
        assert moved(world, lambda: None) == {}
        assert log.since(position) == expected


def test_whether_every_node_has_a_label_follows_the_nodes() -> None:
    """A spread constraint looks for nodes without its key only where there are some."""
    world = two_nodes()
    assert world.cluster.table.all_labelled(ZONE)
    world.cache.update_node(node("b").build())
    world.refresh()
    assert not world.cluster.table.all_labelled(ZONE)
    world.cache.update_node(node("b").zone("z3").build())
    world.refresh()
    assert world.cluster.table.all_labelled(ZONE)
    world.cache.add_node(node("c").build())
    world.refresh()
    assert not world.cluster.table.all_labelled(ZONE)


def test_a_taint_moves_the_version_of_the_nodes_and_not_of_the_topology() -> None:
    """The stamp tells which row it was."""
    world = two_nodes()
    tainted = node("b").zone("z2").taint("spot").build()
    assert moved(world, lambda: world.cache.update_node(tainted)) == {"node_version": 1}
    table = world.cluster.table
    assert np.flatnonzero(table.node_stamp == table.node_version).tolist() == [1]


def test_a_label_moves_the_version_of_the_topology_if_somebody_has_asked_for_it() -> None:
    """Counters sum up by domain again; a label that no column holds is no topology."""
    world = two_nodes()
    assert moved(world, lambda: world.cache.update_node(node("b").zone("z9").build())) == {
        "node_version": 1,
        "topology_version": 1,
    }
    assert moved(world, lambda: world.cache.update_node(node("b").zone("z9").label("other", "x").build())) == {
        "node_version": 1
    }


def test_a_new_node_lays_all_rows_out_anew() -> None:
    """Zones take turns, so a node of the first zone comes between; every position from before is void."""
    world = two_nodes()
    table = world.cluster.table
    position = table.rows.end
    assert moved(world, lambda: world.cache.add_node(node("c").zone("z1").build())) == {
        "layout": 1,
        "node_version": 1,
        "topology_version": 1,
    }
    assert world.names() == ["a", "b", "c"]
    assert table.rows.since(position) is None
    assert (table.node_stamp == table.node_version).all()


def test_a_reader_that_slept_too_long_is_told_so() -> None:
    """The log keeps its newest entries; a position before them is answered with None, not with part of the truth."""
    world = two_nodes()
    table = world.cluster.table
    for number in range(20_000):
        table.rows.entries.append(number % 2)
        table.rows.trim()
    assert table.rows.since(0) is None
    assert table.rows.since(table.rows.end - 2) == [0, 1]
    assert len(table.rows.entries) <= 16_384
