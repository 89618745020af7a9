"""An explanation shows all that stands in the way, and the very scores of the decision; looking changes nothing."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.effects import Bind
from stowplan_scheduler.events import ObjectAdded
from stowplan_scheduler.explain import Explanation, NodeVerdict, explain
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import Profile
from stowplan_scheduler.framework.selection import TieBreak
from stowplan_scheduler.minimal_changes import MOST_CHANGES
from stowplan_scheduler.scheduler import Scheduler
from support.builders import NodeBuilder, PodBuilder, name_term, node, node_term, pod, selector

FIT, TAINT, AFFINITY = "NodeResourcesFit", "TaintToleration", "NodeAffinity"


def scheduler_with(
    *objects: NodeBuilder | PodBuilder, percentage: int | None = None, tie_break: TieBreak = TieBreak.HEAP
) -> Scheduler:
    config = load_configuration(None)
    if percentage is not None:
        config = config.model_copy(update={"percentage_of_nodes_to_score": percentage})
    made = Scheduler(config, np.random.default_rng(7), tie_break=tie_break)
    for item in objects:
        made.receive(ObjectAdded(item.build()), 0)
    return made


def explained(scheduler: Scheduler, builder: PodBuilder, start: int = 0) -> Explanation:
    profile = scheduler.profiles["default-scheduler"]
    return explain(scheduler, scheduler.pods.interner.info(builder.build()), profile, start)


def verdicts(explanation: Explanation) -> dict[str, NodeVerdict]:
    return {verdict.name: verdict for verdict in explanation.nodes}


def rejecting(verdict: NodeVerdict) -> list[tuple[str, tuple[str, ...]]]:
    return [(rejection.plugin, rejection.reasons) for rejection in verdict.rejections]


def test_a_node_shows_every_plugin_that_rejects_it_not_only_the_first() -> None:
    """Who removes the taint only to find that the node is too small has been told half of it."""
    scheduler = scheduler_with(node("n1").taint("team", "a").capacity(cpu="1"), node("n2"))
    found = verdicts(explained(scheduler, pod("p").req(cpu="2")))
    assert rejecting(found["n1"]) == [
        (TAINT, ("node(s) had untolerated taint(s)",)),
        (FIT, ("Insufficient cpu",)),
    ]
    assert found["n2"].is_feasible


def test_scores_are_those_of_the_decision() -> None:
    """Worked out by hand: LeastAllocated gives (cpu + memory) / 2, each the free share after the pod, in percent."""
    scheduler = scheduler_with(node("n1"), node("n2"), pod("old").on("n1").req(cpu="2", memory="8Gi"))
    explanation = explained(scheduler, pod("new").req(cpu="1", memory="4Gi"))
    fit = {
        name: next((s.raw, s.normalized, s.weight) for s in verdict.scores if s.plugin == FIT)
        for name, verdict in verdicts(explanation).items()
    }
    # n1: 3 of 4 cores and 12 of 16 GiB in use, n2: 1 of 4 and 4 of 16.
    assert fit == {"n1": (25, 25, 1), "n2": (75, 75, 1)}
    for verdict in explanation.nodes:
        assert verdict.total == sum(score.weighted for score in verdict.scores)
    assert (explanation.selected, explanation.ties, explanation.feasible_nodes) == ("n2", 1, 2)


def test_plugins_stand_in_the_profiles_order() -> None:
    """Readers compare the columns of two profiles."""
    scheduler = scheduler_with(node("n1"), node("n2"))
    scores = explained(scheduler, pod("p")).nodes[0].scores
    order = [plugin.name for plugin, _ in scheduler.profiles["default-scheduler"].scores]
    assert len(scores) > 3
    assert [s.plugin for s in scores] == [name for name in order if name in {s.plugin for s in scores}]


def look_and_note(scheduler: Scheduler, told: list[str], pod: PodInfo, profile: Profile, start: int) -> None:
    told.append(explain(scheduler, pod, profile, start).selected)


@pytest.mark.parametrize("tie_break", list(TieBreak))
def test_looking_changes_no_decision(tie_break: TieBreak) -> None:
    """Neither random numbers nor the start index may move: a run with --explain must equal one without."""
    nodes = [node(f"n{i}") for i in range(20)]
    bound: list[list[str]] = []
    for look in (False, True):
        scheduler = scheduler_with(*nodes, *(pod(f"p{i}") for i in range(10)), tie_break=tie_break)
        told: list[str] = []
        if look:
            scheduler.attempts.before_decision = partial(look_and_note, scheduler, told)
        chosen: list[str] = []
        while scheduler.has_work():
            chosen.extend(e.node_name for e in scheduler.run_cycle(0) if isinstance(e, Bind))
        bound.append(chosen)
        assert len(chosen) == 10
        if look:
            assert told == chosen
    assert bound[0] == bound[1]


def test_in_a_sample_only_the_visited_nodes_have_scores() -> None:
    """percentageOfNodesToScore 50 of 300 nodes: 150 are found, and one more is seen; scores of others do not exist."""
    scheduler = scheduler_with(*(node(f"n{i:03}") for i in range(300)), percentage=50)
    explanation = explained(scheduler, pod("p"), start=200)
    names = [verdict.name for verdict in explanation.nodes]
    scored = {verdict.name for verdict in explanation.nodes if verdict.total is not None}
    assert scored == {names[(200 + i) % 300] for i in range(150)}
    assert {verdict.name for verdict in explanation.nodes if verdict.looked_at} == scored
    assert explanation.evaluated_nodes == 150
    assert all(verdict.is_feasible for verdict in explanation.nodes)
    assert explanation.selected in scored


def test_nodes_that_prefilter_leaves_out_are_rejected_in_its_words() -> None:
    """Upstream never runs Filter on them, and its message has the words of PreFilter."""
    scheduler = scheduler_with(node("n1").capacity(cpu="1"), node("n2").capacity(cpu="1"))
    explanation = explained(scheduler, pod("p").req(cpu="2").require_node(name_term("n1")))
    found = verdicts(explanation)
    assert rejecting(found["n1"]) == [(FIT, ("Insufficient cpu",))]
    left_out = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert rejecting(found["n2"]) == [(AFFINITY, (left_out,)), (FIT, ("Insufficient cpu",))]
    assert explanation.message == f"0/2 nodes are available: 1 Insufficient cpu, 1 {left_out}."


def test_a_pod_that_prefilter_rejects_is_rejected_by_every_node() -> None:
    """The two terms can never hold together."""
    scheduler = scheduler_with(node("n1"), node("n2"))
    conflicting = name_term("n1").match_fields + name_term("n2").match_fields
    term = msgspec.structs.replace(name_term("n1"), match_fields=conflicting)
    explanation = explained(scheduler, pod("p").require_node(term))
    assert [rejecting(verdict) for verdict in explanation.nodes] == [[(AFFINITY, ("pod affinity terms conflict",))]] * 2
    assert explanation.changes == ()
    assert explanation.selected == ""


def test_room_that_is_promised_to_a_nominated_pod_is_not_free() -> None:
    """The node passes every plugin by itself; without a word about the nomination the verdict would be a riddle."""
    urgent = pod("urgent").priority(10).req(cpu="3").nominated("n1")
    scheduler = scheduler_with(node("n1"), urgent)
    explanation = explained(scheduler, pod("p").req(cpu="2"))
    (rejection,) = explanation.nodes[0].rejections
    assert (rejection.plugin, rejection.reasons, rejection.for_nominated) == (FIT, ("Insufficient cpu",), True)


def test_without_nodes_there_is_nothing_but_a_message() -> None:
    """Upstream's text for an empty cluster."""
    explanation = explained(scheduler_with(), pod("p"))
    assert (explanation.nodes, explanation.message) == ((), "no nodes available to schedule pods")


CHANGES: dict[str, tuple[list[NodeBuilder | PodBuilder], PodBuilder, list[tuple[str, tuple[str, ...]]]]] = {
    "the node that lacks least, relative to its size": (
        [node("n1").capacity(cpu="4"), node("n2").capacity(cpu="8"), pod("a").on("n1").req(cpu="3500m"),
         pod("b").on("n2").req(cpu="7")],
        pod("p").req(cpu="1500m"),
        [("n2 lacks 500m cpu (1 free)", ("n2",))],
    ),
    "a node that is full before one that is too small": (
        [node("n1").capacity(cpu="1900m"), node("n2"), pod("b").on("n2").req(cpu="4")],
        pod("p").req(cpu="2"),
        [("n2 lacks 2 cpu (0 free)", ("n2",))],
    ),
    "two resources at once": (
        [node("n1").capacity(cpu="1", memory="1Gi")],
        pod("p").req(cpu="2", memory="3Gi"),
        [("n1 lacks 1 cpu (even empty it has only 1) and 2Gi memory (even empty it has only 1Gi)", ("n1",))],
    ),
    "a resource that the node does not have": (
        [node("n1")],
        pod("p").req(gpu="1"),
        [("n1 lacks 1 example.com/gpu (it has none)", ("n1",))],
    ),
    "no place for another pod": (
        [node("n1").capacity(pods="1"), pod("a").on("n1")],
        pod("p"),
        [("n1 lacks room for 1 more pods (it takes 1)", ("n1",))],
    ),
    "taints in groups, the change that opens most nodes first": (
        [node("n1").taint("team", "a"), node("n2").taint("team", "b"), node("n3").taint("team", "b")],
        pod("p"),
        [("tolerate team=b:NoSchedule", ("n2", "n3")), ("tolerate team=a:NoSchedule", ("n1",))],
    ),
    "all taints of a node are needed": (
        [node("n1").taint("a").taint("soft", effect="PreferNoSchedule").taint("b", "x", effect="NoExecute")],
        pod("p"),
        [("tolerate a:NoSchedule and b=x:NoExecute", ("n1",))],
    ),
    "a cordoned node": ([node("n1").unschedulable()], pod("p"), [("uncordon the node", ("n1",))]),
    "a label that the selector wants": (
        [node("n1").label("disk", "hdd")],
        pod("p").node_selector(disk="ssd"),
        [("take disk=ssd out of the node selector, or label the node so", ("n1",))],
    ),
    "a required affinity": (
        [node("n1")],
        pod("p").require_node(node_term("zone", "In", "z1")),
        [("relax the required node affinity", ("n1",))],
    ),
    "a host port": (
        [node("n1"), pod("a").on("n1").port(80)],
        pod("p").port(80),
        [("free the host port 80/TCP", ("n1",))],
    ),
    "rules between pods": (
        [node("n1"), pod("a").labels(app="x").on("n1")],
        pod("p").anti_affinity("hostname", selector(app="x")),
        [(
            "lift what InterPodAffinity has against it: node(s) didn't match pod anti-affinity rules",
            ("n1",),
        )],
    ),
    "nothing single": (
        [node("n1").taint("a").capacity(cpu="1").unschedulable(), node("n2").taint("a").capacity(cpu="1")],
        pod("p").req(cpu="2"),
        [("no single change: n2, the nearest, is rejected by TaintToleration and NodeResourcesFit", ())],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_minimal_changes(case: str) -> None:
    """Each names what is missing, by how much, and which nodes it alone would open."""
    objects, builder, expected = CHANGES[case]
    explanation = explained(scheduler_with(*objects), builder)
    assert [(change.text, change.nodes) for change in explanation.changes] == expected


def test_a_named_change_does_place_the_pod() -> None:
    """The promise behind the list: with the toleration the pod fits on each node that was named."""
    nodes = [node(f"n{i}").taint("team", "a" if i % 2 else "b").capacity(cpu=str(i + 1)) for i in range(4)]
    before = explained(scheduler_with(*nodes), pod("p").req(cpu="2"))
    change = before.changes[0]
    assert change.text == "tolerate team=a:NoSchedule"
    assert change.nodes == ("n1", "n3")
    after = explained(scheduler_with(*nodes), pod("p").req(cpu="2").tolerate("team", "a"))
    assert tuple(verdict.name for verdict in after.nodes if verdict.is_feasible) == change.nodes


def test_the_list_of_changes_is_short() -> None:
    """Ten teams, ten taints: nobody reads ten suggestions."""
    explanation = explained(scheduler_with(*(node(f"n{i}").taint("team", f"t{i}") for i in range(10))), pod("p"))
    assert len(explanation.changes) == MOST_CHANGES
