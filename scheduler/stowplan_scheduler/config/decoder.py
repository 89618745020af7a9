"""One object against its schema: types, unknown fields, repeated fields, in Go's words.

Follows the strict decoder of sigs.k8s.io/json (internal/golang/encoding/json/decode.go) and the parsers of
metav1.Duration and []byte. An error inside such a parser stops at once; of the type mismatches the first counts; strict
findings are all kept.
"""

from __future__ import annotations

import base64
import math
import struct

from . import schema
from .document import members_of, number_literal
from .gotext import parse_duration, quote

_MAX_STRICT_ERRORS = 100
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

Fields = dict[str, object]


class DecodeError(ValueError):
    """Decoding cannot go on; the text is upstream's."""


def value_kind(value: object) -> str:
    """What Go calls a JSON value in a type mismatch."""
    if members_of(value) is not None:
        return "object"
    if isinstance(value, (list, tuple)):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if number_literal(value) is None else "number"


class StructDecoder:
    """One pass over one object. `path` is the strict path (with list positions), `stack` Go's field stack (without)."""

    def __init__(self) -> None:
        self.mismatch = ""
        self.strict: list[str] = []
        self.seen: set[str] = set()
        self.owner = ""
        self.stack: tuple[str, ...] = ()

    def struct(self, shape: schema.Struct, tree: object, path: str = "") -> Fields:
        members = members_of(tree)
        if members is None:
            if tree is not None:
                self.reject(value_kind(tree), shape.go)
            return {}
        fields: Fields = {}
        owner, stack, seen = self.owner, self.stack, set[str]()
        for name, member in members:
            below = f"{path}.{name}" if path else name
            if name not in shape.fields:
                self.report("unknown", below)
                continue
            if name in seen:
                self.report("duplicate", below)
            seen.add(name)
            embedded = shape.embedded.get(name)
            self.owner, self.stack = shape.name, (*stack, *([embedded] if embedded else []), name)
            value = self.value(shape.fields[name], member, below)
            self.owner, self.stack = owner, stack
            if value is not None:
                fields[name] = value
        return fields

    def value(self, shape: schema.Type, tree: object, path: str) -> object:
        """The value, or None for null and for what does not fit (which is then recorded)."""
        match shape:
            case schema.Duration():
                return self.duration(shape, tree)
            case schema.Raw():
                return tree
            case _ if tree is None:
                return None
            case schema.Struct():
                return self.struct(shape, tree, path)
            case schema.Sequence():
                return self.sequence(shape, tree, path)
            case schema.StringMap():
                return self.string_map(shape, tree, path)
            case schema.Bytes():
                return self.binary(shape, tree)
            case schema.Scalar():
                return self.scalar(shape, tree)

    def report(self, what: str, path: str) -> None:
        text = f"{what} field {quote(path)}"
        if text not in self.seen and len(self.strict) < _MAX_STRICT_ERRORS:
            self.seen.add(text)
            self.strict.append(text)

    def reject(self, value: str, go: str) -> None:
        self.mismatch = self.mismatch or self.mismatch_text(value, go)

    def mismatch_text(self, value: str, go: str) -> str:
        target = f"Go struct field {self.owner}.{'.'.join(self.stack)}" if self.stack else "Go value"
        return f"json: cannot unmarshal {value} into {target} of type {go}"

    def sequence(self, shape: schema.Sequence, tree: object, path: str) -> list[object] | None:
        if not isinstance(tree, (list, tuple)):
            self.reject(value_kind(tree), shape.go)
            return None
        values = (self.value(shape.element, element, f"{path}[{i}]") for i, element in enumerate(tree))
        return [_zero(shape.element) if value is None else value for value in values]

    def string_map(self, shape: schema.StringMap, tree: object, path: str) -> dict[str, str] | None:
        members = members_of(tree)
        if members is None:
            self.reject(value_kind(tree), shape.go)
            return None
        result: dict[str, str] = {}
        for name, member in members:
            if name in result:
                self.report("duplicate", f"{path}.{name}" if path else name)
            value = self.value(schema.STRING, member, path)
            result[name] = value if isinstance(value, str) else ""
        return result

    def scalar(self, shape: schema.Scalar, tree: object) -> object:
        literal = number_literal(tree)
        match shape.kind:
            case "bool" if isinstance(tree, bool):
                return tree
            case "string" if isinstance(tree, str) and literal is None:
                return tree
            case "int" if literal is not None:
                number = _parse_int(literal, shape.bits)
                if number is not None:
                    return number
                self.reject(f"number {literal}", shape.go)
            case "float" if literal is not None:
                real = _parse_float32(literal)
                if real is not None:
                    return real
                self.reject(f"number {literal}", shape.go)
            case _:
                self.reject(value_kind(tree), shape.go)
        return None

    def binary(self, shape: schema.Bytes, tree: object) -> bytes | None:
        if not isinstance(tree, str) or number_literal(tree) is not None:
            self.reject(value_kind(tree), shape.go)
            return None
        bad = _first_bad_base64(tree)
        if bad is not None:
            self.mismatch = self.mismatch or f"illegal base64 data at input byte {bad}"
            return None
        return base64.b64decode(tree)

    def duration(self, shape: schema.Duration, tree: object) -> int | None:
        if tree is None and shape.pointer:
            return None
        if tree is not None and value_kind(tree) != "string":
            raise DecodeError(self.mismatch_text(value_kind(tree), "string"))
        try:
            # A null reaches upstream's parser as an empty text.
            return parse_duration("" if tree is None else str(tree))
        except ValueError as error:
            raise DecodeError(str(error)) from None


def _zero(shape: schema.Type) -> object:
    """What a null element of a list becomes."""
    match shape:
        case schema.Struct():
            return {}
        case schema.Scalar(kind="string"):
            return ""
        case _:
            return 0


def _parse_int(literal: str, bits: int) -> int | None:
    if not literal.removeprefix("-").isdigit():
        return None
    value = int(literal)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _parse_float32(literal: str) -> float | None:
    try:
        value: float = struct.unpack("f", struct.pack("f", float(literal)))[0]
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _first_bad_base64(text: str) -> int | None:
    """The byte where Go's encoding/base64 stops, None if the text is good; line breaks do not count."""
    digits = [(i, char) for i, char in enumerate(text) if char not in "\r\n"]
    for start in range(0, len(digits), 4):
        group = digits[start : start + 4]
        for place, (i, char) in enumerate(group):
            if char == "=":
                return _bad_padding(place, group, digits[start + 4 :], len(text))
            if char not in _BASE64:
                return len(text[:i].encode())
        if len(group) < 4:
            return group[0][0]
    return None


def _bad_padding(place: int, group: list[tuple[int, str]], rest: list[tuple[int, str]], length: int) -> int | None:
    """A group may end in one or two padding characters, and is then the last one."""
    if place < 2:
        return group[place][0]
    if place == 2:
        if len(group) < 4:
            return length
        if group[3][1] != "=":
            return group[3][0] - 1
    return rest[0][0] if rest else None
