"""One requirement: its operators, and its algebra against sets that are written out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.karpenter import Requirement, exists, one_of

UNIVERSE = ("a", "b", "c", "1", "2", "3", "4", "5", "6", "-1", "+2", "x9", "")
"""Values that requirements of these tests can tell apart, words and numbers."""

values = st.frozensets(st.sampled_from(UNIVERSE[:9]), max_size=4)
numbers = st.integers(0, 6).map(str)
plain = st.builds(lambda op, vs: Requirement.of("k", op, vs), st.sampled_from(["In", "NotIn"]), values)
bounded = st.builds(lambda op, n: Requirement.of("k", op, [n]), st.sampled_from(["Gt", "Lt", "Gte", "Lte"]), numbers)
bare = st.sampled_from([Requirement.of("k", "Exists"), Requirement.of("k", "DoesNotExist")])
simple = st.one_of(plain, bounded, bare)
requirements = st.one_of(simple, st.builds(lambda a, b: a.intersection(b), simple, simple))


def allowed(requirement: Requirement) -> set[str]:
    """The values of the universe that satisfy it."""
    return {value for value in UNIVERSE if requirement.has(value)}


@pytest.mark.parametrize(
    ("operator", "given_values", "expected"),
    [
        ("In", ["a", "2"], {"a", "2"}),
        ("NotIn", ["a", "2"], set(UNIVERSE) - {"a", "2"}),
        ("Exists", [], set(UNIVERSE)),
        ("DoesNotExist", [], set()),
        ("Gt", ["3"], {"4", "5", "6"}),
        ("Gte", ["3"], {"3", "4", "5", "6"}),
        ("Lt", ["3"], {"-1", "1", "2", "+2"}),
        ("Lte", ["3"], {"-1", "1", "2", "3", "+2"}),
    ],
)
def test_an_operator_allows_the_values_that_kubernetes_gives_it(
    operator: str, given_values: list[str], expected: set[str]
) -> None:
    assert allowed(Requirement.of("k", operator, given_values)) == expected


def test_a_beta_label_counts_as_its_successor() -> None:
    assert Requirement.of("failure-domain.beta.kubernetes.io/zone", "In", ["z"]) == one_of(
        "topology.kubernetes.io/zone", "z"
    )


def test_nothing_is_greater_than_the_greatest_number() -> None:
    assert Requirement.of("k", "Gt", [str(2**63 - 1)]).operator == "DoesNotExist"


def test_bounds_alone_count_as_exists() -> None:
    assert Requirement.of("k", "Gt", ["3"]).operator == "Exists"
    assert Requirement.of("k", "Gt", ["3"]).intersection(Requirement.of("k", "NotIn", ["5"])).operator == "NotIn"


def test_excluded_values_outside_of_the_bounds_are_forgotten() -> None:
    both = Requirement.of("k", "NotIn", ["1", "5", "a"]).intersection(Requirement.of("k", "Gt", ["3"]))
    assert (both.values, both.gte) == (frozenset({"5"}), 4)


def test_bounds_vanish_once_the_values_are_known() -> None:
    both = one_of("k", "1", "5", "a").intersection(Requirement.of("k", "Gt", ["3"]))
    assert both == one_of("k", "5")


def test_bounds_that_cross_allow_nothing_and_keep_the_number_of_values_wanted() -> None:
    both = Requirement.of("k", "Gt", ["5"], min_values=2).intersection(Requirement.of("k", "Lt", ["3"]))
    assert both == Requirement("k", False, min_values=2)


def test_of_two_numbers_of_values_the_greater_is_wanted() -> None:
    assert exists("k")._replace(min_values=2).intersection(exists("k")._replace(min_values=5)).min_values == 5


@given(requirements, requirements)
def test_an_intersection_allows_what_both_allow(a: Requirement, b: Requirement) -> None:
    assert allowed(a.intersection(b)) == allowed(a) & allowed(b)


@given(requirements, requirements)
def test_the_order_of_an_intersection_does_not_matter(a: Requirement, b: Requirement) -> None:
    assert a.intersection(b) == b.intersection(a)
    assert a.overlaps(b) == b.overlaps(a)
    assert a.agrees(b) == b.agrees(a)


@given(requirements, requirements)
def test_requirements_overlap_if_some_value_satisfies_both(a: Requirement, b: Requirement) -> None:
    """Of two complements only crossing bounds are seen: holes between bounds are not filled up."""
    if a.complement and b.complement:
        assert a.overlaps(b) or not allowed(a.intersection(b))
        assert a.overlaps(b) == a.intersection(b).complement
    else:
        assert a.overlaps(b) == bool(allowed(a) & allowed(b))


@given(requirements, requirements)
def test_requirements_that_do_without_the_label_agree(a: Requirement, b: Requirement) -> None:
    without = {"NotIn", "DoesNotExist"}
    assert a.agrees(b) == (a.overlaps(b) or (a.operator in without and b.operator in without))


@given(requirements)
def test_a_single_value_is_the_only_one_allowed(requirement: Requirement) -> None:
    if requirement.single is not None:
        assert allowed(requirement) == {requirement.single}
    else:
        assert requirement.complement or len(requirement.values) != 1
