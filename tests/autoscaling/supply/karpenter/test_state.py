"""What is remembered of the cluster, and what the clock makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as changed

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter import (
    Batcher,
    Disruption,
    NodeClaim,
    Options,
    cheapest,
    launch_request,
    node_labels,
    offerings,
    one_of,
)
from stowplan_autoscaling.supply.karpenter.consolidatable import (
    expires_at,
    is_consolidatable,
    notes_pod_event,
    settled_at,
)
from stowplan_autoscaling.supply.karpenter.disruption import Command
from stowplan_autoscaling.supply.karpenter.disruption.queue import FAILED, READY, WAITING
from stowplan_autoscaling.supply.karpenter.drift import drift_reason
from stowplan_autoscaling.supply.karpenter.hashing import HASH_VERSION, template_hash
from stowplan_autoscaling.supply.karpenter.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_POOL,
    NODE_POOL_HASH,
    NODE_POOL_HASH_VERSION,
    ON_DEMAND,
    SPOT,
    ZONE,
)
from stowplan_autoscaling.supply.karpenter.taints import UNREGISTERED
from stowplan_scheduler.objects import Node, NodeSpec, ObjectMeta, Taint
from stowplan_scheduler.quantity import NANOS
from support.builders import PodBuilder, selector

from .worlds import NOW, A, B, World, instance_type, pool

TYPES = [instance_type("small", "2", "4Gi", 1.0, zones=(A, B), spot=0.5)]


CHOICES = (("100m", "250m"), ("ReplicaSet", "DaemonSet"), ("Pending", "Running"))


def web(name: str, cpu: str = "1") -> PodBuilder:
    return PodBuilder(name).req(cpu=cpu)


# ---- the cluster -----------------------------------------------------------------------------------------------------


def test_pods_take_from_their_node_until_they_go_or_end() -> None:
    world = World(types=TYPES)
    world.node("n", "small", web("p"), web("q", "500m"))
    state = world.state.node("n")
    assert state is not None
    assert state.available()["cpu"] == NANOS // 2
    world.state.update_pod(web("q", "500m").on("n").phase("Succeeded").build(), NOW)
    assert state.available()["cpu"] == NANOS
    world.state.delete_pod("default/p", NOW)
    assert state.available()["cpu"] == 2 * NANOS


@pytest.mark.parametrize("seed", range(4))
def test_what_pods_leave_is_what_a_state_that_sees_only_the_end_finds(seed: int) -> None:
    """Pods come, change what they ask for and go; what is left is asked for after each step."""
    drawn = np.random.default_rng(seed)
    world, there = World(types=TYPES), {}
    world.node("n", "small")
    for number in range(60):
        name = f"p{drawn.integers(8)}"
        if drawn.integers(3):
            builder = web(name, str(drawn.choice(["100m", "250m"]))).owner(
                str(drawn.choice(["ReplicaSet", "DaemonSet"])), "o"
            )
            if not drawn.integers(3):
                builder = builder.anti_affinity("hostname", selector(app="web"))
            there[name] = (
                builder.port(int(drawn.integers(80, 83))).on("n").phase(str(drawn.choice(["Pending", "Running"])))
            )
            world.state.update_pod(there[name].build(), NOW + number)
        else:
            there.pop(name, None)
            world.state.delete_pod(f"default/{name}", NOW + number)
        other = World(types=TYPES)
        other.node("n", "small")
        for builder in there.values():
            other.state.update_pod(builder.build(), NOW)
        seen, fresh = world.state.node("n"), other.state.node("n")
        assert seen is not None
        assert fresh is not None
        assert seen.available() == fresh.available()
        assert seen.daemon_requests() == fresh.daemon_requests()
        assert seen.keeps_others_out == fresh.keeps_others_out
        assert {key: (known.shape.key, known.has_begun) for key, known in seen.bound.items()} == {
            key: (known.shape.key, known.has_begun) for key, known in fresh.bound.items()
        }


def test_what_was_told_of_a_node_stays_as_it_was_told() -> None:
    world = World(types=TYPES)
    world.node("n", "small")
    state = world.state.node("n")
    assert state is not None
    before = state.available()
    world.state.update_pod(web("p").on("n").build(), NOW)
    assert (before["cpu"], state.available()["cpu"]) == (2 * NANOS, 1 * NANOS)


def test_what_has_become_true_of_a_claim_changes_nothing_else_about_its_node() -> None:
    world = World(types=TYPES)
    world.node("n", "small", web("p"))
    state = world.state.node("n")
    assert state is not None
    claim = state.claim
    assert claim is not None
    left, version = state.available(), state.version
    world.state.update_claim(changed(claim, consolidatable=None, last_pod_event=NOW), NOW)
    assert state.claim is not claim
    assert state.available() is left
    assert state.version > version
    world.state.update_claim(changed(claim, labels={**claim.labels, ZONE: B}, deleting=True), NOW)
    assert state.is_deleting
    assert state.available() is not left


def test_nodes_come_by_name_whatever_becomes_of_them() -> None:
    """A claim's node has the claim's name until it is registered."""
    world = World(types=TYPES)
    world.node("m", "small")
    world.state.update_claim(NodeClaim(name="z", provider_id="id-a", created=NOW), NOW)
    assert [node.name for node in world.state.in_order()] == ["m", "z"]
    world.node("a", "small")
    assert [node.name for node in world.state.in_order()] == ["a", "m"]
    world.state.delete_node("m", NOW)
    assert [node.name for node in world.state.in_order()] == ["a", "claim-m"]
    world.state.delete_claim("claim-m", NOW)
    assert [node.name for node in world.state.in_order()] == ["a"]


def test_a_pod_may_be_seen_before_its_node() -> None:
    world = World(types=TYPES)
    world.state.update_pod(web("p").on("n").build(), NOW)
    world.node("n", "small")
    state = world.state.node("n")
    assert state is not None
    assert list(state.bound) == ["default/p"]


def test_a_claim_stands_for_its_node_until_that_is_registered() -> None:
    world = World(types=TYPES)
    item = TYPES[0]
    claim = NodeClaim(
        name="c", provider_id="id", created=NOW, labels={ZONE: A, NODE_POOL: "default"}, capacity=item.capacity,
        allocatable=item.allocatable, taints=(UNREGISTERED, Taint(key="team", effect="NoSchedule")),
        startup_taints=(Taint(key="warm", effect="NoSchedule"),),
    )  # fmt: skip
    world.state.update_claim(claim, NOW)
    (state,) = world.state.nodes.values()
    assert (state.name, state.pool) == ("c", "default")
    assert not state.is_registered
    assert not state.is_initialized
    assert [taint.key for taint in state.taints] == ["team"]
    assert state.allocatable()["cpu"] == 2 * NANOS
    world.state.delete_claim("c", NOW)
    assert world.state.nodes == {}


def test_only_changes_that_matter_to_consolidation_are_noted() -> None:
    world = World(types=TYPES)
    world.node("n", "small", web("p"))
    later = NOW + MINUTE
    state = world.state.node("n")
    assert state is not None
    assert state.node is not None
    world.state.update_node(changed(state.node, metadata=changed(state.node.metadata, annotations={"x": "y"})), later)
    world.state.update_pod(web("p").on("n").build(), later)
    assert world.state.consolidation_state(later) == NOW
    world.state.update_pod(web("q", "500m").on("n").build(), later)
    assert world.state.consolidation_state(later) == later


def test_the_note_of_the_last_change_is_renewed_after_five_minutes() -> None:
    world = World(types=TYPES)
    world.state.mark_unconsolidated(NOW)
    assert world.state.consolidation_state(NOW + 5 * MINUTE - 1) == NOW
    assert world.state.consolidation_state(NOW + 5 * MINUTE) == NOW + 5 * MINUTE


def test_a_pool_uses_what_its_nodes_have_that_stay() -> None:
    world = World(types=TYPES)
    for name in "abc":
        world.node(name, "small")
    world.state.mark_for_deletion(["id-b"], NOW)
    usage = world.state.pool_usage("default")
    assert (usage["cpu"], usage["nodes"]) == (4 * NANOS, 2 * NANOS)
    world.state.unmark(["id-b"])
    assert world.state.pool_usage("default")["nodes"] == 3 * NANOS


def test_a_node_of_a_pool_waits_for_its_provider_id_and_its_type() -> None:
    world = World(types=TYPES)
    meta = ObjectMeta(name="n", labels={NODE_POOL: "default"})
    world.state.update_node(Node(metadata=meta), NOW)
    assert world.state.nodes == {}
    named = Node(metadata=meta, spec=NodeSpec(provider_id="id"))
    world.state.update_node(named, NOW)
    assert world.state.nodes == {}
    typed = changed(named, metadata=ObjectMeta(name="n", labels={NODE_POOL: "default", INSTANCE_TYPE: "small"}))
    world.state.update_node(typed, NOW)
    assert list(world.state.nodes) == ["id"]


def test_a_node_that_goes_leaves_its_claim_and_its_pods_to_be_found_again() -> None:
    world = World(types=TYPES)
    world.node("n", "small", web("p"))
    state = world.state.node("n")
    assert state is not None
    node = state.node
    assert node is not None
    world.state.delete_node("n", NOW + SECOND)
    claim = world.state.claim("claim-n")
    assert claim is not None
    assert (claim.node, claim.name, list(claim.bound)) == (None, "claim-n", [])
    assert world.state.consolidation_state(NOW + SECOND) == NOW + SECOND
    world.state.update_node(node, NOW + SECOND)
    assert list(claim.bound) == ["default/p"]
    world.state.delete_claim("claim-n", NOW)
    assert (claim.claim, claim.name) == (None, "n")
    world.state.delete_node("n", NOW)
    assert world.state.nodes == {}


def test_a_pod_whose_node_is_gone_may_go_too() -> None:
    world = World(types=TYPES)
    world.node("n", "small", web("p"))
    world.state.delete_node("n", NOW)
    world.state.delete_pod("default/p", NOW)
    world.node("n", "small")
    state = world.state.node("n")
    assert state is not None
    assert state.bound == {}


# ---- the batching window ---------------------------------------------------------------------------------------------


def test_a_window_closes_a_second_after_the_last_pod() -> None:
    assert Batcher(Options()).due is None
    batcher = Batcher(Options())
    batcher.trigger("a", NOW)
    batcher.trigger("b", NOW + SECOND // 2)
    assert batcher.due == NOW + 3 * SECOND // 2
    assert not batcher.close(NOW + SECOND)
    assert batcher.close(NOW + 3 * SECOND // 2)
    assert batcher.due is None


def test_a_window_closes_ten_seconds_after_it_opened_whatever_comes() -> None:
    batcher = Batcher(Options())
    for step in range(40):
        batcher.trigger(str(step), NOW + step * SECOND // 2)
    assert batcher.due == NOW + 10 * SECOND


def test_a_pod_triggers_once_per_window() -> None:
    batcher = Batcher(Options())
    batcher.trigger("a", NOW)
    batcher.trigger("a", NOW + SECOND - 1)
    assert batcher.due == NOW + SECOND
    assert batcher.close(NOW + SECOND)
    batcher.trigger("a", NOW + 2 * SECOND)
    assert batcher.due == NOW + 3 * SECOND


# ---- conditions of claims --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "initialized", "event", "expected"),
    [
        (0, NOW, None, None),
        (None, NOW, None, None),
        (5 * MINUTE, None, None, None),
        (5 * MINUTE, NOW, None, NOW + 5 * MINUTE),
        (5 * MINUTE, NOW, NOW + MINUTE, NOW + 6 * MINUTE),
    ],
)
def test_a_node_settles_after_its_last_pod_event_or_its_initialization(
    after: int | None, initialized: int | None, event: int | None, expected: int | None
) -> None:
    made = pool(disruption=Disruption(consolidate_after=after))
    claim = NodeClaim(name="c", provider_id="i", created=NOW, initialized=initialized, last_pod_event=event)
    assert settled_at(made, claim) == expected
    if expected is not None:
        assert not is_consolidatable(made, claim, expected - 1)
        assert is_consolidatable(made, claim, expected)
    else:
        assert is_consolidatable(made, claim, NOW) == (after == 0 and initialized is not None)


def test_pod_events_are_noted_every_ten_seconds_at_most() -> None:
    claim = NodeClaim(name="c", provider_id="i", created=NOW)
    assert notes_pod_event(claim, NOW)
    noted = changed(claim, last_pod_event=NOW)
    assert not notes_pod_event(noted, NOW + 10 * SECOND - 1)
    assert notes_pod_event(noted, NOW + 10 * SECOND)


def test_a_claim_expires_a_set_time_after_it_was_made() -> None:
    claim = NodeClaim(name="c", provider_id="i", created=NOW, expire_after=MINUTE)
    assert expires_at(claim) == NOW + MINUTE
    assert expires_at(changed(claim, expire_after=None)) is None


def test_a_claim_drifts_when_template_requirements_or_catalogue_leave_it_behind() -> None:
    world = World(types=TYPES)
    made = world.pools["default"]
    labels = {
        ZONE: A, CAPACITY_TYPE: ON_DEMAND, INSTANCE_TYPE: "small", "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }  # fmt: skip
    annotations = {NODE_POOL_HASH: template_hash(made), NODE_POOL_HASH_VERSION: HASH_VERSION}
    claim = NodeClaim(name="c", provider_id="i", created=NOW, labels=labels, annotations=annotations)
    table = world.catalogue.tables["default"]
    later = NOW + 61 * MINUTE

    def reason(of: NodeClaim, of_pool: object = made, at: int = later) -> str | None:
        return drift_reason(of_pool, of, table, world.options.well_known, at)  # type: ignore[arg-type]

    assert reason(claim) is None
    assert reason(claim, replace(made, labels={"team": "x"})) == "NodePoolDrifted"
    assert reason(changed(claim, annotations={}), replace(made, labels={"team": "x"})) is None
    assert reason(claim, replace(made, requirements=(one_of(ZONE, B),))) == "RequirementsDrifted"
    gone = changed(claim, labels={**labels, INSTANCE_TYPE: "old"})
    assert reason(gone) == "InstanceTypeNotFound"
    assert reason(gone, at=NOW + 59 * MINUTE) is None


def test_the_fingerprint_of_a_template_leaves_out_requirements_weight_and_budgets() -> None:
    made = pool()
    same = replace(made, requirements=(), weight=7, limits={"cpu": NANOS}, disruption=Disruption(policy="WhenEmpty"))
    assert template_hash(same) == template_hash(made)
    for other in (
        replace(made, labels={"a": "b"}),
        replace(made, taints=(Taint(key="k", effect="NoSchedule"),)),
        replace(made, startup_taints=(Taint(key="k", effect="NoSchedule"),)),
        replace(made, expire_after=MINUTE),
        replace(made, termination_grace_period=MINUTE),
        replace(made, marks={"class": "other"}),
    ):
        assert template_hash(other) != template_hash(made)


# ---- launching -------------------------------------------------------------------------------------------------------


def test_offerings_come_by_price_then_by_zone() -> None:
    world = World(pool("default", one_of(ZONE, A, B), one_of(CAPACITY_TYPE, SPOT, ON_DEMAND)), types=TYPES)
    world.pending(web("p"))
    request = launch_request(world.round().claims[0], world.options.well_known)
    found = [(o.zone, o.capacity_type) for _, o in offerings(request, world.options.well_known)]
    assert found == [(A, SPOT), (B, SPOT), (A, ON_DEMAND), (B, ON_DEMAND)]


def test_the_node_gets_the_labels_of_pool_type_and_offering() -> None:
    world = World(pool("default", one_of("team", "x"), labels={"tier": "1"}), types=TYPES)
    world.pending(web("p"))
    request = launch_request(world.round().claims[0], world.options.well_known)
    chosen = cheapest(request, world.options.well_known)
    assert chosen is not None
    labels = node_labels(request, *chosen, "n-1")
    assert {key: labels[key] for key in ("tier", "team", ZONE, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL)} == {
        "tier": "1", "team": "x", ZONE: A, CAPACITY_TYPE: ON_DEMAND, INSTANCE_TYPE: "small", NODE_POOL: "default",
    }  # fmt: skip
    assert labels["kubernetes.io/hostname"] == "n-1"
    assert "karpenter.sh/registered" not in labels


# ---- commands under way ----------------------------------------------------------------------------------------------


def under_way(world: World) -> Command:
    candidates, _ = world.controller.methods[0].candidates(world.scene, NOW)
    return Command("Empty", candidates)


def test_a_command_waits_for_its_replacements_and_then_deletes() -> None:
    world = World(types=TYPES)
    world.node("a", "small")
    running = world.queue.start(under_way(world), ["r-1"], NOW)
    state = world.state.node("a")
    assert state is not None
    assert (state.is_deleting, world.queue.holds("id-a")) == (True, True)
    assert world.queue.check(running, lambda _: False, NOW + MINUTE) == WAITING
    assert world.queue.check(running, lambda _: True, NOW + MINUTE) == READY
    world.queue.finish(running, succeeded=True)
    assert (state.is_deleting, world.queue.running) == (True, [])


def test_a_command_is_given_up_when_a_replacement_is_gone_or_takes_ten_minutes() -> None:
    world = World(types=TYPES)
    world.node("a", "small")
    running = world.queue.start(under_way(world), ["r-1"], NOW)
    assert world.queue.check(running, lambda _: None, NOW + SECOND) == FAILED
    assert world.queue.check(running, lambda _: False, NOW + 10 * MINUTE) == WAITING
    assert world.queue.check(running, lambda _: False, NOW + 10 * MINUTE + 1) == FAILED
    world.queue.finish(running, succeeded=False)
    state = world.state.node("a")
    assert state is not None
    assert not state.is_deleting


def test_the_same_node_is_not_chosen_twice() -> None:
    world = World(types=TYPES)
    world.node("a", "small")
    world.queue.start(under_way(world), [], NOW)
    world.state.unmark(["id-a"])
    assert under_way(world).candidates == []
