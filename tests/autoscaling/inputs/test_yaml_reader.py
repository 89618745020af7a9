"""YAML becomes the values that Kubernetes' own reader makes of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.inputs.errors import InputError
from stowplan_autoscaling.inputs.yaml_reader import read_yaml


def values(text: str) -> list[Any]:
    return [document.value for document in read_yaml(text.encode(), "in.yaml")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("~", None),
        ("NULL", None),
        ("0755", 493),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 1.8446744073709552e19),
        ("22:22", "22:22"),
        ("2025-01-01", "2025-01-01"),
        ("500m", "500m"),
        ("1.2.3", "1.2.3"),
        ('"yes"', "yes"),
        ("'7'", "7"),
        ("!!str 7", "7"),
        ("!!float 7", 7.0),
        ("! 7", "7"),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_are_read_as_go_yaml_reads_them(text: str, expected: object) -> None:
    """YAML 1.1 booleans and octals, but no numbers to base 60 and no dates (go-yaml v2, resolve.go)."""
    (document,) = values(f"a: {text}")
    assert document == {"a": expected}
    assert type(document["a"]) is type(expected)


def test_keys_that_are_numbers_become_text() -> None:
    """JSON has no other keys; Kubernetes' reader does the same."""
    assert values("{1: a, 0x1F: b, 2.5: c}") == [{"1": "a", "0x1F": "b", "2.5": "c"}]


def test_aliases_and_merges_share_values() -> None:
    """An explicit key wins over a merged one, an earlier merge over a later one."""
    text = "base: &b {x: 1, w: 1}\nmore: &m {w: 2, z: 2}\nall: {<<: [*b, *m], x: 0}\nlist: [*b, &n 5, *n]\n"
    assert values(text) == [
        {
            "base": {"x": 1, "w": 1},
            "more": {"w": 2, "z": 2},
            "all": {"x": 0, "w": 1, "z": 2},
            "list": [{"x": 1, "w": 1}, 5, 5],
        }
    ]


def test_documents_carry_their_number_and_line() -> None:
    """Empty ones are passed over but counted, as kubectl counts them."""
    found = list(read_yaml(b"# c\n---\n---\na: 1\n---\n# d\n---\nb: 2\n", "in.yaml"))
    assert [(d.number, d.line, d.value) for d in found] == [(2, 4, {"a": 1}), (4, 8, {"b": 2})]
    assert 0 < found[0].end < found[1].end <= 1


def test_anchors_do_not_reach_into_the_next_document() -> None:
    """As the specification of YAML says."""
    with pytest.raises(InputError, match=r"document 2: .*the alias \*a has no anchor"):
        values("a: &a 1\n---\nb: *a\n")


def test_text_beyond_ascii_and_a_byte_order_mark_are_fine() -> None:
    """Windows editors put the mark in front."""
    assert [d.value for d in read_yaml("\ufeffa: é\n".encode(), "x")] == [{"a": "é"}]


# PyYAML writes a lone y or n, and 1e3 without a point, without quotes; go-yaml, and so this reader, takes the one for a
# boolean, the other for a number.
EXPONENT = re.compile(r"[-+]?([0-9][0-9_.]*|\.[0-9]+)[eE][-+]?[0-9]+")
TEXT = st.text(st.characters(max_codepoint=0x24F, exclude_categories=["Cc"]), max_size=8).filter(
    lambda text: text not in {"y", "Y", "n", "N"} and not EXPONENT.fullmatch(text)
)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_what_pyyaml_writes_comes_back(value: Any) -> None:
    """An independent writer and our reader agree on every JSON value. PyYAML quotes what YAML 1.1 would misread."""
    text = yaml.safe_dump({"v": value}, allow_unicode=True)
    assert values(text) == [{"v": value}]


@given(PLAIN)
def test_json_is_yaml(value: Any) -> None:
    """Dumps in JSON may stand in files named .yaml."""
    assert values(json.dumps({"v": value}, ensure_ascii=False)) == [{"v": value}]


@given(st.text(alphabet="ab:- \n[]{}&*!|>'\"#,?%\t1<", max_size=40))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    """No text may end in another exception."""
    message = ""
    try:
        values(text)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    assert not message or message.startswith("in.yaml: ")
