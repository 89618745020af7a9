"""Tests of the queueing hints of PodTopologySpread."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.plugins.pod_topology_spread.hints import events
from stowplan_scheduler.selectors import LabelQuery
from support.builders import ZONE, NodeBuilder, PodBuilder, node, pod, selector
from support.tables import ask, info_of

WEB = LabelQuery.of(selector(app="web"))


@dataclass(frozen=True)
class Constraint:
    """What the hints read."""

    topology_key: str = ZONE
    query: LabelQuery = WEB
    honors_taints: bool = False


WAITING = info_of(pod("p").labels(app="web").build())


def of(
    index: int, old: PodBuilder | NodeBuilder | None, new: PodBuilder | NodeBuilder | None, *wanted: Constraint
) -> Hint:
    """What registration `index` (0 assigned pod, 1 own pod, 2 node) says for the waiting pod."""

    def constraints_of(pod: PodInfo) -> tuple[Constraint, ...]:
        return wanted or (Constraint(),)

    registration = events(constraints_of)[index]
    return ask(registration.hint, WAITING, old and old.build(), new and new.build())


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, pod("o").labels(app="web").on("n"), Hint.QUEUE),
        (None, pod("o").labels(app="db").on("n"), Hint.SKIP),
        (None, pod("o").labels(app="web"), Hint.SKIP),
        (None, pod("o").labels(app="web").nominated("n"), Hint.QUEUE),
        (None, pod("o", "other").labels(app="web").on("n"), Hint.SKIP),
        (pod("o").labels(app="web").on("n"), None, Hint.QUEUE),
        (pod("o").labels(app="db").on("n"), None, Hint.SKIP),
        (pod("o").labels(app="db").on("n"), pod("o").labels(app="web").on("n"), Hint.QUEUE),
        (pod("o").labels(app="web").on("n"), pod("o").labels(app="db").on("n"), Hint.QUEUE),
        (pod("o").labels(app="web").on("n"), pod("o").labels(app="web", x="y").on("n"), Hint.SKIP),
        (pod("o").labels(app="db").on("n"), pod("o").labels(app="cache").on("n"), Hint.SKIP),
    ],
)
def test_other_pods_help_if_they_count(old: PodBuilder | None, new: PodBuilder | None, hint: Hint) -> None:
    """Same namespace, a place, and labels that a constraint counts; an update must flip that."""
    assert of(0, old, new) is hint


def test_own_labels_help_if_they_flip_a_selector() -> None:
    """A pod counts itself."""
    web, db = pod("p").labels(app="web"), pod("p").labels(app="db")
    assert of(1, db, web) is Hint.QUEUE
    assert of(1, web, web) is Hint.SKIP


def test_own_tolerations_help_where_taints_are_honoured() -> None:
    """Other nodes then take part in the counting."""
    bare, tolerating = pod("p"), pod("p").tolerate("x")
    assert of(1, bare, tolerating) is Hint.SKIP
    assert of(1, bare, tolerating, Constraint(), Constraint(honors_taints=True)) is Hint.QUEUE


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, node("n").zone("a"), Hint.QUEUE),
        (None, node("n"), Hint.SKIP),
        (node("n").zone("a"), None, Hint.QUEUE),
        (node("n"), None, Hint.SKIP),
        (node("n"), node("n").zone("a"), Hint.QUEUE),
        (node("n").zone("a"), node("n"), Hint.QUEUE),
        (node("n").zone("a"), node("n").zone("b"), Hint.QUEUE),
        (node("n").zone("a"), node("n").zone("a").labels(x="y"), Hint.SKIP),
        (node("n").zone("a"), node("n").zone("a").taint("x"), Hint.QUEUE),
        (node("n"), node("n").taint("x"), Hint.SKIP),
    ],
)
def test_nodes_help_if_they_form_domains(old: NodeBuilder | None, new: NodeBuilder | None, hint: Hint) -> None:
    """All topology keys must be there, before or after; then a domain or the taints must differ."""
    assert of(2, old, new) is hint


def test_a_node_must_have_the_keys_of_all_constraints() -> None:
    """One key of two is no domain."""
    two = (Constraint(), Constraint(topology_key="rack"))
    assert of(2, None, node("n").zone("a"), *two) is Hint.SKIP
    assert of(2, None, node("n").zone("a").labels(rack="r"), *two) is Hint.QUEUE
