"""What a pod gives up, and in which order."""

from __future__ import annotations

from stowplan_autoscaling.supply.karpenter.preferences import relaxed
from stowplan_scheduler.objects import PodSpec
from support.builders import PodBuilder, node_term, selector

WEB = selector(app="web")


def all_steps(spec: PodSpec, *, soft_taints: bool = False) -> list[PodSpec]:
    """The spec after each step."""
    found = []
    looser = relaxed(spec, tolerate_prefer_no_schedule=soft_taints)
    while looser is not None:
        found.append(looser)
        looser = relaxed(looser, tolerate_prefer_no_schedule=soft_taints)
    return found


def test_a_pod_without_wishes_gives_up_nothing() -> None:
    spec = PodBuilder("p").require_node(node_term("zone", "In", "a")).spread("zone", WEB).build().spec
    assert all_steps(spec) == []


def test_wishes_go_one_by_one_the_heaviest_of_a_kind_first() -> None:
    builder = PodBuilder("p").require_node(node_term("zone", "In", "a"), node_term("zone", "In", "b"))
    builder = builder.affinity("zone", WEB, weight=1).affinity("hostname", WEB, weight=9)
    builder = builder.anti_affinity("hostname", WEB, weight=5)
    builder = builder.prefer_node(2, node_term("x", "Exists")).prefer_node(7, node_term("y", "Exists"))
    builder = builder.spread("zone", WEB, soft=True).spread("hostname", WEB)
    told = []
    for spec in all_steps(builder.build().spec, soft_taints=True):
        affinity = spec.affinity
        assert affinity is not None
        assert affinity.node_affinity is not None
        assert affinity.pod_affinity is not None
        assert affinity.pod_anti_affinity is not None
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        assert required is not None
        told.append(
            (
                len(required.node_selector_terms),
                [t.weight for t in affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution],
                len(affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution),
                [t.weight for t in affinity.node_affinity.preferred_during_scheduling_ignored_during_execution],
                len(spec.topology_spread_constraints),
                len(spec.tolerations),
            )
        )
    assert told == [
        (1, [1, 9], 1, [2, 7], 2, 0),
        (1, [1], 1, [2, 7], 2, 0),
        (1, [], 1, [2, 7], 2, 0),
        (1, [], 0, [2, 7], 2, 0),
        (1, [], 0, [2], 2, 0),
        (1, [], 0, [], 2, 0),
        (1, [], 0, [], 1, 0),
        (1, [], 0, [], 1, 1),
    ]


def test_soft_taints_are_tolerated_last_and_only_once() -> None:
    spec = PodBuilder("p").build().spec
    assert [len(step.tolerations) for step in all_steps(spec, soft_taints=True)] == [1]
    tolerant = PodBuilder("p").tolerate(operator="Exists", effect="PreferNoSchedule").build().spec
    assert all_steps(tolerant, soft_taints=True) == []


def test_the_last_constraint_fills_the_gap_of_one_that_goes() -> None:
    builder = PodBuilder("p").spread("a", WEB, soft=True).spread("b", WEB).spread("c", WEB, soft=True)
    keys = [[c.topology_key for c in spec.topology_spread_constraints] for spec in all_steps(builder.build().spec)]
    assert keys == [["c", "b"], ["b"]]
