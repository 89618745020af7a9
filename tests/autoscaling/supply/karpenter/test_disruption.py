"""Which nodes are taken away, and what comes in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter import Budget, Disruption, one_of
from stowplan_autoscaling.supply.karpenter.disruption import (
    DELETE,
    DRIFTED,
    EMPTY,
    REPLACE,
    UNDERUTILIZED,
    Command,
    Idle,
    Start,
    Wait,
)
from stowplan_autoscaling.supply.karpenter.disruption.balanced import score
from stowplan_autoscaling.supply.karpenter.disruption.budgets import allowed, remaining
from stowplan_autoscaling.supply.karpenter.disruption.candidates import PoolTotals, may_be_disrupted
from stowplan_autoscaling.supply.karpenter.disruption.cost import disruption_cost, eviction_cost
from stowplan_autoscaling.supply.karpenter.labels import CAPACITY_TYPE, ON_DEMAND, SPOT
from stowplan_autoscaling.supply.karpenter.node_pools import BALANCED, WHEN_EMPTY, NodePool
from stowplan_autoscaling.supply.karpenter.pool_counts import count_nodes
from stowplan_scheduler.objects import ObjectMeta, Pod, PodDisruptionBudget, PodDisruptionBudgetSpec
from stowplan_scheduler.timestamps import parse_time
from support.builders import PodBuilder, selector

from .worlds import NOW, World, instance_type, moves_of, pool

TYPES = [
    instance_type("small", "2", "4Gi", 1.0),
    instance_type("mid", "4", "8Gi", 2.0),
    instance_type("big", "8", "16Gi", 4.0),
]
ALL = (Budget(nodes="100%"),)


def free(policy: str = "WhenEmptyOrUnderutilized", *budgets: Budget, after: int | None = 0) -> NodePool:
    return pool(disruption=Disruption(policy=policy, consolidate_after=after, budgets=budgets or ALL))


def web(name: str, cpu: str = "1") -> PodBuilder:
    return PodBuilder(name).labels(app=name).req(cpu=cpu, memory="1Gi").owner("ReplicaSet", "web")


def decided(world: World, now: int = NOW) -> Command | None:
    """The command of the next turn of the loop, 15 s later if it has to be looked at again."""
    outcome = world.controller.advance(world.scene, now)
    while isinstance(outcome, Wait):
        outcome = world.controller.advance(world.scene, outcome.until)
    return outcome.command if isinstance(outcome, Start) else None


def told(command: Command | None) -> tuple[str, str, list[str], list[str]] | None:
    """Reason, decision, nodes, and the type that each replacement would become."""
    if command is None:
        return None
    nodes = sorted(candidate.name for candidate in command.candidates)
    return command.reason, command.decision, nodes, [claim.types[0].name for claim in command.replacements]


# ---- emptiness -------------------------------------------------------------------------------------------------------


def test_empty_nodes_go_together_as_far_as_the_budget_allows_the_dearest_first() -> None:
    world = World(free(WHEN_EMPTY, Budget(nodes="2")), types=TYPES)
    for name, type_ in (("a", "small"), ("b", "big"), ("c", "mid")):
        world.node(name, type_)
    assert told(decided(world)) == (EMPTY, DELETE, ["b", "c"], [])


def test_a_found_command_is_looked_at_again_after_fifteen_seconds() -> None:
    world = World(free(WHEN_EMPTY), types=TYPES)
    world.node("a", "small")
    assert world.controller.advance(world.scene, NOW) == Wait(NOW + 15 * SECOND)
    world.state.update_pod(web("late").on("a").build(), NOW + SECOND)
    assert world.controller.advance(world.scene, NOW + 15 * SECOND) == Idle(NOW + 25 * SECOND)


def test_daemon_pods_and_pods_that_cost_nothing_leave_a_node_empty() -> None:
    world = World(free(WHEN_EMPTY), types=TYPES)
    cheap = web("p").build()
    cheap = changed(
        cheap,
        metadata=changed(cheap.metadata, annotations={"karpenter.sh/disruption-cost": "-134217728"}),
        spec=changed(cheap.spec, node_name="b"),
    )
    world.node("a", "small", web("d").owner("DaemonSet", "d"))
    world.node("b", "small")
    world.state.update_pod(cheap, NOW)
    assert told(decided(world)) == (EMPTY, DELETE, ["a", "b"], [])


def test_a_budget_of_zero_for_a_reason_holds_only_that_back() -> None:
    world = World(free(WHEN_EMPTY, Budget(nodes="0", reasons=("Empty",)), Budget(nodes="5")), types=TYPES)
    world.node("a", "small", drifted=NOW)
    assert told(decided(world)) == (DRIFTED, DELETE, ["a"], [])


# ---- consolidation ---------------------------------------------------------------------------------------------------


def test_a_node_whose_pods_fit_elsewhere_goes() -> None:
    world = World(free("WhenEmptyOrUnderutilized", Budget(nodes="1")), types=TYPES)
    world.node("a", "big", web("p"))
    world.node("b", "small", web("q"))
    command = decided(world)
    assert told(command) == (UNDERUTILIZED, DELETE, ["a"], [])
    assert command is not None
    assert moves_of(command.results) == {"b": ["p"]}
    assert command.savings(world.options.well_known) == 4.0


def test_a_node_is_replaced_by_a_cheaper_one() -> None:
    world = World(free(), types=TYPES)
    world.node("a", "big", web("p", "3"))
    command = decided(world)
    assert told(command) == (UNDERUTILIZED, REPLACE, ["a"], ["mid"])
    assert command is not None
    assert [item.name for item in command.replacements[0].types] == ["mid"]
    assert command.savings(world.options.well_known) == 2.0


def test_several_nodes_go_for_one_that_is_cheaper_than_all_of_them() -> None:
    """The pods of three machines for 3 fit into one for 2; those of four need one for 4."""
    world = World(free(), types=TYPES)
    for name in "abcd":
        world.node(name, "small", web(f"p{name}", "1300m"))
    assert told(decided(world)) == (UNDERUTILIZED, REPLACE, ["a", "b", "c"], ["mid"])


def test_a_replacement_of_a_candidates_own_type_must_be_cheaper_than_that_candidate() -> None:
    """Otherwise the candidate might as well stay: then one of the two goes and the other takes its pods."""
    world = World(free(), types=TYPES[:1] + TYPES[2:])
    world.node("a", "small", web("p", "500m"))
    world.node("b", "big", web("q", "6"))
    command = decided(world)
    assert told(command) == (UNDERUTILIZED, DELETE, ["a"], [])


def test_a_replacement_must_cost_less_than_what_goes() -> None:
    """Two machines for 1 each would become one for 2."""
    world = World(free(), types=TYPES[:2])
    world.node("a", "small", web("p", "1800m"))
    world.node("b", "small", web("q", "1800m"))
    assert decided(world) is None


@pytest.mark.parametrize(
    ("gate", "cheaper", "expected"), [(False, 20, None), (True, 14, None), (True, 15, 15), (True, 20, 15)]
)
def test_a_spot_node_is_replaced_by_spot_only_with_fifteen_cheaper_types(
    gate: bool, cheaper: int, expected: int | None
) -> None:
    types = [instance_type(f"t{i:02d}", "2", "4Gi", 9.0, spot=0.1 + i / 100) for i in range(cheaper)]
    types.append(instance_type("own", "2", "4Gi", 9.0, spot=1.0))
    rules = Disruption(budgets=ALL)
    spot_pool = pool("default", one_of(CAPACITY_TYPE, SPOT, ON_DEMAND), disruption=rules)
    world = World(spot_pool, types=types, spot_to_spot=gate)
    world.node("a", "own", web("p"), kind=SPOT)
    command = decided(world)
    assert (None if command is None else len(command.replacements[0].types)) == expected


def test_an_on_demand_node_is_replaced_by_spot_and_nothing_else() -> None:
    types = [instance_type("t", "2", "4Gi", 1.0, spot=0.4)]
    world = World(
        pool("default", one_of(CAPACITY_TYPE, SPOT, ON_DEMAND), disruption=Disruption(budgets=ALL)), types=types
    )
    world.node("a", "t", web("p"))
    command = decided(world)
    assert command is not None
    assert command.replacements[0].requirements.get(CAPACITY_TYPE) == one_of(CAPACITY_TYPE, SPOT)
    assert command.savings(world.options.well_known) == pytest.approx(0.6)


def test_pods_do_not_move_to_nodes_that_still_settle() -> None:
    rules = Disruption(consolidate_after=5 * MINUTE, budgets=(Budget(nodes="1"),))
    world = World(pool(disruption=rules), types=TYPES[:1])
    world.node("a", "small", web("p"), since=NOW - 1000 * SECOND)
    world.node("b", "small", web("q"), consolidatable=None, last_pod_event=NOW - 1 * MINUTE)
    assert decided(world) is None
    later = NOW + 5 * MINUTE
    assert told(decided(world, later)) == (UNDERUTILIZED, DELETE, ["a"], [])


def test_pods_do_not_rely_on_a_node_that_is_not_complete() -> None:
    world = World(free("WhenEmptyOrUnderutilized", Budget(nodes="1")), types=TYPES[:1])
    world.node("a", "small", web("p"))
    world.node("b", "small", initialized=False)
    assert decided(world) is None


@pytest.mark.parametrize("guard", ["node", "pod", "budget", "nominated", "leaving", "policy", "never", "unsettled"])
def test_a_node_is_no_candidate_if_something_protects_it(guard: str) -> None:
    rules = {"policy": free(WHEN_EMPTY), "never": free(after=None)}
    world = World(rules.get(guard, free()), types=TYPES)
    claim: dict[str, Any] = {"consolidatable": None} if guard == "unsettled" else {}
    world.node("a", "big", web("p"), **claim)
    state = world.state.node("a")
    assert state is not None
    assert state.node is not None
    if guard == "node":
        meta = changed(state.node.metadata, annotations={"karpenter.sh/do-not-disrupt": "true"})
        world.state.update_node(changed(state.node, metadata=meta), NOW)
    elif guard == "pod":
        world.state.update_pod(_annotated(web("p").on("a").build(), "true"), NOW)
    elif guard == "budget":
        spec = PodDisruptionBudgetSpec(selector=selector(app="p"))
        world.budget(PodDisruptionBudget(metadata=ObjectMeta(name="b", namespace="default"), spec=spec))
    elif guard == "nominated":
        state.nominated_until = NOW + MINUTE
    elif guard == "leaving":
        world.state.mark_for_deletion(["id-a"], NOW)
    assert decided(world) is None
    assert may_be_disrupted(state, NOW) == (guard not in {"node", "nominated", "leaving"})


def test_a_node_that_nothing_protects_is_a_candidate() -> None:
    world = World(free(), types=TYPES)
    world.node("a", "big", web("p"))
    assert told(decided(world)) == (UNDERUTILIZED, REPLACE, ["a"], ["small"])


def _annotated(pod: Pod, value: str) -> Pod:
    return changed(pod, metadata=changed(pod.metadata, annotations={"karpenter.sh/do-not-disrupt": value}))


def test_a_pod_may_be_protected_for_a_while() -> None:
    world = World(free(), types=TYPES)
    world.node("a", "big")
    started = NOW // SECOND * SECOND
    pod = web("p").on("a", started="2023-11-14T22:13:20Z").build()
    assert parse_time("2023-11-14T22:13:20Z") == started
    world.state.update_pod(_annotated(pod, "5m"), NOW)
    assert decided(world, started + 4 * MINUTE) is None
    assert told(decided(world, started + 5 * MINUTE)) == (UNDERUTILIZED, REPLACE, ["a"], ["small"])


def test_nothing_is_looked_for_again_until_something_changes_or_five_minutes_have_passed() -> None:
    world = World(free(), types=TYPES[:1])
    world.node("a", "small", web("p", "2"))
    assert decided(world) is None
    item = world.types["small"]
    world.types = {"small": item, "tiny": instance_type("tiny", "2", "4Gi", 0.5)}
    world.catalogue = world.made_catalogue()
    assert decided(world, NOW + 4 * MINUTE) is None
    assert told(decided(world, NOW + 5 * MINUTE)) == (UNDERUTILIZED, REPLACE, ["a"], ["tiny"])


def test_a_pod_that_goes_wakes_consolidation_up() -> None:
    world = World(free(), types=TYPES[:2])
    world.node("a", "mid", web("p", "2"), web("q"))
    assert decided(world) is None
    world.state.delete_pod("default/q", NOW + SECOND)
    assert told(decided(world, NOW + SECOND)) == (UNDERUTILIZED, REPLACE, ["a"], ["small"])


def test_a_command_that_no_longer_holds_leaves_the_turn_to_the_next_method() -> None:
    """At the second look the pod of b has grown, so a and b no longer fit into one; a alone is still replaced."""
    world = World(free(), types=TYPES)
    world.node("a", "big", web("p"))
    world.node("b", "mid", web("q", "500m"))
    outcome = world.controller.advance(world.scene, NOW)
    assert isinstance(outcome, Wait)
    world.state.update_pod(web("q", "4").on("b").build(), NOW + SECOND)
    outcome = world.controller.advance(world.scene, outcome.until)
    assert isinstance(outcome, Wait)
    outcome = world.controller.advance(world.scene, outcome.until)
    assert isinstance(outcome, Start)
    assert (outcome.kind, told(outcome.command)) == ("single", (UNDERUTILIZED, REPLACE, ["a"], ["small"]))


# ---- drift -----------------------------------------------------------------------------------------------------------


def test_drifted_nodes_are_replaced_one_by_one_empty_ones_first_then_the_oldest_drift() -> None:
    world = World(free(after=None), types=TYPES)
    world.node("a", "small", web("p", "2"), drifted=NOW - MINUTE)
    world.node("b", "small", web("q", "2"), drifted=NOW - 2 * MINUTE)
    world.node("c", "small", drifted=NOW)
    assert told(decided(world)) == (DRIFTED, DELETE, ["c"], [])
    world.state.delete_node("c", NOW)
    world.state.delete_claim("claim-c", NOW)
    assert told(decided(world)) == (DRIFTED, REPLACE, ["b"], ["small"])


def test_a_termination_grace_period_lets_drift_take_nodes_with_pods_that_refuse() -> None:
    for grace, expected in ((None, None), (MINUTE, (DRIFTED, DELETE, ["a"], []))):
        world = World(free(after=None), types=TYPES)
        world.node("a", "small", drifted=NOW, termination_grace_period=grace)
        world.state.update_pod(_annotated(web("p").on("a").build(), "true"), NOW)
        assert told(decided(world)) == expected


# ---- balanced --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("savings", "cost", "expected", "approved"),
    [
        (4.84, 8.0 * 58.08 / 58.08, 0.8333333333333333, True),
        (2.42, 4.0, 0.8333333333333333, True),
        (1.21, 4.0, 0.4166666666666667, False),
        (1.452, 4.0, 0.5, True),
        (-1.0, 4.0, 0.0, False),
    ],
)
def test_a_move_must_save_half_the_share_that_it_disrupts(
    savings: float, cost: float, expected: float, approved: bool
) -> None:
    result = score(savings, cost, PoolTotals(price=58.08, cost=80.0))
    assert result.value == pytest.approx(expected)
    assert result.is_approved is approved


def test_balanced_leaves_a_node_that_costs_more_to_move_than_it_saves() -> None:
    """A small node with eight pods is 9 of 11 in disruption and 1 of 5 in price; the big one is worth it."""
    for policy, expected in ((BALANCED, None), ("WhenEmptyOrUnderutilized", ["a"])):
        world = World(free(policy, Budget(nodes="1")), types=TYPES)
        world.node("a", "small", *(web(f"p{i}", "200m") for i in range(8)))
        world.node("b", "big", web("q", "5"), consolidatable=None)
        command = decided(world)
        assert (None if command is None else [c.name for c in command.candidates]) == expected


# ---- costs and budgets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "priority", "expected"),
    [
        ({}, None, 1.0),
        ({"karpenter.sh/disruption-cost": "134217728"}, None, 2.0),
        ({"controller.kubernetes.io/pod-deletion-cost": "-134217728"}, None, 0.0),
        ({"karpenter.sh/disruption-cost": "0", "controller.kubernetes.io/pod-deletion-cost": "134217728"}, None, 1.0),
        (
            {"karpenter.sh/disruption-cost": "much", "controller.kubernetes.io/pod-deletion-cost": "134217728"},
            None,
            1.0,
        ),
        ({"karpenter.sh/disruption-cost": str(2**31)}, None, 1.0),
        ({}, 33554432, 2.0),
        ({}, 1_000_000_000, 10.0),
        ({}, -1_000_000_000, -10.0),
    ],
)
def test_what_moving_a_pod_costs(annotations: dict[str, str], priority: int | None, expected: float) -> None:
    pod = web("p").build()
    pod = changed(
        pod,
        metadata=changed(pod.metadata, annotations=annotations),
        spec=changed(pod.spec, priority=priority),
    )
    assert eviction_cost(pod) == pytest.approx(expected)
    assert disruption_cost([pod, pod]) == pytest.approx(1.0 + 2 * max(expected, 0.0))


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ((Budget(nodes="10%"),), 1),
        ((Budget(nodes="30%"), Budget(nodes="2")), 2),
        ((Budget(nodes="0", reasons=("Empty",)), Budget(nodes="50%")), 4),
        ((Budget(nodes="0", reasons=("Underutilized",)),), 0),
        ((Budget(nodes="0", reasons=()),), 2**31 - 1),
        ((), 2**31 - 1),
        ((Budget(nodes="0", schedule="0 12 * * *", duration=10 * MINUTE), Budget(nodes="5")), 0),
        ((Budget(nodes="0", schedule="50 11 * * *", duration=10 * MINUTE), Budget(nodes="5")), 5),
        ((Budget(nodes="0", schedule="51 11 * * *", duration=10 * MINUTE), Budget(nodes="5")), 0),
        ((Budget(nodes="0", schedule="@hourly", duration=1 * MINUTE), Budget(nodes="5")), 0),
        ((Budget(nodes="5"), Budget(nodes="3", reasons=("Empty",), schedule="no cron", duration=MINUTE)), 0),
        ((Budget(nodes="5", schedule="TZ=Asia/Tokyo @daily", duration=MINUTE),), 0),
        ((Budget(nodes="5", schedule="CRON_TZ=UTC @daily", duration=MINUTE),), 0),
        ((Budget(nodes="5", duration=MINUTE),), 0),
        ((Budget(nodes="0", reasons=("Unhealthy",)), Budget(nodes="5")), 5),
    ],
)
def test_the_strictest_budget_that_holds_now_counts(budgets: tuple[Budget, ...], expected: int) -> None:
    noon = parse_time("2026-01-05T12:00:01Z")
    made = replace(pool(), disruption=Disruption(budgets=budgets))
    assert allowed(made, 8, "Underutilized", noon) == expected


def test_nodes_that_go_or_are_not_ready_use_up_the_budget_and_young_ones_do_not_count() -> None:
    world = World(free("WhenEmpty", Budget(nodes="50%")), types=TYPES)
    for name in "abcd":
        world.node(name, "small")
    world.node("young", "small", initialized=False)
    world.node("foreign", "small", owner=None)
    nodes = world.state.nodes

    def left() -> int:
        return remaining(world.catalogue.pools, count_nodes(nodes.values()), EMPTY, NOW)["default"]

    assert left() == 2
    world.state.mark_for_deletion(["id-a"], NOW)
    assert left() == 1
    state = world.state.node("b")
    assert state is not None
    assert state.node is not None
    world.state.update_node(changed(state.node, status=changed(state.node.status, conditions=())), NOW)
    assert left() == 0
