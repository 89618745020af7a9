"""A run goes on until nothing more can be placed, and then ends."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from stowplan_autoscaling.inputs import ClusterInput
from stowplan_autoscaling.placement import Outcome, Placement, PlacementOptions, PodNotFoundError, measure
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import KubeSchedulerConfiguration, load_configuration
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.framework.interface import FilterPlugin, ReasonIds
from stowplan_scheduler.framework.selection import TieBreak
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import PersistentVolumeClaimVolumeSource, Volume
from stowplan_scheduler.profiles import plugin_traits
from support.builders import NodeBuilder, PodBuilder, node, pod, selector

TYPE = "kubescheduler.config.k8s.io/v1"


def cluster(nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder]) -> ClusterInput:
    return ClusterInput(nodes=tuple(n.build() for n in nodes), pods=tuple(p.build() for p in pods), origin={})


def run(data: ClusterInput, config: KubeSchedulerConfiguration | None = None, **options: object) -> Outcome:
    made = PlacementOptions(**options)  # type: ignore[arg-type]
    return Placement(data, config or load_configuration(None), made).run()


def pending(outcome: Outcome) -> dict[str, str]:
    return {waiting.pod.metadata.name: waiting.message for waiting in outcome.pending}


def test_pods_of_one_priority_are_placed_in_the_order_of_the_input() -> None:
    """A list of pods is a story: what comes first has the first choice."""
    outcome = run(cluster([node("n1").capacity(cpu="3")], [pod(f"p{i}").req(cpu="1") for i in range(5)]))
    assert outcome.placed == {f"default/p{i}": "n1" for i in range(3)}
    assert pending(outcome) == dict.fromkeys(
        ["p3", "p4"],
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
    )


def test_placed_anew_pods_with_claims_keep_their_node_and_count_there() -> None:
    """They are not decided: taken off their node they would stay pending, and the comparison would be about nothing."""
    claim = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
    held = pod("db").req(cpu="3").on("n1").build()
    held = msgspec.structs.replace(held, spec=msgspec.structs.replace(held.spec, volumes=(claim,)))
    web = pod("web").req(cpu="3").on("n1").build()
    data = ClusterInput(nodes=(node("n1").build(), node("n2").build()), pods=(held, web), origin={})
    outcome = run(data, reschedule_all=True)
    assert outcome.placed == {"default/web": "n2"}
    assert not outcome.pending


def test_a_pod_with_a_claim_is_refused_with_a_plain_reason() -> None:
    """Nothing is guessed, and no preemption is tried for it."""
    claim = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
    made = pod("db").build()
    made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, volumes=(claim,)))
    outcome = run(ClusterInput(nodes=(node("n1").build(),), pods=(made,), origin={}))
    text = "0/1 nodes are available: the pod uses volumes, which Stowplan does not decide yet."
    assert pending(outcome) == {"db": text}


def test_higher_priorities_come_first() -> None:
    """As the queue of the scheduler has it."""
    outcome = run(cluster([node("n1")], [pod("low").req(cpu="3"), pod("high").priority(5).req(cpu="3")]))
    assert outcome.placed == {"default/high": "n1"}


def test_a_pod_that_waits_for_another_is_placed_when_it_comes() -> None:
    """The first attempt of `follower` fails; the binding of `leader` wakes it."""
    follower = pod("follower").priority(9).affinity("hostname", selector(app="leader"))
    outcome = run(cluster([node("n1"), node("n2")], [follower, pod("leader").labels(app="leader")]))
    assert len(set(outcome.placed.values())) == 1
    assert set(outcome.placed) == {"default/follower", "default/leader"}
    assert outcome.decisions.attempts == 3


def test_pods_that_are_on_a_node_stay_there() -> None:
    """They are kept, not placed, and what they take is taken."""
    outcome = run(cluster([node("n1")], [pod("old").on("n1").req(cpu="3"), pod("new").req(cpu="2")]))
    assert (outcome.kept, outcome.placed, list(pending(outcome))) == (1, {}, ["new"])


def test_preemption_removes_victims_and_places_the_preemptor() -> None:
    """The victim is gone for good: it counts as a victim, neither as kept nor as pending."""
    outcome = run(cluster([node("n1")], [pod("low").on("n1").req(cpu="4"), pod("high").priority(5).req(cpu="4")]))
    assert [(v.pod.key, v.node_name, v.by) for v in outcome.victims] == [("default/low", "n1", "default/high")]
    assert (outcome.kept, outcome.placed, pending(outcome)) == (0, {"default/high": "n1"}, {})
    report = measure(outcome, name="x")
    assert report.pods.total == report.pods.placed + report.pods.kept + report.pods.pending + report.pods.victims


def test_placing_anew_lets_the_important_go_first() -> None:
    """Today `low` has the only room because it came first."""
    data = cluster([node("n1")], [pod("low").on("n1").req(cpu="3"), pod("high").priority(5).req(cpu="3")])
    assert list(run(data, reschedule_all=True).placed) == ["default/high"]


def test_placing_anew_leaves_what_belongs_to_its_node() -> None:
    """DaemonSets' and static pods, pods that are being deleted and pods of other schedulers."""
    staying = [
        pod("daemon").owner("DaemonSet", "agent").on("n1"),
        pod("static").owner("Node", "n1", "v1").on("n1"),
        pod("leaving").deleting().on("n1"),
        pod("foreign").scheduler("other").on("n1"),
    ]
    outcome = run(cluster([node("n1"), node("n2")], [*staying, pod("web").on("n1")]), reschedule_all=True)
    assert outcome.kept == 4
    # The default profile prefers the empty node.
    assert outcome.placed == {"default/web": "n2"}


def test_pods_that_no_profile_takes_are_apart() -> None:
    """They are not pending here: another scheduler may well place them."""
    outcome = run(cluster([node("n1")], [pod("mine"), pod("theirs").scheduler("other")]))
    assert [p.key for p in outcome.other_schedulers] == ["default/theirs"]
    assert pending(outcome) == {}


def test_what_is_never_tried_has_a_reason_too() -> None:
    """A gate, and a deletion."""
    outcome = run(cluster([node("n1")], [pod("gated").gated("b", "a"), pod("leaving").deleting()]))
    assert pending(outcome) == {
        "gated": "waiting for scheduling gates: [b a]",
        "leaving": "the pod is being deleted",
    }


def test_a_cluster_without_nodes() -> None:
    """Upstream's text, and no end of waiting."""
    assert pending(run(cluster([], [pod("p")]))) == {"p": "no nodes available to schedule pods"}


def test_an_empty_cluster() -> None:
    """Nothing to do is no mistake."""
    outcome = run(cluster([], []))
    assert (outcome.settled, outcome.decisions.attempts, outcome.kept) == (True, 0, 0)


class Broken(FilterPlugin):
    """Fails on every node."""

    name = "Broken"

    def __init__(self, args: object, handle: object) -> None:
        super().__init__()

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        return np.full(view.size, self.reasons.id(Code.ERROR, "it broke"), np.int16)


def test_a_plugin_that_breaks_does_not_keep_the_run_going() -> None:
    """The scheduler would try such a pod for ever, with back-off; here it is over when another round brings nothing."""
    plugins: dict[str, PluginFactory] = {"Broken": Broken}
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Broken"}]}}}
    config = load_configuration(
        {"apiVersion": TYPE, "kind": "KubeSchedulerConfiguration", "profiles": [profile]},
        extra_plugins=plugin_traits(plugins),
    )
    outcome = Placement(cluster([node("n1")], [pod("p"), pod("q")]), config, third_party=plugins).run()
    assert pending(outcome) == dict.fromkeys(["p", "q"], 'running "Broken" filter plugin: it broke')
    assert outcome.settled
    assert outcome.decisions.attempts == 2


@pytest.mark.parametrize("tie_break", list(TieBreak))
def test_the_same_seed_gives_the_same_bytes(tie_break: TieBreak) -> None:
    """Twenty equal nodes: everything is a tie."""
    data = cluster([node(f"n{i}") for i in range(20)], [pod(f"p{i}").req(cpu="500m") for i in range(60)])

    def bytes_of(seed: int) -> bytes:
        outcome = run(data, tie_break=tie_break, seed=seed)
        return msgspec.json.encode((measure(outcome, name="x"), outcome.placed))

    assert bytes_of(3) == bytes_of(3)
    assert (bytes_of(3) != bytes_of(4)) == (tie_break is TieBreak.RANDOM)


def test_the_decisions_are_counted() -> None:
    """Three equal nodes with room for one pod each: 3 ties, then 2, then a single node that fits."""
    nodes = [node(f"n{i}").capacity(pods="1") for i in range(3)]
    decisions = run(cluster(nodes, [pod(f"p{i}") for i in range(3)])).decisions
    assert (decisions.ties, decisions.feasible, decisions.evaluated) == ([3, 2, 1], [3, 2, 1], [3, 3, 3])
    assert decisions.attempts == 3


def test_progress_ends_at_the_whole() -> None:
    """A bar that stops at 98 % looks like a failure."""
    told: list[tuple[int, int]] = []
    data = cluster([node("n1")], [pod(f"p{i}").req(cpu="10m") for i in range(250)])
    Placement(data, load_configuration(None)).run(lambda done, total: told.append((done, total)))
    assert told == [(200, 250), (250, 250)]


# ---- explanations --------------------------------------------------------------------------------------------------


def test_a_placed_pod_is_explained_as_of_its_own_attempt() -> None:
    """At that time n1 had nothing on it, although it is full at the end."""
    data = cluster([node("n1")], [pod("first").req(cpu="2"), pod("second").req(cpu="2")])
    explained = run(data, explain="default/first").explained
    assert explained is not None
    assert (explained.when, explained.node_name, explained.message) == ("at its last attempt", "n1", "")
    assert explained.explanation.selected == "n1"


def test_a_pending_pod_has_the_schedulers_whole_message_and_changes() -> None:
    """The explanation is made before PostFilter has spoken; the message is the last word all the same."""
    data = cluster([node("n1")], [pod("big").req(cpu="5")])
    explained = run(data, explain="default/big").explained
    assert explained is not None
    assert explained.message.endswith(
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert [change.text for change in explained.explanation.changes] == ["n1 lacks 1 cpu (even empty it has only 4)"]


def test_a_pod_that_kept_its_node_is_explained_as_if_it_came_now() -> None:
    """It takes no room from itself, and is back on its node afterwards."""
    outcome = run(cluster([node("n1")], [pod("old").on("n1").req(cpu="3")]), explain="default/old")
    explained = outcome.explained
    assert explained is not None
    assert (explained.when, explained.node_name, explained.explanation.selected) == ("at the end", "n1", "n1")
    assert measure(outcome, name="x").resources[0].requested.raw == 3000


def test_victims_and_their_preemptor_are_explained() -> None:
    """Both questions are asked: why did it go, and for whom."""
    data = cluster([node("n1")], [pod("low").on("n1").req(cpu="4"), pod("high").priority(5).req(cpu="4")])
    high = run(data, explain="default/high").explained
    low = run(data, explain="default/low").explained
    assert high is not None
    assert low is not None
    assert [victim.pod.key for victim in high.victims] == ["default/low"]
    assert (low.node_name, low.message) == ("", "preempted by default/high")


def test_a_pod_that_is_not_there_cannot_be_explained() -> None:
    """Better now than after a long run."""
    with pytest.raises(PodNotFoundError):
        run(cluster([node("n1")], []), explain="default/none")
