"""Groups and pods found by a label are those that are found by asking every selector; terms follow the namespaces."""

from __future__ import annotations

import numpy as np

from stowplan_autoscaling.supply.karpenter.topology_counts import ByLabel, GroupIndex
from stowplan_autoscaling.supply.karpenter.topology_groups import SPREAD, Group, Term
from stowplan_scheduler.objects import LabelSelector, LabelSelectorRequirement
from stowplan_scheduler.selectors import LabelQuery
from support.builders import PodBuilder, selector

from .worlds import World, claims_of, instance_type, pool

KEYS, VALUES = ("app", "tier", "track"), ("a", "b")


def drawn_selector(drawn: np.random.Generator) -> LabelSelector | None:
    """None, everything, labels, or labels with an expression."""
    if not drawn.integers(6):
        return None
    labels = {key: str(drawn.choice(VALUES)) for key in KEYS if not drawn.integers(3)}
    if drawn.integers(3):
        return LabelSelector(match_labels=labels)
    operator = str(drawn.choice(["In", "NotIn", "Exists"]))
    values = () if operator == "Exists" else tuple(VALUES[: drawn.integers(1, 3)])
    expression = LabelSelectorRequirement(key=str(drawn.choice(KEYS)), operator=operator, values=values)
    return LabelSelector(match_labels=labels, match_expressions=(expression,))


def drawn_labels(drawn: np.random.Generator) -> dict[str, str]:
    return {key: str(drawn.choice(VALUES)) for key in KEYS if drawn.integers(3)}


def test_groups_are_found_that_count_a_pod_in_the_order_in_which_they_came() -> None:
    drawn = np.random.default_rng(1)
    groups, index = [], GroupIndex()
    for number in range(120):
        among = frozenset({f"ns{drawn.integers(2)}"})
        group = Group(Term.of_affinity(SPREAD, f"key{number}", among, drawn_selector(drawn)), ())
        groups.append(group)
        index.add(group)
    found = 0
    for _ in range(60):
        namespace, labels = f"ns{drawn.integers(2)}", drawn_labels(drawn)
        selecting = index.selecting(namespace, labels)
        assert [g.key for g in selecting] == [g.key for g in groups if g.selects(namespace, labels)]
        found += len(selecting)
    assert found > 100


def test_things_are_found_that_a_selector_matches() -> None:
    drawn = np.random.default_rng(2)
    items = [drawn_labels(drawn) for _ in range(80)]
    by_label = ByLabel(items, lambda labels: labels)
    for _ in range(60):
        query = LabelQuery.of(drawn_selector(drawn))
        assert [each for each in by_label.wanted_by(query) if query.matches(each)] == [
            each for each in items if query.matches(each)
        ]


def test_terms_that_select_namespaces_see_those_that_come_later() -> None:
    """The pod that waits shuns the one of another namespace, once that has the label of its team."""
    world = World(pool(), types=[instance_type("big", "4", "8Gi", 1.0)])
    world.node("n", "big", PodBuilder("there", "other").labels(app="a").req(cpu="1"))
    shy = PodBuilder("shy").req(cpu="1")
    world.pending(shy.anti_affinity("hostname", selector(app="a"), namespace_selector=selector(team="x")))
    world.state.namespaces["other"] = {}
    assert claims_of(world.round()) == []
    world.state.namespaces["other"] = {"team": "x"}
    assert claims_of(world.round()) == [("default", ["shy"], "big")]
