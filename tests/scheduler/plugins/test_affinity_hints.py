"""Tests of the queueing hints of InterPodAffinity."""

from __future__ import annotations

import pytest

from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.plugins.inter_pod_affinity.hints import events
from stowplan_scheduler.selectors import SelectorError
from support.builders import NodeBuilder, PodBuilder, node, pod, selector
from support.tables import ask, info_of

WEB, TIER = selector(app="web"), selector(tier="front")
NEAR_BOTH = pod("p").affinity("zone", WEB).affinity("zone", TIER)
FAR_FROM_EITHER = pod("p").anti_affinity("zone", WEB).anti_affinity("rack", TIER)


def other(**labels: str) -> PodBuilder:
    """A pod on a node."""
    return pod("o").labels(**labels).on("n")


def of(
    index: int, waiting: PodBuilder, old: PodBuilder | NodeBuilder | None, new: PodBuilder | NodeBuilder | None
) -> Hint:
    """What registration `index` (0 assigned pod, 1 own pod, 2 node) says."""
    return ask(events()[index].hint, info_of(waiting.build()), old and old.build(), new and new.build())


@pytest.mark.parametrize(
    ("new", "hint"),
    [
        (other(app="web", tier="front"), Hint.QUEUE),
        (other(app="web"), Hint.SKIP),
        (pod("o").labels(app="web", tier="front"), Hint.SKIP),
        (pod("o").labels(app="web", tier="front").nominated("n"), Hint.QUEUE),
        (pod("o", "elsewhere").labels(app="web", tier="front").on("n"), Hint.SKIP),
    ],
)
def test_added_pod_helps_if_it_satisfies_all_terms(new: PodBuilder, hint: Hint) -> None:
    """One pod must satisfy every affinity term at once."""
    assert of(0, NEAR_BOTH, None, new) is hint


def test_terms_that_do_not_parse_leave_it_open_what_helps() -> None:
    """The hints raise, which the queue takes for Queue: for the pod's own required terms, and for the anti-affinity of
    a pod that is gone. Preferred terms play no part, and another list does not count as broken.
    """
    wrong = selector(("app", "In", ()))
    own = pod("p").affinity("zone", wrong)
    for index, new in ((0, other(app="web")), (2, node("n"))):
        with pytest.raises(SelectorError, match="requiredAffinityTerms: values: Invalid value: null"):
            of(index, own, None, new)
    assert of(0, pod("p").affinity("zone", wrong, weight=1), None, other(app="web")) is Hint.SKIP
    with pytest.raises(SelectorError, match="requiredAntiAffinityTerms"):
        of(0, pod("p"), pod("o").anti_affinity("zone", wrong).on("n"), None)
    assert of(0, pod("p"), pod("o").affinity("zone", wrong).on("n"), None) is Hint.SKIP
    company = pod("p").affinity("zone", WEB).anti_affinity("zone", wrong, weight=2)
    assert of(0, company, None, other(app="web")) is Hint.QUEUE


def test_added_pod_never_helps_a_pod_without_affinity() -> None:
    """No term is satisfied by nobody, and company cannot cure anti-affinity."""
    assert of(0, FAR_FROM_EITHER, None, other(app="web")) is Hint.SKIP
    assert of(0, pod("p"), None, other(app="web")) is Hint.SKIP


def test_updated_pod_helps_if_it_newly_satisfies_all_terms() -> None:
    """A pod that did so before was seen before."""
    both = other(app="web", tier="front")
    assert of(0, NEAR_BOTH, other(app="web"), both) is Hint.QUEUE
    assert of(0, NEAR_BOTH, both, both) is Hint.SKIP


def test_updated_pod_helps_if_it_no_longer_stands_in_the_way() -> None:
    """It matched any anti-affinity term and now matches none (v1.36 asked for all terms)."""
    assert of(0, FAR_FROM_EITHER, other(app="web"), other(app="db")) is Hint.QUEUE
    assert of(0, FAR_FROM_EITHER, other(app="web", tier="front"), other(tier="front")) is Hint.SKIP
    assert of(0, FAR_FROM_EITHER, other(app="db"), other(app="cache")) is Hint.SKIP


def test_deleted_pod_helps_if_either_hated_the_other() -> None:
    """Existing pods' anti-affinity keeps the waiting pod away as well."""
    assert of(0, FAR_FROM_EITHER, other(tier="front"), None) is Hint.QUEUE
    assert of(0, FAR_FROM_EITHER, other(app="db"), None) is Hint.SKIP
    hater = pod("o").anti_affinity("zone", selector(app="me")).on("n")
    assert of(0, pod("p").labels(app="me"), hater, None) is Hint.QUEUE
    assert of(0, pod("p").labels(app="you"), hater, None) is Hint.SKIP
    assert of(0, NEAR_BOTH, other(app="web", tier="front"), None) is Hint.SKIP


@pytest.mark.parametrize(
    ("namespaces", "hint"),
    [
        (selector(team="a"), Hint.SKIP),
        (selector(("team", "Exists", ())), Hint.SKIP),
        (selector(("team", "NotIn", ("b",))), Hint.QUEUE),
        (selector(("team", "DoesNotExist", ())), Hint.QUEUE),
        (selector(), Hint.QUEUE),
    ],
)
def test_namespace_selector_is_asked_about_a_namespace_without_labels(namespaces: object, hint: Hint) -> None:
    """Upstream hands the hint no labels of namespaces."""
    waiting = pod("p").affinity("zone", WEB, namespace_selector=namespaces)  # type: ignore[arg-type]
    assert of(0, waiting, None, pod("o", "elsewhere").labels(app="web").on("n")) is hint


def test_own_labels_always_help() -> None:
    """Another pod's anti-affinity may have meant the old ones."""
    assert of(1, pod("p"), pod("p"), pod("p").labels(a="b")) is Hint.QUEUE


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, node("n").zone("a"), Hint.QUEUE),
        (None, node("n"), Hint.SKIP),
        (node("n"), node("n").zone("a"), Hint.QUEUE),
        (node("n").zone("a"), node("n").zone("b"), Hint.QUEUE),
        (node("n").zone("a"), node("n"), Hint.SKIP),
        (node("n").zone("a"), node("n").zone("a").labels(x="y"), Hint.SKIP),
    ],
)
def test_node_helps_affinity_if_it_joins_a_domain(old: NodeBuilder | None, new: NodeBuilder, hint: Hint) -> None:
    """The topology key appeared or has another value."""
    assert of(2, NEAR_BOTH, old, new) is hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, node("n"), Hint.QUEUE),
        (node("n").zone("a"), node("n"), Hint.QUEUE),
        (node("n").zone("a"), node("n").zone("b"), Hint.QUEUE),
        (node("n"), node("n").zone("a"), Hint.SKIP),
        (node("n").zone("a"), node("n").zone("a").labels(x="y"), Hint.SKIP),
    ],
)
def test_node_helps_anti_affinity_if_it_leaves_a_domain(old: NodeBuilder | None, new: NodeBuilder, hint: Hint) -> None:
    """A node without the key takes such a pod always, a new one always may."""
    assert of(2, FAR_FROM_EITHER, old, new) is hint
