"""The plugin as a whole: who may preempt, on which nodes, and what users read."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.preemption.world import World, message, terminating_by_preemption, victims
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, Hint
from stowplan_scheduler.framework.diagnosis import Diagnosis, Verdicts
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.pod_info import PodInterner
from stowplan_scheduler.framework.status import Code, unresolvable, unschedulable
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.preemption.candidates import candidates_wanted, potential_nodes
from stowplan_scheduler.preemption.default_preemption import DefaultPreemption, terminates_by_preemption
from support.builders import PodBuilder, budget, node, pod, selector


def full(name: str, priority: int, on: str, started: str = "1999-12-01T00:00:00Z") -> Pod:
    """A pod that fills its node of 4 cores."""
    return pod(name).req(cpu="4").priority(priority).on(on, started).build()


def nodes(count: int) -> list[Node]:
    return [node(f"n{at}").build() for at in range(count)]


INCOMING: PodBuilder = pod("in").req(cpu="2").priority(10)


# ---- messages and nominations (reference 15.2 and 16.8) --------------------------------------------------------------


def test_a_placement_is_found() -> None:
    """The text goes into the event and the condition since v1.37; the pod is nominated."""
    result = World(*nodes(1), full("p", 1, "n0")).preempt(INCOMING)
    assert result.status.code is Code.SUCCESS
    assert message(result) == "preemption: found a potential placement for pod on node n0, preempting 1 victims"
    assert (result.nominated_node, victims(result)) == ("n0", ["p"])


def test_no_victims_and_hopeless_nodes_are_counted_apart() -> None:
    """One node is tainted, one too small when empty, two are full of equals: the nomination is cleared."""
    tainted = node("n2").taint("dedicated", "x").build()
    small = node("n3").capacity(cpu="1").build()
    result = World(*nodes(2), tainted, small, full("a", 10, "n0"), full("b", 10, "n1")).preempt(INCOMING)
    assert result.status.code is Code.UNSCHEDULABLE
    assert message(result) == (
        "preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert (result.nominated_node, victims(result)) == ("", [])


def test_a_node_that_stays_too_full_contributes_its_filter_reasons() -> None:
    """Without the victim of priority 1 the pod of priority 20 is still there."""
    kept = pod("kept").req(cpu="3").priority(20).on("n0").build()
    going = pod("going").req(cpu="1").priority(1).on("n0").build()
    result = World(*nodes(1), kept, going).preempt(INCOMING)
    assert message(result) == "preemption: 0/1 nodes are available: 1 Insufficient cpu."


def test_no_potential_node_at_all() -> None:
    """Every node is too small for the pod."""
    result = World(node("n0").capacity(cpu="1").build(), node("n1").capacity(cpu="1").build()).preempt(INCOMING)
    assert message(result) == "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert result.nominated_node == ""


def test_a_pod_with_policy_never_does_not_preempt() -> None:
    """Its nomination, if it has one, is kept."""
    never = pod("in").req(cpu="2").priority(10, "Never")
    result = World(*nodes(1), full("p", 1, "n0")).preempt(never)
    assert (result.status.code, result.nominated_node) == (Code.UNSCHEDULABLE, None)
    assert message(result) == "preemption: not eligible due to preemptionPolicy=Never."


def test_a_pod_that_is_gone_is_an_error() -> None:
    """The lister's text is upstream's."""
    world = World(*nodes(1), full("p", 1, "n0"))
    failure = world.fail(INCOMING.build())
    world.pods.clear()
    result = world.plugin.post_filter(failure.search.pod, failure.search, failure.diagnosis, np.random.default_rng(0))
    assert (result.status.code, result.nominated_node) == (Code.ERROR, None)
    assert message(result) == 'preemption: pod "in" not found'


# ---- eligibility -----------------------------------------------------------------------------------------------------

NOMINATED = pod("in").req(cpu="2").priority(10).nominated("n0")


def test_a_pod_waits_for_the_victims_it_has_already() -> None:
    """Another victim elsewhere would be one too many."""
    world = World(*nodes(2), terminating_by_preemption(full("gone", 1, "n0")), full("p", 1, "n1"))
    result = world.preempt(NOMINATED)
    assert (result.status.code, result.nominated_node) == (Code.UNSCHEDULABLE, None)
    assert message(result) == "preemption: not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    "on_n0",
    [
        pytest.param(full("p0", 1, "n0"), id="nobody terminates"),
        pytest.param(pod("p0").req(cpu="4").priority(1).on("n0").deleting().build(), id="deleted by somebody else"),
        pytest.param(terminating_by_preemption(full("p0", 1, "n0"), "EvictionByEvictionAPI"), id="evicted"),
        pytest.param(terminating_by_preemption(full("p0", 1, "n0"), status="False"), id="condition is false"),
        pytest.param(terminating_by_preemption(full("p0", 10, "n0")), id="not of lower priority"),
    ],
)
def test_other_pods_on_the_nominated_node_do_not_stop_it(on_n0: Pod) -> None:
    """Only victims of a preemption that are less important than the pod do."""
    result = World(*nodes(2), on_n0, full("p1", 0, "n1")).preempt(NOMINATED)
    assert (result.status.code, result.nominated_node) == (Code.SUCCESS, "n1")


def test_a_nominated_node_that_became_useless_does_not_stop_it() -> None:
    """UnschedulableAndUnresolvable: the terminating pod there makes no room for this pod any more (#92600)."""
    tainted = node("n0").taint("broken").build()
    gone = terminating_by_preemption(full("gone", 1, "n0"))
    result = World(tainted, node("n1").build(), gone, full("p", 1, "n1")).preempt(NOMINATED)
    assert result.nominated_node == "n1"


def test_a_nominated_node_that_is_gone_does_not_stop_it() -> None:
    """Nothing terminates there any more."""
    elsewhere = pod("in").req(cpu="2").priority(10).nominated("n9")
    assert World(*nodes(1), full("p", 1, "n0")).preempt(elsewhere).nominated_node == "n0"


def test_only_the_first_disruption_condition_counts() -> None:
    """Upstream stops at the first condition of the type."""
    by_scheduler = terminating_by_preemption(full("p", 1, "n0"))
    evicted = terminating_by_preemption(full("p", 1, "n0"), "EvictionByEvictionAPI")
    ours, others = by_scheduler.status.conditions, evicted.status.conditions
    first_ours = replace(by_scheduler, status=replace(by_scheduler.status, conditions=ours + others))
    first_others = replace(by_scheduler, status=replace(by_scheduler.status, conditions=others + ours))
    assert terminates_by_preemption(first_ours)
    assert not terminates_by_preemption(first_others)
    alive = replace(by_scheduler, metadata=replace(by_scheduler.metadata, deletion_timestamp=None))
    assert not terminates_by_preemption(alive)


# ---- candidates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "want"), [(1, 1), (5, 5), (100, 100), (101, 100), (500, 100), (1000, 100), (1500, 150), (5000, 500)]
)
def test_how_many_candidates_are_enough(count: int, want: int) -> None:
    """10 % and 100 (reference 27.11)."""
    assert candidates_wanted(count, 10, 100) == want


def test_potential_nodes_are_those_that_removing_pods_may_change() -> None:
    """In snapshot order, whatever the order of the visits."""
    diagnosis = Diagnosis(
        node_count=5,
        failed=Verdicts(
            np.array([3, 0, 4, 1]),
            np.array([7, 8, 7, 9], np.int32),
            {7: unschedulable("a"), 8: unresolvable("b"), 9: unschedulable("c")},
        ),
        absent=unresolvable("d"),
    )
    assert potential_nodes(diagnosis).tolist() == [1, 3, 4]
    diagnosis.absent = unschedulable("d")
    assert potential_nodes(diagnosis).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("offset", range(4))
def test_the_offset_decides_among_equal_nodes_only(offset: int) -> None:
    """Three alike and one with a more important victim: the first alike from the offset on is taken."""
    pods = [full("p0", 1, "n0"), full("p1", 5, "n1"), full("p2", 1, "n2"), full("p3", 1, "n3")]
    result = World(*nodes(4), *pods).preempt(INCOMING, offset)
    assert result.nominated_node == ("n0", "n2", "n2", "n3")[offset]


def test_a_node_without_violated_budgets_is_preferred() -> None:
    """Though its victim is more important."""
    guarded = pod("guarded").labels(app="a").req(cpu="4").priority(1).on("n0").build()
    world = World(*nodes(2), guarded, full("free", 5, "n1"), budget("guard", selector(app="a"), 0))
    assert world.preempt(INCOMING).nominated_node == "n1"


def test_the_visit_ends_with_the_candidate_that_was_enough() -> None:
    """200 equal nodes, 100 are enough: the best node stands at 100 and is seen from offset 1 on, not from offset 0."""
    pods = [full(f"p{at}", 1 if at == 100 else 5, f"n{at}") for at in range(200)]
    world = World(*nodes(200), *pods)
    assert world.preempt(INCOMING, 0).nominated_node == "n0"
    assert world.preempt(INCOMING, 1).nominated_node == "n100"


def test_nodes_after_the_last_one_needed_do_not_count() -> None:
    """n0 has no victims, n1 violates a budget: n100 is the hundredth candidate, and the better n101 comes too late."""
    guarded = pod("p1").labels(app="a").req(cpu="4").priority(5).on("n1").build()
    priorities = [5] * 99 + [1] * 99
    pods = [full(f"p{at}", priority, f"n{at}") for at, priority in enumerate(priorities, 2)]
    world = World(*nodes(200), full("p0", 10, "n0"), guarded, *pods, budget("guard", selector(app="a"), 0))
    assert world.preempt(INCOMING).nominated_node == "n2"


def test_only_so_many_violating_candidates_are_kept() -> None:
    """All 200 nodes are visited because each violates the budget; the best one comes after the first hundred."""
    guarded = [pod(f"p{at}").labels(app="a").req(cpu="4").priority(1 if at == 150 else 5) for at in range(200)]
    pods = [built.on(f"n{at}").build() for at, built in enumerate(guarded)]
    world = World(*nodes(200), *pods, budget("guard", selector(app="a"), 0))
    assert world.preempt(INCOMING).nominated_node == "n0"


def test_the_visit_goes_on_until_one_node_violates_no_budget() -> None:
    """149 nodes whose victims are protected come before the first free one; 100 candidates are not enough then."""
    pods = [pod(f"p{at}").labels(app="a").req(cpu="4").priority(1).on(f"n{at}").build() for at in range(149)]
    world = World(
        *nodes(200),
        *pods,
        *[full(f"p{at}", 9, f"n{at}") for at in range(149, 200)],
        budget("guard", selector(app="a"), 0),
    )
    assert world.preempt(INCOMING).nominated_node == "n149"


def test_arguments_limit_the_candidates() -> None:
    """minCandidateNodesAbsolute 1 and percentage 0: the first candidate is taken, good or bad."""
    world = World(*nodes(2), full("p0", 5, "n0"), full("p1", 1, "n1"))

    class Args:
        min_candidate_nodes_percentage = 0
        min_candidate_nodes_absolute = 1

    failure = world.fail(INCOMING.build())
    plugin = DefaultPreemption(Args(), PluginHandle(world.cluster.stores))
    result = plugin.post_filter(failure.search.pod, failure.search, failure.diagnosis, np.random.default_rng(3))
    assert len(result.victims) == 1
    picked = {
        plugin.post_filter(
            failure.search.pod, failure.search, failure.diagnosis, np.random.default_rng(seed)
        ).nominated_node
        for seed in range(20)
    }
    assert picked == {"n0", "n1"}


def test_the_answer_follows_the_cluster() -> None:
    """The lowest priority per node is kept between attempts: pods that come, go, and nodes that move rows are seen."""
    world = World(*nodes(2), full("p0", 10, "n0"), full("p1", 10, "n1"))
    assert world.preempt(INCOMING).nominated_node == ""
    first = world.interner.info(world.pods["default/p1"])
    world.cache.remove_pod(first)
    world.add_pod(full("p2", 3, "n1"))
    assert world.preempt(INCOMING).nominated_node == "n1"
    world.cache.remove_node(node("n0").build())
    assert world.preempt(INCOMING).nominated_node == "n1"
    world.cache.add_node(node("n2").build())
    world.add_pod(full("p3", 2, "n2"))
    assert world.preempt(INCOMING).nominated_node == "n2"


# ---- the queue -------------------------------------------------------------------------------------------------------


def test_the_gate_is_looked_at_again_when_an_assigned_pod_is_deleted() -> None:
    """The hint itself never queues: the plugins that rejected the pod judge that (reference 8.5)."""
    plugin = DefaultPreemption(None, PluginHandle(Stores()))
    (registration,) = plugin.events()
    assert registration.event == ASSIGNED_POD_DELETE
    assert registration.hint is not None
    info = PodInterner().info(INCOMING.build())
    assert registration.hint(info, full("p", 1, "n0"), None) is Hint.SKIP
    assert plugin.pre_enqueue(info).is_success
