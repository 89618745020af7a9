"""Selectors as texts, as the scale subresource carries them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.hpa.selector_text import label_selector_text, parse_selector, selector_text
from stowplan_scheduler.objects import LabelSelector, LabelSelectorRequirement
from stowplan_scheduler.selectors import LabelQuery, SelectorError


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("app=web", {"app": "web"}, True),
        ("app==web,tier!=back", {"app": "web"}, True),
        (" app in ( web , api ) ", {"app": "api"}, True),
        ("app notin (web)", {"app": "web"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("app=", {"app": ""}, True),
        ("app in ()", {"app": ""}, True),
        ("app in (,a)", {"app": ""}, True),
        ("in in (in,notin)", {"in": "notin"}, True),
        ("size>2,size<10", {"size": "3"}, True),
        ("", {}, True),
    ],
)
def test_a_text_selects(text: str, labels: dict[str, str], matches: bool) -> None:
    """Every form of upstream's grammar."""
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("app in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("app in web", "unable to parse requirement: found 'web' expected: '('"),
        ("app in (a b", "unable to parse requirement: found 'b', expected: ',' or ')'"),
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("app web", "unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, gt, lt"),
        ("app,", "found '', expected: identifier after ','"),
        ("app=a b", "found 'b', expected: ',' or 'end of string'"),
        ("/a=b", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
        (
            "a>b",
            (
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, "
                "the value must be "
                "an integer"
            ),
        ),
    ],
)
def test_a_bad_text_is_refused_in_upstreams_words(text: str, error: str) -> None:
    """The words end up in a condition; they were taken from the real controller."""
    with pytest.raises(SelectorError) as refused:
        parse_selector(text)
    assert str(refused.value) == error


NAMES = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: LabelSelectorRequirement(key=key, operator=operator, values=tuple(values)),
        NAMES,
        st.sampled_from(["In", "NotIn"]),
        st.lists(NAMES | st.just(""), min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: LabelSelectorRequirement(key=key, operator=operator),
        NAMES,
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)


@given(st.dictionaries(NAMES, NAMES, max_size=3), st.lists(EXPRESSIONS, max_size=3))
def test_the_text_of_a_selector_reads_as_the_same_query(
    labels: dict[str, str], expressions: list[LabelSelectorRequirement]
) -> None:
    """A workload writes the text, the autoscaler reads it."""
    selector = LabelSelector(match_labels=labels, match_expressions=tuple(expressions))
    assert parse_selector(selector_text(selector)) == LabelQuery.of(selector)


def test_messages_show_a_selector_as_go_prints_it() -> None:
    """Taken from errors of the real controller."""
    expression = LabelSelectorRequirement(key="zone", operator="In", values=("a", "b"))
    selector = LabelSelector(match_labels={"queue": "a"}, match_expressions=(expression,))
    assert label_selector_text(None) == "nil"
    assert label_selector_text(selector) == (
        "&LabelSelector{MatchLabels:map[string]string{queue: a,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:zone,Operator:In,Values:[a b],},},}"
    )
