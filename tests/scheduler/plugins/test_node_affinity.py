"""Tests of NodeAffinity."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from stowplan_scheduler.config.plugin_args import NodeAffinityArgs
from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from stowplan_scheduler.objects import (
    NodeAffinity as NodeAffinitySpec,
)
from stowplan_scheduler.plugins.node_affinity import NodeAffinity
from stowplan_scheduler.selectors import SelectorError, required_node_affinity_matches
from support import strategies
from support.builders import PodBuilder, name_term, node, node_term, pod
from support.tables import World, ask, info_of


def plugin(added: NodeAffinitySpec | None = None) -> NodeAffinity:
    """The plugin, perhaps with an added affinity."""
    return NodeAffinity(NodeAffinityArgs(added_affinity=added))


def requires(*terms: NodeSelectorTerm) -> NodeAffinitySpec:
    """A required affinity for the args."""
    return NodeAffinitySpec(required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms))


def prefers(*terms: tuple[int, NodeSelectorTerm]) -> NodeAffinitySpec:
    """A preferred affinity for the args."""
    return NodeAffinitySpec(
        preferred_during_scheduling_ignored_during_execution=tuple(
            PreferredSchedulingTerm(weight=weight, preference=term) for weight, term in terms
        )
    )


def world() -> World:
    """Disks and generations."""
    return World(
        [
            node("ssd-1").labels(disk="ssd", gen="1").build(),
            node("ssd-9").labels(disk="ssd", gen="9").build(),
            node("hdd-5").labels(disk="hdd", gen="5").build(),
            node("bare").build(),
        ]
    )


@pytest.mark.parametrize(
    ("wanting", "passing"),
    [
        (pod("p").node_selector(disk="ssd"), ["ssd-1", "ssd-9"]),
        (pod("p").node_selector(disk="ssd", gen="9"), ["ssd-9"]),
        (pod("p").node_selector(disk="tape"), []),
        (pod("p").require_node(node_term("disk", "In", "ssd", "tape")), ["ssd-1", "ssd-9"]),
        (pod("p").require_node(node_term("disk", "In", "ssd", "hdd")), ["ssd-1", "ssd-9", "hdd-5"]),
        (pod("p").require_node(node_term("disk", "NotIn", "ssd")), ["hdd-5", "bare"]),
        (pod("p").require_node(node_term("disk", "Exists")), ["ssd-1", "ssd-9", "hdd-5"]),
        (pod("p").require_node(node_term("disk", "DoesNotExist")), ["bare"]),
        (pod("p").require_node(node_term("gen", "Gt", "4")), ["ssd-9", "hdd-5"]),
        (pod("p").require_node(node_term("gen", "Lt", "5")), ["ssd-1"]),
        (pod("p").require_node(node_term("disk", "Gt", "0")), []),
        (pod("p").require_node(node_term("gen", "In", "1"), node_term("disk", "In", "hdd")), ["ssd-1", "hdd-5"]),
        (pod("p").node_selector(disk="ssd").require_node(node_term("gen", "Gt", "4")), ["ssd-9"]),
        (pod("p").require_node(NodeSelectorTerm()), []),
        (pod("p").require_node(NodeSelectorTerm(), node_term("gen", "In", "5")), ["hdd-5"]),
        (pod("p").require_node(node_term("gen", "In"), node_term("gen", "In", "5")), ["hdd-5"]),
        (pod("p").require_node(name_term("bare", operator="NotIn")), ["ssd-1", "ssd-9", "hdd-5"]),
    ],
)
def test_filter(wanting: PodBuilder, passing: list[str]) -> None:
    """Selector and terms together; an empty term and one with a parse error match nothing, the others still may."""
    assert world().passing(plugin(), wanting.build()) == passing


def test_reason_says_whose_affinity_did_not_match() -> None:
    """The profile's affinity is looked at first."""
    verdicts = world().verdicts(plugin(requires(node_term("disk", "Exists"))), pod("p").node_selector(gen="9").build())
    assert [status.message for status in verdicts] == [
        "node(s) didn't match Pod's node affinity/selector",
        "",
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't match scheduler-enforced node affinity",
    ]
    assert {status.code for status in verdicts if status.message} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


def test_pod_without_any_wish_skips_unless_the_profile_adds_one() -> None:
    """Skip saves the filter; an added affinity concerns every pod."""
    here, info = world(), info_of(pod("p").build())
    assert plugin().pre_filter(info, here.cluster).status.is_skip
    assert here.passing(plugin(requires(node_term("disk", "In", "hdd"))), pod("p").build()) == ["hdd-5"]


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ((name_term("a"), name_term("b")), {"a", "b"}),
        ((name_term("a"), node_term("disk", "Exists")), None),
        ((name_term("a", operator="NotIn"),), None),
        ((), None),
    ],
)
def test_pre_filter_restricts_the_search_to_named_nodes(
    terms: tuple[NodeSelectorTerm, ...], names: set[str] | None
) -> None:
    """Only if every term names nodes with In; terms are joined by or."""
    wanting = pod("p").require_node(*terms).build()
    result = plugin().pre_filter(info_of(wanting), world().cluster)
    assert result.status.is_success
    assert result.node_names == names


def test_conflicting_names_within_every_term_refuse_the_pod() -> None:
    """Expressions of one term are joined by and: a and b at once is nobody."""
    both = NodeSelectorTerm(match_fields=(*name_term("a").match_fields, *name_term("b").match_fields))
    result = plugin().pre_filter(info_of(pod("p").require_node(both).build()), world().cluster)
    assert result.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert result.status.message == "pod affinity terms conflict"


def test_score_adds_the_weights_of_the_preferences_that_hold() -> None:
    """Raw 50, 20, 7 become 100, 40, 14: 100 * 7 // 50 = 14."""
    wanting = pod("p").prefer_node(43, node_term("gen", "In", "1")).prefer_node(7, node_term("disk", "In", "ssd"))
    wanting.prefer_node(20, node_term("disk", "In", "hdd"))
    here = world()
    assert here.raw_scores(plugin(), wanting.build()) == [50, 7, 20, 0]
    assert here.scores(plugin(), wanting.build()) == [100, 14, 40, 0]


def test_preferences_of_the_profile_are_added() -> None:
    """Every pod gets them, its own come on top."""
    profile = plugin(prefers((10, node_term("disk", "In", "hdd"))))
    assert world().raw_scores(profile, pod("p").build()) == [0, 0, 10, 0]
    assert world().raw_scores(profile, pod("p").prefer_node(1, node_term("gen", "In", "5")).build()) == [0, 0, 11, 0]


def test_weight_zero_and_empty_preferences_do_not_score() -> None:
    """They are dropped before parsing."""
    wanting = pod("p").prefer_node(0, node_term("disk", "Exists")).prefer_node(5, NodeSelectorTerm())
    assert world().scores(plugin(), wanting.build()) == [0, 0, 0, 0]


def test_pod_without_preferences_skips_scoring() -> None:
    """Skip, not a score of 0 for all."""
    here = world()
    assert plugin().pre_score(info_of(pod("p").build()), here.cluster, here.view()).status.is_skip


def test_preference_that_does_not_parse_is_an_error() -> None:
    """Unlike a required term, which only fails to match."""
    here = world()
    info = info_of(pod("p").prefer_node(5, node_term("disk", "In")).build())
    status = plugin().pre_score(info, here.cluster, here.view()).status
    assert status.code is Code.ERROR
    assert "values set can't be empty" in status.message


def test_added_affinity_that_does_not_parse_is_refused_at_once() -> None:
    """Validation finds it first; a plugin made by hand must not swallow it."""
    with pytest.raises(SelectorError):
        plugin(requires(node_term("disk", "In")))


def test_pods_that_differ_in_requests_share_keys() -> None:
    """Node affinity is all that the rule reads."""
    one, other = pod("p").req(cpu="1").node_selector(disk="ssd"), pod("q").req(cpu="2").node_selector(disk="ssd")
    assert plugin().filter_key(info_of(one.build())) == plugin().filter_key(info_of(other.build()))
    assert plugin().filter_key(info_of(one.build())) != plugin().filter_key(info_of(pod("r").build()))


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (None, "ssd", Hint.QUEUE),
        (None, "hdd", Hint.SKIP),
        ("hdd", "ssd", Hint.QUEUE),
        ("ssd", "ssd", Hint.SKIP),
        ("ssd", "hdd", Hint.SKIP),
    ],
)
def test_node_change_helps_when_the_pod_matches_now_and_did_not_before(
    before: str | None, after: str, hint: Hint
) -> None:
    """A node that matched already was tried already."""
    (registration,) = plugin().events()
    old, new = (disk and node("n").labels(disk=disk).build() for disk in (before, after))
    assert ask(registration.hint, info_of(pod("p").node_selector(disk="ssd").build()), old, new) is hint


def test_node_change_counts_as_help_when_a_term_does_not_parse_and_no_other_matches() -> None:
    """Names in matchFields must be exactly one. Nobody can tell whether the node helps, so the hint raises, and the
    queue takes that for Queue. A mismatch of the nodeSelector is told before the terms are looked at.
    """
    (registration,) = plugin().events()
    new = node("n").labels(disk="ssd").build()
    two_names = name_term("a", "b")
    with pytest.raises(SelectorError, match="must have one element"):
        ask(registration.hint, info_of(pod("p").require_node(two_names).build()), None, new)
    other_matches = pod("p").require_node(two_names, node_term("disk", "In", "ssd"))
    assert ask(registration.hint, info_of(other_matches.build()), None, new) is Hint.QUEUE
    wrong_disk = pod("p").node_selector(disk="hdd").require_node(two_names)
    assert ask(registration.hint, info_of(wrong_disk.build()), None, new) is Hint.SKIP


def test_node_outside_the_added_affinity_does_not_help() -> None:
    """Even if it matches the pod's own."""
    (registration,) = plugin(requires(node_term("zone", "In", "z1"))).events()
    info = info_of(pod("p").node_selector(disk="ssd").build())
    assert ask(registration.hint, info, None, node("n").labels(disk="ssd").build()) is Hint.SKIP
    assert ask(registration.hint, info, None, node("n").zone("z1").labels(disk="ssd").build()) is Hint.QUEUE


@settings(max_examples=60)
@given(strategies.nodes("n0"), strategies.nodes("n1"), strategies.nodes("n2"), strategies.pods())
def test_vector_rule_agrees_with_the_scalar_one(a: Node, b: Node, c: Node, wanting: Pod) -> None:
    """Codes and gathering must not change what a node by node check says."""
    here, rule = World([a, b, c]), plugin()
    result = rule.pre_filter(here.info(wanting), here.cluster)
    if not result.status.is_success:
        return
    affinity = wanting.spec.affinity
    verdicts = rule.filter(result.state, here.view())
    for name, reason in zip(here.names(), verdicts, strict=True):
        labels = next(n.metadata.labels for n in (a, b, c) if n.metadata.name == name)
        own = affinity.node_affinity if affinity else None
        assert bool(reason == 0) is required_node_affinity_matches(wanting.spec.node_selector, own, labels, name)
