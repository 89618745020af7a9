"""Provisioning rounds: who goes where, and what is launched for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_autoscaling.supply.karpenter import Requirement, launch_request, may_launch, nominate, one_of
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import FAMILY_LABEL
from stowplan_autoscaling.supply.karpenter.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from stowplan_scheduler.objects import ObjectMeta, PodDisruptionBudget, PodDisruptionBudgetSpec, Taint
from stowplan_scheduler.quantity import NANOS
from support.builders import PodBuilder, name_term, node_term, selector

from .worlds import NOW, A, B, C, World, claims_of, instance_type, moves_of, pool

WEB = selector(app="web")
SMALL = [instance_type("small", "2", "4Gi", 1.0), instance_type("big", "8", "16Gi", 3.0)]


def web(name: str, **requests: str) -> PodBuilder:
    return PodBuilder(name).labels(app="web").req(**{"cpu": "1", "memory": "1Gi", **requests})


def test_a_claim_keeps_every_type_that_would_do_the_cheapest_first() -> None:
    world = World(types=SMALL)
    world.pending(web("a"))
    (claim,) = world.round().claims
    assert [item.name for item in claim.types] == ["small", "big"]
    assert claim.requests == {"cpu": NANOS, "memory": (1 << 30) * NANOS, "pods": NANOS}


def test_pods_share_a_claim_while_some_type_has_room_for_all() -> None:
    world = World(types=SMALL)
    world.pending(*(web(f"p{i}") for i in range(9)))
    assert claims_of(world.round()) == [
        ("default", [f"p{i}" for i in range(8)], "big"),
        ("default", ["p8"], "small"),
    ]


def test_the_hardest_pods_come_first() -> None:
    """The pod of 7 cores takes the first claim; the small ones fill it up and open the next."""
    world = World(types=SMALL)
    world.pending(*(web(f"p{i}") for i in range(3)), web("z", cpu="7"))
    assert claims_of(world.round()) == [("default", ["p0", "z"], "big"), ("default", ["p1", "p2"], "small")]


def test_existing_nodes_come_before_claims_and_initialized_ones_before_others() -> None:
    world = World(types=SMALL)
    world.node("a-young", "small", initialized=False)
    world.node("b-old", "small")
    world.pending(web("p", cpu="2"), web("q", cpu="2"), web("r", cpu="2"))
    results = world.round()
    assert moves_of(results) == {"b-old": ["p"], "a-young": ["q"]}
    assert claims_of(results) == [("default", ["r"], "small")]


def test_the_claim_with_the_fewest_pods_is_tried_first() -> None:
    """Two claims of one pod each, from anti-affinity; a third pod goes to the first of them, a fourth to the other."""
    world = World(types=SMALL)
    apart = [web(f"x{i}", cpu="2").anti_affinity("hostname", WEB) for i in range(2)]
    plain = [PodBuilder(f"y{i}").req(cpu="500m", memory="1Gi") for i in range(2)]
    world.pending(*apart, *plain)
    assert [pods for _, pods, _ in claims_of(world.round())] == [["x0", "y0"], ["x1", "y1"]]


def test_pools_are_tried_by_weight_and_equal_ones_from_the_end_of_the_alphabet() -> None:
    pods = [PodBuilder("p").req(cpu="1")]
    light = World(pool("a", weight=5), pool("b"), types=SMALL)
    light.pending(*pods)
    assert claims_of(light.round())[0][0] == "a"
    equal = World(pool("a"), pool("b"), types=SMALL)
    equal.pending(*pods)
    assert claims_of(equal.round())[0][0] == "b"


def test_a_pool_whose_taints_a_pod_does_not_tolerate_is_left_out_whatever_the_effect() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    world = World(pool("a"), pool("b", taints=(soft,), weight=9), types=SMALL[:1])
    world.pending(web("p", cpu="2"), web("q", cpu="2").tolerate("soft"))
    assert claims_of(world.round()) == [("a", ["p"], "small"), ("b", ["q"], "small")]


def test_a_soft_taint_is_tolerated_if_nothing_else_is_left() -> None:
    world = World(pool("b", taints=(Taint(key="soft", effect="PreferNoSchedule"),)), types=SMALL)
    world.pending(web("p"))
    assert claims_of(world.round()) == [("b", ["p"], "small")]


def test_startup_taints_need_no_toleration() -> None:
    world = World(pool(startup_taints=(Taint(key="warm", effect="NoSchedule"),)), types=SMALL)
    world.pending(web("p"))
    assert claims_of(world.round()) == [("default", ["p"], "small")]


def test_limits_count_the_largest_type_that_a_claim_may_become() -> None:
    """8 cores are left; the first claim may become a machine of 8, so nothing is left for a second one."""
    world = World(pool(limits={"cpu": 10 * NANOS}), types=SMALL)
    world.node("n", "small", web("old", cpu="2"))
    world.pending(web("p", cpu="1500m").anti_affinity("hostname", WEB), web("q").anti_affinity("hostname", WEB))
    results = world.round()
    assert claims_of(results) == [("default", ["p"], "small")]
    assert results.errors == {"default/q": "all available instance types exceed limits for nodepool"}


def test_a_limit_of_nodes_stops_new_claims_but_is_not_counted_down_within_a_round() -> None:
    world = World(pool(limits={"nodes": NANOS}), types=SMALL)
    pods = [web(f"p{i}").anti_affinity("hostname", WEB) for i in range(2)]
    world.pending(*pods)
    results = world.round()
    assert len(results.claims) == 2
    assert may_launch(results.claims[0], world.state) is None
    world.node("n", "small", web("x", cpu="2"))
    assert world.round().errors["default/p0"] == "node limits have been exhausted for nodepool"
    world.node("m", "small", web("y", cpu="2"))
    assert may_launch(results.claims[0], world.state) == "nodes"


def test_daemon_sets_take_their_share_of_every_machine() -> None:
    daemon = PodBuilder("agent").req(cpu="500m", memory="1Gi").build()
    world = World(types=SMALL, daemons=[daemon])
    world.pending(web("p", cpu="1600m"))
    (claim,) = world.round().claims
    assert [item.name for item in claim.types] == ["big"]
    assert claim.requests["cpu"] == 2100 * NANOS // 1000
    assert claim.requests["pods"] == 2 * NANOS


def test_room_is_kept_on_a_node_for_daemon_pods_that_are_still_to_come() -> None:
    daemon = PodBuilder("agent").req(cpu="500m").build()
    world = World(types=SMALL, daemons=[daemon])
    world.node("n", "small")
    world.pending(web("p", cpu="1600m"))
    assert moves_of(world.round()) == {}
    world.state.update_pod(PodBuilder("agent-1").owner("DaemonSet", "agent").req(cpu="500m").on("n").build(), NOW)
    world.pending(web("p", cpu="1500m"))
    assert moves_of(world.round()) == {"n": ["p"]}


def test_a_term_that_no_longer_fits_is_not_tried_for_the_types_that_follow() -> None:
    """Upstream relaxes the daemon set's one pod: after type a the term for a is gone, so b and c carry the daemon."""
    types = [instance_type(name, "2", "4Gi", 1.0, labels={FAMILY_LABEL: name}) for name in "bac"]
    terms = [node_term(FAMILY_LABEL, "In", "a"), node_term(FAMILY_LABEL, "In", "c")]
    daemon = PodBuilder("agent").req(cpu="1").require_node(*terms).build()
    world = World(types=types, daemons=[daemon])
    world.pending(web("p", cpu="2"))
    (claim,) = world.round().claims
    assert [item.name for item in claim.types] == ["b", "a"]


def test_hosts_are_spread_by_launching_more_of_them() -> None:
    world = World(types=SMALL)
    world.pending(*(web(f"p{i}").spread("hostname", WEB) for i in range(3)))
    assert [pods for _, pods, _ in claims_of(world.round())] == [["p0"], ["p1"], ["p2"]]


def test_zones_are_spread_over_what_is_there_and_what_is_launched() -> None:
    types = [instance_type("small", "2", "4Gi", 1.0, zones=(A, B, C))]
    world = World(pool("default", one_of(ZONE, A, B, C)), types=types)
    world.node("n", "small", web("old", cpu="2").spread("zone", WEB), zone=A)
    world.pending(*(web(f"p{i}", cpu="2").spread("zone", WEB) for i in range(3)))
    zones = sorted(claim.requirements.get(ZONE).single or "" for claim in world.round().claims)
    assert zones == [A, B, C]


def test_of_equally_full_zones_the_first_is_taken_that_other_rules_allow() -> None:
    """A pod that the new one shuns stands in zone a; all zones are empty of those over which it spreads."""
    types = [instance_type("small", "2", "4Gi", 1.0, zones=(A, B, C))]
    world = World(pool("default", one_of(ZONE, A, B, C)), types=types)
    world.node("n", "small", web("old", cpu="2"), zone=A)
    lone = PodBuilder("p").labels(app="lone").req(cpu="1").anti_affinity("zone", WEB)
    world.pending(lone.spread("zone", selector(app="lone")))
    (claim,) = world.round().claims
    assert claim.requirements.get(ZONE).single == B


def test_pods_with_affinity_follow_the_pod_they_want_to_be_with() -> None:
    types = [instance_type("small", "2", "4Gi", 1.0, zones=(A, B))]
    world = World(pool("default", one_of(ZONE, A, B)), types=types)
    world.node("n", "small", web("old", cpu="2"), zone=B)
    world.pending(PodBuilder("p").req(cpu="1").affinity("zone", WEB))
    (claim,) = world.round().claims
    assert claim.requirements.get(ZONE).single == B


def test_a_pod_on_a_node_keeps_those_out_whom_it_shuns() -> None:
    world = World(types=SMALL)
    world.node("n", "big", PodBuilder("guard").req(cpu="1").anti_affinity("hostname", WEB))
    world.pending(web("p"), PodBuilder("q").req(cpu="1"))
    results = world.round()
    assert moves_of(results) == {"n": ["q"]}
    assert claims_of(results) == [("default", ["p"], "small")]


def test_pods_of_other_namespaces_count_where_the_term_names_or_selects_them() -> None:
    terms: dict[str, dict[str, Any]] = {
        "named": {"namespaces": ["other"]},
        "selected": {"namespace_selector": selector(team="x")},
        "own": {},
        "all": {"namespace_selector": selector()},
    }
    types = [instance_type("small", "4", "8Gi", 1.0, zones=(A, B))]
    told = {}
    for name, more in terms.items():
        world = World(pool("default", one_of(ZONE, A, B)), types=types)
        world.state.namespaces.update({"default": {}, "other": {"team": "x"}, "third": {}})
        world.node("n", "small", web("old", cpu="4").namespace("other"), zone=B)
        world.pending(PodBuilder("p").req(cpu="1").affinity("zone", WEB, **more))
        told[name] = [claim.requirements.get(ZONE).single for claim in world.round().claims]
    assert told == {"named": [B], "selected": [B], "own": [], "all": [B]}


def test_at_most_six_hundred_types_are_asked_for_the_cheapest_ones() -> None:
    types = [instance_type(f"t{i:03d}", "2", "4Gi", 1.0 + i / 1000) for i in range(650)]
    world = World(types=types)
    world.pending(web("p"))
    (claim,) = world.round().claims
    assert [item.name for item in claim.types] == [f"t{i:03d}" for i in range(600)]
    strict = World(pool("default", Requirement.of(INSTANCE_TYPE, "Exists", (), 620)), types=types)
    strict.pending(web("p"))
    results = strict.round()
    assert (results.claims, list(results.errors)) == ([], ["default/p"])


def test_wishes_count_as_long_as_they_can_be_met() -> None:
    prices = {"x1": 2.0, "small": 1.0}
    types = [instance_type(name, "2", "4Gi", price, labels={FAMILY_LABEL: name[0]}) for name, price in prices.items()]
    world = World(types=types)
    world.pending(
        web("p", cpu="2").prefer_node(5, node_term(FAMILY_LABEL, "In", "x")),
        web("q", cpu="2").prefer_node(5, node_term(FAMILY_LABEL, "In", "nowhere")),
    )
    assert claims_of(world.round()) == [("default", ["p"], "x1"), ("default", ["q"], "small")]
    careless = World(types=types, ignore_preferences=True)
    careless.pending(web("p", cpu="2").prefer_node(5, node_term(FAMILY_LABEL, "In", "x")))
    assert claims_of(careless.round()) == [("default", ["p"], "small")]


def test_a_claim_narrows_to_what_its_pods_ask_for() -> None:
    types = [instance_type("small", "4", "4Gi", 1.0, zones=(A, B), spot=0.3)]
    world = World(pool("default", one_of(ZONE, A, B), one_of(CAPACITY_TYPE, ON_DEMAND, SPOT)), types=types)
    world.pending(web("p").node_selector(zone=B), web("q").node_selector(**{CAPACITY_TYPE: ON_DEMAND}))
    (claim,) = world.round().claims
    request = launch_request(claim, world.options.well_known)
    assert request.requirements.get(ZONE).single == B
    assert request.requirements.get(CAPACITY_TYPE).single == ON_DEMAND
    assert request.requirements.get(INSTANCE_TYPE) == one_of(INSTANCE_TYPE, "small")
    assert request.pods == ("default/p", "default/q")


def test_labels_that_only_the_pool_knows_must_be_on_it() -> None:
    world = World(pool("a", labels={"team": "x"}), pool("b", weight=9), types=SMALL)
    world.pending(web("p").node_selector(team="x"), web("q").node_selector(team="y"))
    results = world.round()
    assert claims_of(results) == [("a", ["p"], "small")]
    assert set(results.errors) == {"default/q"}


@pytest.mark.parametrize(("policy", "expected"), [("Strict", 0), ("BestEffort", 1)])
def test_too_few_different_types_are_refused_or_taken(policy: str, expected: int) -> None:
    wanted = Requirement.of(INSTANCE_TYPE, "Exists", (), 3)
    world = World(pool("default", wanted), types=SMALL, min_values_policy=policy)
    world.pending(web("p"))
    claims = world.round().claims
    assert len(claims) == expected
    if claims:
        assert claims[0].requirements.get(INSTANCE_TYPE).min_values == 2


def test_a_pod_that_needs_a_type_less_breaks_min_values_on_an_open_claim() -> None:
    wanted = Requirement.of(INSTANCE_TYPE, "Exists", (), 2)
    world = World(pool("default", wanted), types=SMALL)
    world.pending(web("p", cpu="2"), web("q"), web("big", cpu="3"))
    results = world.round()
    assert [pods for _, pods, _ in claims_of(results)] == [["p"], ["q"]]
    assert results.errors == {"default/big": "minValues requirement is not met"}


def test_host_ports_keep_pods_apart() -> None:
    world = World(types=SMALL)
    world.node("n", "big", PodBuilder("old").req(cpu="100m").port(80))
    world.pending(*(PodBuilder(f"p{i}").req(cpu="100m").port(80) for i in range(2)), PodBuilder("q").port(81))
    results = world.round()
    assert moves_of(results) == {"n": ["q"]}
    assert [pods for _, pods, _ in claims_of(results)] == [["p0"], ["p1"]]


def test_pods_of_nodes_on_their_way_out_get_a_new_place() -> None:
    world = World(types=SMALL)
    world.node("n", "small", web("p"), web("kept"), deleting=True)
    world.budget(
        PodDisruptionBudget(
            metadata=ObjectMeta(name="b", namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=selector(name="kept"), max_unavailable=0),
        )
    )
    world.state.update_pod(web("kept").labels(name="kept").on("n").build(), NOW)
    assert claims_of(world.round()) == [("default", ["p"], "small")]


def test_only_pods_are_taken_on_that_need_capacity_and_may_have_it() -> None:
    """Not: pods that the scheduler has not tried, daemon pods, pods that shun Karpenter's nodes or want one host."""
    world = World(types=SMALL)
    world.state.update_pod(web("fresh").build(), NOW)
    world.pending(
        web("daemon").owner("DaemonSet", "d"),
        web("shy").require_node(node_term("karpenter.sh/nodepool", "DoesNotExist")),
        web("odd").node_selector(hostname="n"),
        web("mine").node_selector(**{"karpenter.sh/own": "x"}),
        web("named").require_node(name_term("n")),
    )
    results = world.round()
    assert (results.claims, results.errors) == ([], {})


def test_without_pools_nothing_is_launched() -> None:
    world = World(types=SMALL)
    world.pools = {}
    world.catalogue = world.made_catalogue()
    world.pending(web("p"))
    assert world.round().errors == {"default/p": "no nodepools found"}


def test_nodes_that_pods_are_expected_on_are_left_alone_for_two_batches() -> None:
    world = World(types=SMALL)
    world.node("n", "small")
    world.pending(web("p"))
    nominate(world.round(), world.state, world.options, NOW)
    (state,) = world.state.nodes.values()
    assert state.nominated_until == NOW + 20 * 10**9
    assert state.is_nominated(NOW + 20 * 10**9 - 1)
    assert not state.is_nominated(NOW + 20 * 10**9)


def test_a_round_changes_nothing_and_gives_the_same_again() -> None:
    world = World(pool("default", one_of(ARCH, "amd64"), cpu_below=9))
    world.node("n", "c-4x-amd64-linux", web("old"))
    world.pending(*(web(f"p{i}").spread("hostname", WEB, max_skew=2) for i in range(7)))
    first, second = world.round(), world.round()
    assert claims_of(first) == claims_of(second) != []
    assert moves_of(first) == moves_of(second) == {"n": ["p0"]}
