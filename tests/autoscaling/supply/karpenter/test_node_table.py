"""The table of nodes: renewed where nodes have changed, it is what a new one would be."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter import Disruption, Engine
from stowplan_autoscaling.supply.karpenter.node_table import NodeTable
from support.builders import PodBuilder

from .worlds import NOW, World, pool

TYPES = ("c-2x-amd64-linux", "s-4x-amd64-linux")


def world() -> World:
    made = World(pool("default", disruption=Disruption(consolidate_after=5 * MINUTE)))
    for number in range(6):
        made.node(f"n{number}", TYPES[number % 2], PodBuilder(f"p{number}").req(cpu="300m"))
    return made


def table_of(made: World) -> NodeTable:
    return made.engine.snapshot(made.state, made.catalogue).table


def facts(table: NodeTable) -> tuple[object, ...]:
    """Everything that a table says; columns of cpu, memory and pods."""
    settled = None if table.settled is None else table.settled.tolist()
    columns = [table.column(column).tolist() for column in range(3)]
    places = table.places.hosts, table.places.rows, table.places.rows_of_host
    names = [node.name for node in table.nodes]
    return names, *places, table.requirements, table.taints, table.sound.tolist(), settled, columns


@pytest.mark.parametrize("seed", range(6))
def test_a_renewed_table_is_what_a_new_one_would_be(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    made = world()
    table_of(made).column(0)
    for number in range(40):
        kind = drawn.integers(8)
        name = f"n{drawn.integers(8)}"
        if kind < 4 and made.state.node(name) is not None:
            made.state.update_pod(PodBuilder(f"q{number}").req(cpu="100m", memory="1Gi").on(name).build(), NOW)
        elif kind == 4:
            made.state.delete_pod(f"default/q{drawn.integers(number + 1)}", NOW)
        elif kind == 5:
            made.node(name, str(drawn.choice(TYPES)), initialized=bool(drawn.integers(3)), since=NOW - number * SECOND)
        elif kind == 6:
            made.state.mark_for_deletion([f"id-{name}"], NOW)
        else:
            made.state.unmark([f"id-{name}"])
        old = table_of(made)
        kept = made.engine, made.catalogue
        made.engine = Engine(made.options)
        made.catalogue = made.made_catalogue()
        new = table_of(made)
        made.engine, made.catalogue = kept
        assert facts(old) == facts(new)


def test_only_rows_that_changed_are_worked_out_again() -> None:
    made = world()
    before = table_of(made)
    cpu = before.column(0)
    made.pending(PodBuilder("w").req(cpu="64"))
    assert table_of(made) is before
    made.state.update_pod(PodBuilder("q").req(cpu="100m").on("n2").build(), NOW)
    after = table_of(made)
    assert after.places is before.places
    assert (cpu - after.column(0)).tolist() == [0, 0, 100 * 10**6, 0, 0, 0]
    made.state.delete_node("n0", NOW)
    made.state.delete_claim("claim-n0", NOW)
    assert table_of(made).places.rows == {f"n{number}": number - 1 for number in range(1, 6)}
