"""Label selectors and node selectors: what they match, how they compare, and upstream's errors."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.names import label_key_errors, label_value_errors
from stowplan_scheduler.objects import (
    ABSENT_LIST,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from stowplan_scheduler.selectors import (
    EVERYTHING,
    NOTHING,
    LabelQuery,
    NodeQuery,
    SelectorError,
    checked_node_selector,
    compile_preferred_terms,
    label_selector_matches,
    node_selector_matches,
    node_selector_term_matches,
    parse_int64,
    required_node_affinity_matches,
)


def requirement(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values or ABSENT_LIST)


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values or ABSENT_LIST)


def term(*expressions: NodeSelectorRequirement, fields: tuple[NodeSelectorRequirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


def affinity(*terms: NodeSelectorTerm) -> NodeAffinity:
    selector = NodeSelector(node_selector_terms=terms)
    return NodeAffinity(required_during_scheduling_ignored_during_execution=selector)


# ---- label selectors -----------------------------------------------------------------------------------------------


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    """The trap of section 26: None and {} are opposites."""
    assert not label_selector_matches(None, {"a": "b"})
    assert label_selector_matches(LabelSelector(), {})
    assert LabelQuery.of(None) == NOTHING
    assert LabelQuery.of(LabelSelector()) == EVERYTHING
    assert EVERYTHING.is_empty
    assert not NOTHING.is_empty


@pytest.mark.parametrize(
    ("operator", "values", "labels", "matches"),
    [
        ("In", ("x", "y"), {"k": "y"}, True),
        ("In", ("x", "y"), {"k": "z"}, False),
        ("In", ("x",), {}, False),
        ("In", ("",), {"k": ""}, True),
        ("NotIn", ("x",), {"k": "y"}, True),
        ("NotIn", ("x",), {"k": "x"}, False),
        ("NotIn", ("x",), {}, True),
        ("Exists", (), {"k": ""}, True),
        ("Exists", (), {}, False),
        ("DoesNotExist", (), {}, True),
        ("DoesNotExist", (), {"k": ""}, False),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], labels: Mapping[str, str], matches: bool) -> None:
    """NotIn and DoesNotExist hold where the key is absent."""
    assert (
        label_selector_matches(LabelSelector(match_expressions=(requirement("k", operator, *values),)), labels)
        == matches
    )


def test_equal_selectors_have_equal_queries_however_they_are_written() -> None:
    """The query is a key of counters: order, repetition and the short form must not make another key."""
    short = LabelSelector(match_labels={"a": "1", "b": "2"})
    long = LabelSelector(match_expressions=(requirement("b", "In", "2", "2"), requirement("a", "In", "1")))
    assert LabelQuery.of(short) == LabelQuery.of(long)
    assert len({LabelQuery.of(short), LabelQuery.of(long)}) == 1
    assert pickle.loads(pickle.dumps(LabelQuery.of(short))) == LabelQuery.of(long)


def test_labels_of_the_pod_can_be_added_to_a_query_but_not_to_nothing() -> None:
    """matchLabelKeys: upstream leaves the selector for nothing as it is."""
    query = LabelQuery.of(LabelSelector(match_labels={"app": "web"})).and_equals({"rev": "7"})
    assert query.matches({"app": "web", "rev": "7"})
    assert not query.matches({"app": "web", "rev": "8"})
    assert EVERYTHING.and_equals({"rev": "7"}) == LabelQuery.of_map({"rev": "7"})
    assert NOTHING.and_equals({"rev": "7"}) == NOTHING


keys = st.sampled_from(["a", "b"])
texts = st.sampled_from(["x", "y", "z"])
requirements = st.one_of(
    st.builds(requirement, keys, st.sampled_from(["In", "NotIn"]), texts, texts),
    st.builds(requirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
)


def naive(one: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    found = [text for key, text in labels.items() if key == one.key]
    if one.operator in {"Exists", "DoesNotExist"}:
        return bool(found) == (one.operator == "Exists")
    return bool(set(found) & set(one.values)) == (one.operator == "In")


@given(st.dictionaries(keys, texts), st.lists(requirements, max_size=3), st.dictionaries(keys, texts))
def test_a_query_matches_where_every_expression_does(
    match_labels: dict[str, str], expressions: list[LabelSelectorRequirement], labels: dict[str, str]
) -> None:
    """Checked against an evaluation that follows the definition word by word."""
    selector = LabelSelector(match_labels=match_labels, match_expressions=tuple(expressions))
    expected = match_labels.items() <= labels.items() and all(naive(one, labels) for one in expressions)
    assert label_selector_matches(selector, labels) == expected


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (requirement("k", "Like", "v"), '"Like" is not a valid label selector operator'),
        (requirement("k", "Gt", "1"), '"Gt" is not a valid label selector operator'),
        (requirement("k", "In"), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        (
            requirement("k", "Exists", "v"),
            'values: Invalid value: ["v"]: values set must be empty for exists and does not exist',
        ),
        (
            requirement("", "Exists"),
            (
                'key: Invalid value: "": name part must be non-empty; name part must consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
        (
            requirement("k", "In", "-5"),
            (
                'values[0][k]: Invalid value: "-5": a valid label must be an empty string or consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ),
    ],
)
def test_wrong_selectors_are_refused_with_upstreams_text(wrong: LabelSelectorRequirement, message: str) -> None:
    """The text reaches users in the message of an unschedulable pod."""
    with pytest.raises(SelectorError) as caught:
        LabelQuery.of(LabelSelector(match_expressions=(wrong,)))
    assert str(caught.value) == message


def test_several_errors_of_one_expression_stand_in_brackets() -> None:
    """Upstream's aggregate: each text once, in order."""
    with pytest.raises(SelectorError) as caught:
        LabelQuery.of(LabelSelector(match_expressions=(requirement("/", "In", "x" * 64),)))
    assert len(caught.value.errors) == 2
    assert str(caught.value).startswith('[key: Invalid value: "/": prefix part must be non-empty; name part must be')
    assert str(caught.value).endswith(f'values[0][/]: Invalid value: "{"x" * 64}": must be no more than 63 bytes]')
    assert pickle.loads(pickle.dumps(caught.value)).errors == caught.value.errors


@pytest.mark.parametrize("key", ["a", "A_b.c-d", "example.com/x", "x" * 63])
def test_label_keys_that_are_fine(key: str) -> None:
    """A DNS prefix is optional."""
    assert label_key_errors(key) == ()


@pytest.mark.parametrize(
    "key", ["", "-a", "a/b/c", "/a", "A.com/x", "x" * 64, "a b", "example.com/", "a\n", f"{'a' * 254}/x"]
)
def test_label_keys_that_are_not(key: str) -> None:
    """Each breaks one rule."""
    assert label_key_errors(key) != ()


def test_label_values_are_short_and_plain() -> None:
    """Empty is fine; length counts bytes."""
    assert label_value_errors("") == label_value_errors("a.b_c-9") == ()
    assert label_value_errors("-5") != ()
    assert label_value_errors("ok\n") != ()
    assert "must be no more than 63 bytes" in label_value_errors("é" * 32)


# ---- node selectors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "bound", "actual", "matches"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "x", False),
        ("Gt", "5", "9223372036854775808", False),
        ("Gt", "007", "8", True),
        ("Gt", "5", None, False),
    ],
)
def test_gt_and_lt_compare_int64(operator: str, bound: str, actual: str | None, matches: bool) -> None:
    """A label that is not a number, or beyond int64, does not match; an absent one neither."""
    labels = {} if actual is None else {"k": actual}
    assert node_selector_term_matches(term(expression("k", operator, bound)), labels, "n1") == matches


def test_numbers_are_what_go_takes_for_a_decimal_int64() -> None:
    """Python's int is more generous: blanks, underscores, other scripts' digits."""
    assert parse_int64("-9223372036854775808") == -(2**63)
    assert parse_int64("+7") == 7
    assert [parse_int64(text) for text in ("9223372036854775808", "1_0", " 1", "", "٣", "1" * 5000)] == [None] * 6


def test_fields_select_by_name() -> None:
    """In and NotIn with one value; an unknown field counts as empty; a node without a name skips the fields."""
    by_name = term(fields=(expression("metadata.name", "In", "n1"),))
    assert node_selector_term_matches(by_name, {}, "n1")
    assert not node_selector_term_matches(by_name, {}, "n2")
    assert node_selector_term_matches(by_name, {}, "")
    assert node_selector_term_matches(term(fields=(expression("metadata.name", "NotIn", "n1"),)), {}, "n2")
    assert node_selector_term_matches(term(fields=(expression("spec.x", "In", ""),)), {}, "n2")
    both = term(expression("k", "Exists"), fields=(expression("metadata.name", "In", "n1"),))
    assert not node_selector_term_matches(both, {}, "n1")


def test_terms_are_alternatives_and_a_broken_one_only_fails_to_match() -> None:
    """Filter ignores the error of a term; the others may still match. An empty term matches nothing."""
    broken = term(expression("k", "Gt", "-5"))
    good = term(expression("k", "Exists"))
    labels = {"k": "7"}
    assert not node_selector_term_matches(broken, labels, "n1")
    assert not node_selector_term_matches(term(), labels, "n1")
    assert node_selector_matches(NodeSelector(node_selector_terms=(broken, term(), good)), labels, "n1")
    assert not node_selector_matches(NodeSelector(node_selector_terms=(broken, term())), labels, "n1")


def test_the_node_selector_and_the_affinity_must_both_hold() -> None:
    """Required affinity without a usable term matches no node, unlike an absent one."""
    zone = affinity(term(expression("zone", "In", "a")))
    labels = {"zone": "a", "disk": "ssd"}
    assert required_node_affinity_matches({"disk": "ssd"}, zone, labels, "n1")
    assert not required_node_affinity_matches({"disk": "hdd"}, zone, labels, "n1")
    assert not required_node_affinity_matches({}, affinity(), labels, "n1")
    assert required_node_affinity_matches({}, NodeAffinity(), labels, "n1")
    assert required_node_affinity_matches({"bad value": "-"}, None, {"bad value": "-"}, "n1")  # not validated upstream


def test_equal_affinities_have_equal_queries() -> None:
    """The query is a key of the rule memo; the broken terms are part of it."""
    one = NodeQuery.of({"a": "1"}, affinity(term(expression("x", "In", "1", "2"), expression("y", "Exists"))))
    two = NodeQuery.of({"a": "1"}, affinity(term(expression("y", "Exists"), expression("x", "In", "2", "1"))))
    assert one == two
    assert hash(one) == hash(two)
    assert not one.is_empty
    assert NodeQuery.of({}, None).is_empty
    assert not NodeQuery.of({}, affinity()).is_empty


def test_preferred_terms_that_cannot_score_are_left_out() -> None:
    """Weight 0 is dropped before it is parsed."""
    terms = (
        PreferredSchedulingTerm(weight=0, preference=term(expression("k", "Gt", "x"))),
        PreferredSchedulingTerm(weight=3),
        PreferredSchedulingTerm(weight=5, preference=term(expression("k", "Exists"))),
    )
    [(weight, compiled)] = compile_preferred_terms(terms)
    assert weight == 5
    assert compiled.matches({"k": ""}, "n1")


def test_a_preferred_term_that_does_not_parse_fails_with_every_error() -> None:
    """Such a pod goes to the error backoff, and this text is in its events; "-5" is a number but no label value."""
    terms = (
        PreferredSchedulingTerm(weight=1, preference=term(expression("k", "Gt", "x"), expression("k", "Near"))),
        PreferredSchedulingTerm(
            weight=1,
            preference=term(
                fields=(expression("metadata.name", "In", "a", "b"), expression("metadata.name", "Exists"))
            ),
        ),
    )
    with pytest.raises(SelectorError) as caught:
        compile_preferred_terms(terms)
    assert caught.value.errors == (
        (
            '[0].matchExpressions[0].values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        ),
        (
            '[0].matchExpressions[1].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", '
            '"DoesNotExist", "Gt", "Lt"'
        ),
        '[1].matchFields[0].values: Invalid value: ["a","b"]: must have one element',
        '[1].matchFields[1].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
    )
    with pytest.raises(SelectorError, match=r'^\[0\]\.matchExpressions\[0\]\.values\[0\]\[k\]: Invalid value: "-5"'):
        compile_preferred_terms((PreferredSchedulingTerm(weight=1, preference=term(expression("k", "Gt", "-5"))),))


def test_a_checked_node_selector_reports_where_it_is_wrong() -> None:
    """Used for the added affinity of the configuration, whose errors name their path."""
    good = term(expression("k", "Exists"))
    assert len(checked_node_selector(NodeSelector(node_selector_terms=(good, term())))) == 1
    empty = NodeSelectorRequirement(key="k", operator="In", values=())
    with pytest.raises(SelectorError, match=r"values: Invalid value: \[\]: for 'in', 'notin' operators"):
        # A list that is written out and empty is told from one that is not there.
        checked_node_selector(NodeSelector(node_selector_terms=(good, term(empty))))
    with pytest.raises(SelectorError) as caught:
        checked_node_selector(NodeSelector(node_selector_terms=(good, term(expression("k", "Gt")))), "added")
    assert str(caught.value) == (
        "added.nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: null: "
        "for 'Gt', 'Lt' operators, exactly one value is required"
    )
