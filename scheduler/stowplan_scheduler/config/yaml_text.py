"""YAML text to a tree, with the scalar rules of the YAML library that kube-scheduler reads its configuration with.

Follows go.yaml.in/yaml/v2 (decode.go, resolve.go) and sigs.k8s.io/yaml (yaml.go). That library differs from PyYAML: `y`
and `n` are booleans, `1:30` is a string, `08` and `1e3` are numbers, later documents of a stream are ignored. Only the
tokenizer is PyYAML's, which is the same libyaml.

Reading is bounded: aliases may not expand without limit, an anchor may not contain itself, and nesting is limited.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from .document import MAX_DEPTH, Members, Number
from .gotext import json_float, quote

_LONG_TAG = "tag:yaml.org,2002:"
_STR, _BOOL, _INT, _FLOAT, _NULL = (_LONG_TAG + name for name in ("str", "bool", "int", "float", "null"))
_BINARY, _MERGE, _TIMESTAMP = (_LONG_TAG + name for name in ("binary", "merge", "timestamp"))
_RESOLVABLE = frozenset({"", _STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})

_CONSTANTS: dict[str, tuple[str, object]] = {
    **{word: (_BOOL, True) for word in "y Y yes Yes YES true True TRUE on On ON".split()},
    **{word: (_BOOL, False) for word in "n N no No NO false False FALSE off Off OFF".split()},
    **{word: (_NULL, None) for word in ("", "~", "null", "Null", "NULL")},
    **{word: (_FLOAT, float("nan")) for word in (".nan", ".NaN", ".NAN")},
    **{word: (_FLOAT, float("inf")) for word in (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")},
    **{word: (_FLOAT, float("-inf")) for word in ("-.inf", "-.Inf", "-.INF")},
    "<<": (_MERGE, "<<"),
}
_STYLED_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_MIN_INT64, _MAX_UINT64 = -(1 << 63), (1 << 64) - 1

_ALIASES_ALWAYS_ALLOWED = 100
_NODES_ALWAYS_ALLOWED = 1000
_NODES_WITH_HIGH_RATIO = 400_000
MAX_NODES = 400_000
"""Nodes after the expansion of aliases. Upstream allows more, but only a hostile text comes near."""


class YamlError(ValueError):
    """A text that is not YAML, or not YAML that becomes JSON; the text is upstream's."""


@dataclass(slots=True, eq=False)
class _Node:
    kind: Literal["scalar", "sequence", "mapping", "alias"]
    line: int
    tag: str = ""
    value: str = ""
    plain: bool = False
    children: list[_Node] = field(default_factory=list)
    target: _Node | None = None


def parse_yaml(text: str) -> tuple[object, list[str]]:
    """The tree of the first document and the strict findings (repeated keys).

    Raises YamlError with upstream's text. Objects come out sorted by key, as upstream's way over JSON sorts them.
    """
    root = _Composer(text).document()
    if root is None:
        return None, []
    reader = _Reader()
    tree = reader.value(root, 0)
    return tree, reader.findings


# ---- text to nodes ---------------------------------------------------------------------------------------------------


class _Composer:
    """Nodes from the event stream, with upstream's rules for anchors (a later one replaces an earlier one)."""

    def __init__(self, text: str) -> None:
        self.events = _events(text)
        self.anchors: dict[str, _Node] = {}

    def document(self) -> _Node | None:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                return self.node(next(self.events), 0)
        return None

    def node(self, event: Any, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise YamlError("yaml: exceeded max depth")
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            target = self.anchors.get(name)
            if target is None:
                raise YamlError(f"yaml: unknown anchor '{name}' referenced")
            return _Node("alias", line, value=name, target=target)
        node = self.start(event, line)
        if event.anchor:
            self.anchors[event.anchor] = node
        if node.kind != "scalar":
            for child in iter(lambda: next(self.events), None):
                if isinstance(child, yaml.CollectionEndEvent):
                    break
                node.children.append(self.node(child, depth + 1))
        return node

    @staticmethod
    def start(event: Any, line: int) -> _Node:
        tag = event.tag or ""
        if isinstance(event, yaml.ScalarEvent):
            return _Node("scalar", line, tag, event.value, plain=event.implicit[0])
        return _Node("mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence", line, tag)


def _events(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text or "\n", Loader=loader)
    except yaml.reader.ReaderError:
        raise YamlError("yaml: control characters are not allowed") from None
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"yaml: {_syntax_error_text(error)}") from None


def _syntax_error_text(error: yaml.MarkedYAMLError) -> str:
    line = error.problem_mark.line if error.problem_mark else 0
    if line:
        # The library counts scanner errors from zero and others from one.
        line += isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return where + (error.problem or "unknown problem parsing YAML content")


# ---- nodes to a tree -------------------------------------------------------------------------------------------------


class _Reader:
    """Expands aliases and merges, counting as upstream does, and turns scalars into values."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.nodes = 0
        self.aliased = 0
        self.alias_depth = 0
        self.open_aliases: set[_Node] = set()

    def value(self, node: _Node, depth: int) -> object:
        self.count(depth)
        match node.kind:
            case "alias":
                return self.alias(node, depth)
            case "scalar":
                return _as_json(_scalar(node))
            case "sequence":
                return [self.value(child, depth + 1) for child in node.children]
            case "mapping":
                fields: dict[object, object] = {}
                self.mapping(node, fields, depth)
                return Members(sorted(((_key_text(key), value) for key, value in fields.items()), key=_by_bytes))

    def count(self, depth: int) -> None:
        self.nodes += 1
        self.aliased += self.alias_depth > 0
        mostly_aliases = self.aliased > 0.99 * self.nodes
        small = self.aliased <= _ALIASES_ALWAYS_ALLOWED or self.nodes <= _NODES_ALWAYS_ALLOWED
        if (mostly_aliases and not small) or self.nodes > MAX_NODES:
            raise YamlError("yaml: document contains excessive aliasing")
        if depth > MAX_DEPTH:
            raise YamlError("yaml: exceeded max depth")

    def alias(self, node: _Node, depth: int) -> object:
        with _Open(self, node) as target:
            return self.value(target, depth + 1)

    def mapping(self, node: _Node, fields: dict[object, object], depth: int) -> None:
        pairs = iter(node.children)
        for key_node, value_node in zip(pairs, pairs, strict=True):
            if _is_merge(key_node):
                self.merge(value_node, fields, depth)
                continue
            key = self.key(key_node, depth)
            value = self.value(value_node, depth + 1)
            if key[1] is None:
                raise YamlError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {_go_value(value)}")
            if key in fields:
                self.findings.append(f"line {value_node.line}: key {_go_value(key[1])} already set in map")
            fields[key] = value

    def key(self, node: _Node, depth: int) -> tuple[str, object]:
        self.count(depth)
        target = node.target if node.kind == "alias" else node
        if target is None or target.kind != "scalar":
            raise YamlError("yaml: invalid map key")
        value = _scalar(target)
        # 1 and "1" are two keys, and 1 and True are equal for Python only.
        return type(value).__name__, value

    def merge(self, node: _Node, fields: dict[object, object], depth: int) -> None:
        match node.kind:
            case "mapping":
                self.count(depth)
                self.mapping(node, fields, depth + 1)
            case "alias" if node.target is not None and node.target.kind == "mapping":
                with _Open(self, node) as target:
                    self.count(depth)
                    self.mapping(target, fields, depth + 1)
            case "sequence" if all(_is_mapping(child) for child in node.children):
                for child in reversed(node.children):  # an earlier one wins, so it comes last
                    self.merge(child, fields, depth + 1)
            case _:
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")


class _Open:
    """An alias that is being expanded; it may not be met again inside."""

    def __init__(self, reader: _Reader, node: _Node) -> None:
        self.reader, self.node = reader, node

    def __enter__(self) -> _Node:
        target = self.node.target
        if target is None or target in self.reader.open_aliases:
            raise YamlError(f"yaml: anchor '{self.node.value}' value contains itself")
        self.reader.open_aliases.add(target)
        self.reader.alias_depth += 1
        return target

    def __exit__(self, *_: object) -> None:
        self.reader.alias_depth -= 1
        if self.node.target is not None:
            self.reader.open_aliases.discard(self.node.target)


def _is_merge(node: _Node) -> bool:
    return node.kind == "scalar" and node.value == "<<" and (node.plain or node.tag == _MERGE)


def _is_mapping(node: _Node) -> bool:
    target = node.target if node.kind == "alias" else node
    return target is not None and target.kind == "mapping"


# ---- scalars ---------------------------------------------------------------------------------------------------------


def _scalar(node: _Node) -> object:
    if not node.tag and not node.plain:
        return node.value
    if node.tag == _BINARY:
        try:
            return base64.b64decode(node.value, validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise YamlError("yaml: !!binary value contains invalid base64 data") from None
    if node.tag not in _RESOLVABLE or node.tag == _STR:
        return node.value
    tag, value = _resolve(node.value)
    if node.tag == _FLOAT and tag == _INT and isinstance(value, int):
        return float(value)
    if node.tag not in {"", tag, _TIMESTAMP}:
        raise YamlError(f"yaml: cannot decode {_short(tag)} `{node.value}` as a {_short(node.tag)}")
    return value


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_LONG_TAG) if tag.startswith(_LONG_TAG) else tag


def _resolve(text: str) -> tuple[str, object]:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[:1] == ".":
        return (_FLOAT, float(text)) if _STYLED_FLOAT.fullmatch(text) else (_STR, text)
    if text[:1] and text[0] in "+-0123456789":
        plain = text.replace("_", "")
        integer = _integer(plain)
        if integer is not None:
            return _INT, integer
        if _STYLED_FLOAT.fullmatch(plain):
            number = float(plain)
            # A number beyond float64 is an error for Go's parser, and the scalar stays a string.
            return (_STR, text) if number in {float("inf"), float("-inf")} else (_FLOAT, number)
    return _STR, text


def _integer(text: str) -> int | None:
    """`strconv.ParseInt(text, 0, 64)`, or the unsigned form: hexadecimal, binary and two kinds of octal."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    digits, base = next((d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if d)
    value = int(digits, base) * (-1 if sign == "-" else 1)
    limit = _MAX_UINT64 if not sign else (1 << 63) - 1
    return value if _MIN_INT64 <= value <= limit else None


def _as_json(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int):
        return Number(value)
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN is the value that differs from itself
        name = "NaN" if value != value else "+Inf" if value > 0 else "-Inf"  # noqa: PLR0124
        raise YamlError(f"json: unsupported value: {name}")
    return Number(json_float(value))


def _key_text(key: object) -> str:
    value = key[1] if isinstance(key, tuple) else key
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(str(value)) or json_float(value)
    return "<nil>" if value is None else "..."


def _go_value(value: object) -> str:
    """A scalar as Go's %#v shows it."""
    return quote(value) if isinstance(value, str) and not isinstance(value, Number) else _key_text(value)


def _by_bytes(pair: tuple[str, object]) -> bytes:
    return pair[0].encode("utf-8", "surrogatepass")
