"""Tests of PrioritySort."""

from __future__ import annotations

from stowplan_scheduler.plugins.priority_sort import PrioritySort
from support.builders import pod
from support.tables import info_of


def test_higher_priority_comes_first_whenever_it_came() -> None:
    """Time only decides among equals."""
    low, high = info_of(pod("low").priority(1).build()), info_of(pod("high").priority(2).build())
    assert PrioritySort().sort_key(high, 9) < PrioritySort().sort_key(low, 1)


def test_earlier_comes_first_among_equals() -> None:
    """First in, first out."""
    info = info_of(pod("p").build())
    assert PrioritySort().sort_key(info, 1) < PrioritySort().sort_key(info, 2)


def test_negative_priority_comes_after_none() -> None:
    """An absent priority counts as 0."""
    negative, none = info_of(pod("n").priority(-1).build()), info_of(pod("p").raw())
    assert PrioritySort().sort_key(none, 5) < PrioritySort().sort_key(negative, 5)
