"""What is kept between rounds changes no decision: an engine that has seen much decides as a new one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter import Budget, Disruption, one_of
from stowplan_autoscaling.supply.karpenter.disruption import (
    DisruptionController,
    DisruptionQueue,
    Start,
    Wait,
    simulation,
)
from stowplan_autoscaling.supply.karpenter.disruption.bounds import are_hopeless_alone, is_hopeless
from stowplan_autoscaling.supply.karpenter.disruption.consolidation import VainLook
from stowplan_autoscaling.supply.karpenter.disruption.methods import Method
from stowplan_autoscaling.supply.karpenter.labels import ZONE
from stowplan_autoscaling.supply.karpenter.node_pools import BALANCED, NodePool
from support.builders import PodBuilder, selector

from .worlds import NOW, A, B, World, claims_of, moves_of, pool

TYPES = ("c-2x-amd64-linux", "s-4x-amd64-linux", "m-8x-amd64-linux")
CORES = {name: int(name.split("-")[1][:-1]) for name in TYPES}
CPU = ("100m", "400m", "900m", "1500m", "3")

Step = Callable[[World], None]


def pools(policy: str) -> list[NodePool]:
    rules = Disruption(policy=policy, budgets=(Budget(nodes="100%"),))
    return [pool("default", one_of(ZONE, A, B), cpu_below=9, disruption=rules)]


def pod(drawn: np.random.Generator, name: str) -> PodBuilder:
    """A pod of one of some workloads, with or without rules about its like."""
    app = f"app{drawn.integers(3)}"
    builder = PodBuilder(name).labels(app=app).req(cpu=str(drawn.choice(CPU)), memory="300Mi").owner("ReplicaSet", app)
    like = selector(app=app)
    kind = drawn.integers(7)
    if kind == 0:
        return builder.spread("zone", like)
    if kind == 1:
        return builder.spread("hostname", like, max_skew=2, soft=bool(drawn.integers(2)))
    if kind == 2:
        return builder.anti_affinity("hostname", like)
    return builder.affinity("zone", like, weight=5) if kind == 3 else builder


def steps(drawn: np.random.Generator, count: int) -> list[Step]:
    """Nodes and pods that come and go."""
    made: list[Step] = []
    nodes: list[str] = []
    pods: list[str] = []
    for number in range(count):
        kind = drawn.integers(10)
        if kind < 2 or not nodes:
            name, type_, zone = f"n{number}", str(drawn.choice(TYPES)), str(drawn.choice([A, B]))
            known: dict[str, Any] = {"initialized": bool(drawn.integers(5))}
            made.append(lambda w, n=name, t=type_, z=zone, k=known: w.node(n, t, zone=z, **k))  # type: ignore[misc]
            nodes.append(name)
        elif kind < 5:
            builder, node = pod(drawn, f"p{number}"), str(drawn.choice(nodes))
            made.append(lambda w, b=builder, n=node: w.state.update_pod(b.on(n).build(), NOW))  # type: ignore[misc]
            pods.append(f"default/p{number}")
        elif kind < 7:
            builder = pod(drawn, f"q{number}")
            made.append(lambda w, b=builder: w.pending(b))  # type: ignore[misc]
            pods.append(f"default/q{number}")
        elif kind < 9 and pods:
            gone = pods.pop(int(drawn.integers(len(pods))))
            made.append(lambda w, g=gone: w.state.delete_pod(g, NOW))  # type: ignore[misc]
        else:
            gone = str(drawn.choice(nodes))
            made.append(lambda w, g=gone: w.state.mark_for_deletion([f"id-{g}"], NOW))  # type: ignore[misc]
    return made


def command(world: World) -> tuple[str, list[str], list[str]] | None:
    """What a disruption loop that begins now would do."""
    controller = DisruptionController(DisruptionQueue(world.state))
    outcome = controller.advance(world.scene, NOW)
    while isinstance(outcome, Wait):
        outcome = controller.advance(world.scene, outcome.until)
    if not isinstance(outcome, Start):
        return None
    nodes = sorted(candidate.name for candidate in outcome.command.candidates)
    return outcome.command.reason, nodes, [claim.types[0].name for claim in outcome.command.replacements]


def consolidations(world: World) -> list[tuple[list[str], list[str]] | None]:
    """What multi-node and single-node consolidation would do, empty nodes aside."""
    found: list[tuple[list[str], list[str]] | None] = []
    for method in DisruptionController(DisruptionQueue(world.state)).methods[2:]:
        candidates, totals = method.candidates(world.scene, NOW)
        made = method.propose(world.scene, candidates, totals, {"default": 100}, NOW)
        nodes = [] if made is None else sorted(candidate.name for candidate in made.candidates)
        found.append(None if made is None else (nodes, [claim.types[0].name for claim in made.replacements]))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_an_engine_that_has_seen_much_decides_as_a_new_one_does(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    made = steps(drawn, 60)
    old = World(*pools("WhenEmptyOrUnderutilized"))
    decisions = 0
    for number, step in enumerate(made):
        step(old)
        if number % 4:
            continue
        new = World(*pools("WhenEmptyOrUnderutilized"))
        for earlier in made[: number + 1]:
            earlier(new)
        ours, theirs = old.round(), new.round()
        assert claims_of(ours) == claims_of(theirs)
        assert moves_of(ours) == moves_of(theirs)
        assert ours.errors == theirs.errors
        assert command(old) == command(new)
        decisions += bool(ours.claims or ours.existing)
    assert decisions > 3


def crowd(drawn: np.random.Generator, world: World) -> None:
    """Three machines with as many pods as they hold, and one that is not full."""
    for number in range(4):
        name, type_ = f"n{number}", str(drawn.choice(TYPES))
        world.node(name, type_, zone=str(drawn.choice([A, B])))
        room = 1000 * CORES[type_] * (0.6 if number == 3 else 0.9)
        for at in range(20):
            cpu = int(drawn.integers(100, 2000))
            room -= cpu
            if room < 0:
                break
            world.state.update_pod(pod(drawn, f"p{number}-{at}").req(cpu=f"{cpu}m").on(name).build(), NOW)


@pytest.mark.parametrize("policy", ["WhenEmptyOrUnderutilized", BALANCED])
def test_what_is_called_hopeless_would_not_have_worked(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the moves that are asked about some are hopeless and others are not."""
    calls: list[bool] = []
    alone: list[bool] = []

    def counted(*arguments: Any) -> bool:
        calls.append(is_hopeless(*arguments))
        return calls[-1]

    def all_counted(*arguments: Any) -> list[bool]:
        found = are_hopeless_alone(*arguments)
        alone.extend(found)
        return found

    for seed in range(16):
        drawn = np.random.default_rng(100 + seed)
        world = World(*pools(policy))
        if seed % 2:
            crowd(drawn, world)
        else:
            for step in steps(drawn, 50):
                step(world)
        monkeypatch.setattr(simulation, "is_hopeless", counted)
        monkeypatch.setattr(simulation, "are_hopeless_alone", all_counted)
        quick = consolidations(world)
        monkeypatch.setattr(simulation, "is_hopeless", lambda *_: False)
        monkeypatch.setattr(simulation, "are_hopeless_alone", lambda _, __, found, *___: [False] * len(found))
        assert consolidations(world) == quick, seed
    assert any(calls)
    assert not all(calls)
    assert any(alone)
    assert not all(alone)


def test_a_round_sees_pods_that_came_after_the_last_one() -> None:
    world = World(*pools("WhenEmpty"))
    world.pending(PodBuilder("p").req(cpu="1"))
    assert [pods for _, pods, _ in claims_of(world.round())] == [["p"]]
    world.pending(PodBuilder("q").req(cpu="1"))
    assert [pods for _, pods, _ in claims_of(world.round(NOW + SECOND))] == [["p", "q"]]


@pytest.mark.parametrize("seed", range(8))
def test_a_look_that_repeats_one_in_vain_finds_what_a_new_look_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets hold nodes back, so that the same is asked again and again while nodes settle one after the other."""
    drawn = np.random.default_rng(1000 + seed)
    rules = Disruption(budgets=(Budget(nodes="2"),), consolidate_after=5 * MINUTE)
    world = World(pool("default", one_of(ZONE, A, B), cpu_below=9, disruption=rules))
    for number in range(8):
        quiet_since = NOW - int(drawn.integers(300)) * SECOND
        there = [pod(drawn, f"o{number}-{each}") for each in range(3)]
        world.node(f"old{number}", str(drawn.choice(TYPES)), *there, since=quiet_since)
    quick, thorough = (DisruptionController(DisruptionQueue(world.state)).methods[2:] for _ in range(2))
    made, now = steps(drawn, 10), NOW
    for number in range(60):
        now += 10 * SECOND
        if number % 6 == 5:
            made[number // 6](world)
        for mine, other in zip(quick, thorough, strict=True):
            answer = answer_of(mine, world, now)
            with monkeypatch.context() as patched:
                patched.setattr(VainLook, "is_repeated_by", lambda *_: False)
                assert answer_of(other, world, now) == answer, (number, mine.kind)


def answer_of(method: Method, world: World, now: int) -> tuple[list[str], list[str]] | None:
    """What a method would do now, of each pool two nodes at the most."""
    candidates, totals = method.candidates(world.scene, now)
    made = method.propose(world.scene, candidates, totals, {"default": 2}, now) if candidates else None
    if made is None:
        return None
    nodes = sorted(candidate.name for candidate in made.candidates)
    return nodes, [claim.types[0].name for claim in made.replacements]
