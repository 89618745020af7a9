"""Requirements on many labels, and the memo of pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.karpenter import Requirement, Requirements, one_of
from stowplan_autoscaling.supply.karpenter.requirements import EMPTY, Algebra
from stowplan_scheduler.objects import NodeSelectorRequirement

WELL_KNOWN = frozenset({"zone"})

one = st.builds(
    Requirement.of,
    st.sampled_from(["zone", "team", "size"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
)
many = st.lists(one, max_size=4).map(Requirements.of)


@pytest.mark.parametrize(
    ("incoming", "known", "expected"),
    [
        (one_of("team", "a"), EMPTY, False),
        (Requirement.of("team", "Exists"), EMPTY, False),
        (Requirement.of("team", "NotIn", ["a"]), EMPTY, True),
        (Requirement.of("team", "DoesNotExist"), EMPTY, True),
        (one_of("zone", "a"), EMPTY, True),
        (one_of("zone", "a"), Requirements.of([one_of("zone", "b")]), False),
        (one_of("zone", "a"), Requirements.of([one_of("zone", "b", "a")]), True),
        (Requirement.of("team", "DoesNotExist"), Requirements.of([one_of("team", "a")]), False),
        (Requirement.of("team", "DoesNotExist"), Requirements.of([Requirement.of("team", "NotIn", ["a"])]), True),
    ],
)
def test_labels_that_nobody_mentions_are_refused_unless_well_known(
    incoming: Requirement, known: Requirements, expected: bool
) -> None:
    assert known.compatible(Requirements.of([incoming]), WELL_KNOWN) is expected


def test_a_node_that_exists_has_no_labels_but_its_own() -> None:
    algebra = Algebra(WELL_KNOWN)
    pod = Requirements.of([one_of("zone", "a")])
    assert algebra.on_machine(EMPTY, pod) == pod
    assert algebra.on_node(EMPTY, pod) is None


def test_expressions_on_one_label_all_count() -> None:
    made = Requirements.of_expressions(
        [
            NodeSelectorRequirement(key="size", operator="Gt", values=("1",)),
            NodeSelectorRequirement(key="size", operator="In", values=("1", "2", "3")),
        ]
    )
    assert made.get("size") == one_of("size", "2", "3")


def test_taking_labels_out_leaves_the_others() -> None:
    made = Requirements.of([one_of("zone", "a"), one_of("team", "b")])
    assert made.without(["zone", "nothing"]) == Requirements.of([one_of("team", "b")])
    assert made.without(["nothing"]) is made


@given(many, many)
def test_the_memo_answers_as_the_algebra_does(a: Requirements, b: Requirements) -> None:
    algebra = Algebra(WELL_KNOWN)
    expected = a.adding(b) if a.compatible(b, WELL_KNOWN) else None
    assert algebra.on_machine(a, b) == expected
    assert algebra.on_machine(a, b) is algebra.on_machine(a, b)
    assert algebra.on_node(a, b) == (a.adding(b) if a.compatible(b, frozenset()) else None)


@given(many, many)
def test_two_sets_agree_if_they_do_on_each_label_that_both_mention(a: Requirements, b: Requirements) -> None:
    both = set(a.keys) & set(b.keys)
    assert a.intersects(b) == all(a.get(key).agrees(b.get(key)) for key in both)
    assert a.intersects(b) == b.intersects(a)


@given(many, many)
def test_equal_requirements_are_one_key(a: Requirements, b: Requirements) -> None:
    assert (a == b) == (set(a) == set(b))
    if a == b:
        assert hash(a) == hash(b)
    assert a.adding(b) == b.adding(a)
