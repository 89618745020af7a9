"""The tree that both readers (JSON and YAML text) and callers (plain mappings) hand to the decoder.

A tree is made of None, bool, str, `Number`, int, float, lists and objects. Objects that come from a text are `Members`:
they keep the order of their fields and repeated fields, which a dict would lose and which strict decoding must report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

MAX_DEPTH = 100
"""No configuration nests a tenth of this; deeper texts are refused instead of exhausting the interpreter's stack."""


class Number(str):
    """A number as it is written: `1.0` is not an integer in Go's eyes, and error texts repeat the literal."""

    __slots__ = ()


class Members:
    """An object in document order, repeated fields included."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs = pairs

    def __repr__(self) -> str:
        return f"Members({self.pairs!r})"


def members_of(value: object) -> list[tuple[str, object]] | None:
    """The fields of an object in order, or None if value is something else."""
    if isinstance(value, Members):
        return value.pairs
    if isinstance(value, Mapping):
        return [(str(name), member) for name, member in value.items()]
    return None


def number_literal(value: object) -> str | None:
    """The text of a number, or None if value is something else."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return repr(value)


def to_json(value: object, depth: int = 0) -> str:
    """Compact JSON of a tree, fields in order. Raises ValueError for what JSON cannot say and for trees without end."""
    if depth > MAX_DEPTH:
        raise ValueError("exceeded max depth")
    fields = members_of(value)
    if fields is not None:
        return "{" + ",".join(f"{_text(name)}:{to_json(member, depth + 1)}" for name, member in fields) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(to_json(element, depth + 1) for element in value) + "]"
    literal = number_literal(value)
    if literal is not None:
        return literal
    if value is None or isinstance(value, (bool, str)):
        return _text(value)
    raise ValueError(f"{type(value).__name__} is no JSON value")


def _text(value: str | bool | None) -> str:
    return json.dumps(value, ensure_ascii=False)
