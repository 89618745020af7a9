"""The scalar reference against numbers worked out by hand, and the corners that recorded answers rarely reach."""

from __future__ import annotations

import pytest

from reference.cluster import ReferenceCluster
from reference.decide import evaluate, heap_root, nodes_to_find, schedule
from reference.inter_pod_affinity import normalize_affinity
from reference.profile import default_profile
from reference.scores import balance, broken_linear, default_normalize
from stowplan_scheduler.objects import Node, Pod
from support.builders import budget, name_term, node, node_term, pod, selector

PROFILE = default_profile()


def names(nodes: list[Node]) -> list[str]:
    return [each.metadata.name for each in nodes]


def test_zones_take_turns_in_the_order_of_their_first_node() -> None:
    """Snapshot order is what sampling rotates over and what breaks ties."""
    zones = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c", "c2": "c"}
    cluster = ReferenceCluster([node(name).zone(zone).build() for name, zone in zones.items()])
    assert names([state.node for state in cluster.nodes]) == ["a1", "b1", "c1", "a2", "c2", "a3"]


@pytest.mark.parametrize(
    ("scores", "root"),
    [([5, 5, 5], 0), ([4, 5, 5], 1), ([1, 2, 3, 9, 9], 3), ([1, 1, 9, 9, 1, 1, 1], 3), ([1, 7, 7, 1, 7, 1, 1], 1)],
)
def test_a_tie_goes_to_the_root_of_the_heap(scores: list[int], root: int) -> None:
    """The first maximum would be wrong: building a heap moves other nodes up."""
    assert heap_root(scores) == root


@pytest.mark.parametrize(("nodes", "enough"), [(99, 99), (100, 100), (250, 120), (1000, 420), (5000, 500), (6000, 300)])
def test_the_adaptive_number_of_nodes_is_upstreams(nodes: int, enough: int) -> None:
    """It falls between 5,000 and 6,000 nodes: the percentage sinks faster than the number grows."""
    assert nodes_to_find(nodes, 0) == enough


def test_normalizations_match_hand_made_vectors() -> None:
    """29 of 100 becomes 28 in floating point; that is upstream's result."""
    assert default_normalize([0, 1, 3]) == [0, 33, 100]
    assert default_normalize([0, 1, 3], reverse=True) == [100, 67, 0]
    assert default_normalize([0, 0], reverse=True) == [100, 100]
    assert normalize_affinity([29, 0, 100]) == [28, 0, 100]
    assert normalize_affinity([10, 0, -5]) == [100, 33, 0]


def test_a_falling_line_truncates_towards_zero() -> None:
    """Python's floor division would give 69 and 45."""
    points = [(0, 0), (40, 70), (100, 30)]
    assert [broken_linear(points, x) for x in (0, 13, 41, 55, 77, 100)] == [0, 22, 70, 60, 46, 30]


def test_balance_is_hundred_minus_the_deviation() -> None:
    """Two shares use half their distance, three the standard deviation, one nothing."""
    assert [balance([0.25, 0.75]), balance([0.25, 0.25, 0.5]), balance([0.3])] == [75, 88, 100]


def test_the_search_ends_at_the_node_after_the_last_one_that_is_needed() -> None:
    """With 150 nodes 100 suffice. Ten rejected nodes follow the hundredth feasible one: the search passes them, because
    only the 101st feasible node ends it, and the next search starts there. The real scheduler does the same.
    """
    nodes = [
        node(f"n{i:03}").build() if not 100 <= i < 110 else node(f"n{i:03}").unschedulable().build() for i in range(150)
    ]
    cluster = ReferenceCluster(nodes)
    _, _, start = schedule(cluster, PROFILE, pod("first").build(), percentage=10)
    assert start == 110
    fussy = (
        pod("second").tolerate("node.kubernetes.io/unschedulable").prefer_node(100, node_term("hostname", "In", "n105"))
    )
    chosen, _, start = schedule(cluster, PROFILE, fussy.build(), percentage=10, start_index=start)
    assert (chosen, start) == ("n110", 60)


def test_the_rejectors_of_the_nominated_node_show_up_in_the_message_about_absent_nodes() -> None:
    """Upstream prints the set of rejectors after it has looked at the nominated node."""
    nodes = [node("n0").unschedulable().build(), node("n1").capacity(cpu="1").build(), node("n2").build()]
    fixed = pod("p").req(cpu="2").require_node(name_term("n1")).nominated("n0").build()
    _, text, _ = schedule(ReferenceCluster(nodes), PROFILE, fixed)
    absent = "node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable]"
    assert text == f"0/3 nodes are available: 1 Insufficient cpu, 1 {absent}, 1 node(s) were unschedulable."


def test_a_preferred_term_of_no_weight_still_shows_node_affinity_among_the_scores() -> None:
    """Only a pod without any preferred term is skipped."""
    cluster = ReferenceCluster([node("a").build(), node("b").build()])
    found = evaluate(cluster, PROFILE, pod("p").prefer_node(0, node_term("hostname", "In", "a")).build())
    assert found["scores"]["a"]["NodeAffinity"] == {"raw": 0, "normalized": 0, "weighted": 0}
    assert "NodeAffinity" not in evaluate(cluster, PROFILE, pod("p").build())["scores"]["a"]


def test_a_freed_host_port_is_free_even_if_another_pod_has_it_too() -> None:
    """Used ports are a set without counts: the dry run takes the less important pod away and finds the port free."""
    important = pod("important").priority(50).port(80).on("n").build()
    humble = pod("humble").priority(0).port(80).on("n").build()
    cluster = ReferenceCluster([node("n").build()], [important, humble])
    found = evaluate(cluster, PROFILE, pod("p").priority(10).port(80).build())
    assert found["postFilter"]["victims"] == ["default/humble"]


def full_node(name: str, *pods: Pod) -> tuple[Node, list[Pod]]:
    return node(name).capacity(cpu="2").build(), list(pods)


def test_preemption_prefers_the_node_without_violated_budgets() -> None:
    """A budget is a preference, and the strongest one: it outweighs the lower priority of the other victim."""
    first, on_first = full_node("n0", pod("guarded").req(cpu="2").priority(1).labels(app="web").on("n0").build())
    second, on_second = full_node("n1", pod("other").req(cpu="2").priority(5).on("n1").build())
    cluster = ReferenceCluster(
        [first, second], [*on_first, *on_second], pdbs=[budget("b", selector(app="web"), allowed=0)]
    )
    found = evaluate(cluster, PROFILE, pod("p").req(cpu="2").priority(10).build())
    assert found["postFilter"]["nominatedNode"] == "n1"
    assert found["message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    )


def test_a_conflict_of_node_names_leaves_no_preemption_but_an_error() -> None:
    """PreFilter ends before DynamicResources has run, and its PostFilter then misses its state."""
    cluster = ReferenceCluster([node("a").build(), node("b").build()])
    found = evaluate(cluster, PROFILE, pod("p").wants_node("a").require_node(name_term("b")).build())
    assert found["message"] == (
        "0/2 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously. not found"
    )
    assert found["postFilter"]["code"] == "Error"
    assert found["rejectors"] == ["NodeAffinity", "NodeName"]
