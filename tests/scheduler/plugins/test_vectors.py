"""Tests of gathering by code."""

from __future__ import annotations

import numpy as np

from stowplan_scheduler.cache.node_table import Interned
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.plugins.vectors import CodeValues, node_mask, reject, requirement_mask
from stowplan_scheduler.selectors import FieldRequirement, NodeQuery, NodeTermQuery, Requirement
from support.builders import node
from support.tables import World


def test_each_value_is_asked_once() -> None:
    """Ten thousand nodes of one pool cost one evaluation."""
    asked: list[str] = []

    def length(value: str) -> int:
        asked.append(value)
        return len(value)

    interned, values = Interned(("", "aa")), CodeValues(length)
    assert list(values.at(interned, np.array([1, 1, 0, 1], np.int32))) == [2, 2, 0, 2]
    interned.code("bbb")
    assert list(values.at(interned, np.array([2, 1], np.int32))) == [3, 2]
    assert asked == ["", "aa", "bbb"]


def test_another_intern_table_has_other_codes() -> None:
    """A state that meets a second table must not answer with the first one's codes."""
    values: CodeValues[str] = CodeValues(len)
    assert list(values.at(Interned(("a",)), np.array([0], np.int32))) == [1]
    assert list(values.at(Interned(("aaa",)), np.array([0], np.int32))) == [3]


def test_reject_gives_reason_ids() -> None:
    """int16, 0 where the node passes."""
    verdicts = reject(np.array([True, False]), 7)
    assert list(verdicts) == [7, 0]
    assert verdicts.dtype == np.int16


def test_masks_read_the_rows_of_the_view() -> None:
    """A view of some rows in some order."""
    world = World([node("a").labels(x="1").build(), node("b").build(), node("c").labels(x="2").build()])
    view = NodeView(world.cluster.table, np.array([2, 0], np.intp))
    assert list(requirement_mask(Requirement("x", "In", ("1",)), view)) == [False, True]
    assert list(requirement_mask(Requirement("x", "In", ("1", "2")), view)) == [True, True]
    assert list(requirement_mask(Requirement("x", "Gt", ("1",)), view)) == [True, False]
    named = NodeQuery(terms=(NodeTermQuery(fields=(FieldRequirement("metadata.name", True, "a"),)),))
    assert list(node_mask(named, view)) == [False, True]


def test_unknown_field_counts_as_empty() -> None:
    """Only metadata.name is a field of a node."""
    world = World([node("a").build()])
    for value, expected in (("", True), ("a", False)):
        query = NodeQuery(terms=(NodeTermQuery(fields=(FieldRequirement("metadata.uid", True, value),)),))
        assert list(node_mask(query, world.view())) == [expected]


def test_label_that_changes_moves_the_mask() -> None:
    """Codes are written anew when a node changes."""
    world = World([node("a").labels(x="1").build()])
    wanted = Requirement("x", "In", ("2",))
    assert list(requirement_mask(wanted, world.view())) == [False]
    world.cache.update_node(node("a").labels(x="2").build())
    world.refresh()
    assert list(requirement_mask(wanted, world.view())) == [True]
