"""Reads YAML documents into plain values: quickly, strictly, and safely on hostile input.

libyaml does the parsing; the values are put together here from its events, with a stack of our own, not by recursion.
The result is what Kubernetes' own reader (sigs.k8s.io/yaml over go-yaml v2) gives: YAML 1.1 booleans, time stamps
that stay text, keys that are text. Beyond PyYAML's safe loader it refuses duplicate keys, aliases that contain
themselves and aliases that multiply (a "bomb"), nesting that is too deep, and tags that stand for programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from .errors import InputError, shown

MAX_DEPTH: Final = 100
"""Kubernetes objects are about 20 levels deep; schemas of custom resources some 40."""

MAX_ALIASED: Final = 1_000_000
"""Values that aliases may add to one document."""

MAX_DOCUMENTS: Final = 100_000

_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the slow one where PyYAML was built without libyaml
_TAG: Final = "tag:yaml.org,2002:"
_BOOLS: Final = {
    text: value
    for words, value in ((("y", "yes", "on", "true"), True), (("n", "no", "off", "false"), False))
    for word in words
    for text in (word, word.capitalize(), word.upper())
}
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INT: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+|0|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL_FLOATS: Final = {
    sign + dot: float(sign + dot[1:].lower()) for sign in ("", "+", "-") for dot in (".inf", ".Inf", ".INF")
} | dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """One document of a file: its number (from 1), its first line (from 1), where it ends (0 to 1) and its value."""

    number: int
    line: int
    end: float
    value: Any


@dataclass(slots=True)
class _Frame:
    """A mapping or sequence that is being read."""

    container: Any
    line: int
    anchor: str | None
    key: str | None = None
    size: int = 1
    merges: list[dict[str, Any]] = field(default_factory=list)


class _Open:
    """Marks an anchor whose value has not ended: an alias to it would contain itself."""


_OPEN: Final = _Open()


def read_yaml(data: bytes, source: str) -> Iterator[YamlDocument]:
    """Yields the documents of a YAML file that are not empty.

    Raises InputError with line and column for anything that is not YAML, or not YAML that is fit to read.
    """
    check_utf8(data, source)
    parser = _PARSER(data)
    try:
        yield from _Composer(parser, source, max(len(data), 1)).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise InputError(source, "", "", f"not valid YAML{where}: {_problem(error)}") from None
    except yaml.YAMLError as error:  # a character that YAML does not allow: libyaml gives its position only
        raise InputError(source, "", "", f"not valid YAML: {str(error).splitlines()[0]}") from None
    finally:
        parser.dispose()


def check_utf8(data: bytes, source: str) -> None:
    """Raises InputError for bytes that are not text in UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8 text (byte 0x{data[error.start]:02x} in line {line}): input must be UTF-8"
        raise InputError(source, "", "", message) from None


def resolve_plain(text: str) -> Any:
    """The value of a scalar without quotes: None, a boolean, a number, or the text itself."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] in "0123456789+-.":
        return _number(text)
    return text


def _number(text: str) -> Any:
    """A number, or the text if it is none. Whole numbers beyond 64 bits become floats, as in Go."""
    plain = text.replace("_", "")
    if _INT.match(plain) and len(plain) < 70:
        value = _integer(plain)
        if -(2**63) <= value < 2**64:
            return value
    if _FLOAT.match(plain):
        return float(plain)
    return _SPECIAL_FLOATS.get(text, text)


def _integer(plain: str) -> int:
    digits = plain.lstrip("+-")
    sign = -1 if plain[0] == "-" else 1
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():  # YAML 1.1: 0755 is octal
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _problem(error: yaml.MarkedYAMLError) -> str:
    return " ".join(part.replace("\n", " ") for part in (error.context, error.problem) if part)


class _Composer:
    """Puts values together from the events of libyaml."""

    __slots__ = ("_aliased", "_anchors", "_parser", "_plain", "_size", "_source")

    def __init__(self, parser: Any, source: str, size: int) -> None:
        self._parser = parser
        self._source = source
        self._size = size
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        # Manifests repeat the same few words: resolving each of them once saves a third of the time.
        self._plain: dict[str, Any] = {}

    def documents(self) -> Iterator[YamlDocument]:
        number = 0
        next_event = self._parser.get_event
        while (event := next_event()) is not None:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            number += 1
            if number > MAX_DOCUMENTS:
                raise InputError(self._source, "", "", f"too many documents: at most {MAX_DOCUMENTS:,} are allowed")
            self._anchors.clear()
            self._aliased = 0
            value, line, end = self._document(number)
            if value is not None:
                yield YamlDocument(number=number, line=line, end=min(end / self._size, 1.0), value=value)

    def _document(self, number: int) -> tuple[Any, int, int]:
        """The value of the document whose start has just been read, its first line, and the position after it."""
        stack: list[_Frame] = []
        first_line = 0
        get_event = self._parser.get_event
        while True:
            event = get_event()
            kind = type(event)
            if not first_line:
                first_line = event.start_mark.line + 1
            size = 1
            if kind is yaml.ScalarEvent:
                value = self._scalar(event, stack)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, stack, number)
                continue
            elif kind is yaml.AliasEvent:
                value, size = self._alias(event, number)
            else:  # the end of a mapping or sequence
                frame = stack.pop()
                value, size = self._close(frame), frame.size
            if not stack:
                get_event()  # the end of the document
                return value, first_line, event.end_mark.index
            self._add(stack[-1], value, size, event)

    def _open(self, event: Any, stack: list[_Frame], number: int) -> None:
        if len(stack) >= MAX_DEPTH:
            raise self._error(event, number, f"nested too deeply: at most {MAX_DEPTH} levels are allowed")
        is_mapping = type(event) is yaml.MappingStartEvent
        self._check_tag(event, "map" if is_mapping else "seq")
        if event.anchor is not None:
            self._anchors[event.anchor] = (_OPEN, 0)
        if stack and stack[-1].key is None and isinstance(stack[-1].container, dict):
            raise self._error(event, number, "a key must be a string, not a mapping or a list")
        stack.append(_Frame({} if is_mapping else [], event.start_mark.line + 1, event.anchor))

    def _close(self, frame: _Frame) -> Any:
        for merged in frame.merges:  # an explicit key wins over a merged one, an earlier merge over a later one
            for key, value in merged.items():
                frame.container.setdefault(key, value)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.container, frame.size)
        return frame.container

    def _alias(self, event: Any, number: int) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise self._error(event, number, f"the alias *{event.anchor} has no anchor")
        value, size = self._anchors[event.anchor]
        if value is _OPEN:
            raise self._error(
                event, number, f"the alias *{event.anchor} contains itself: cyclic anchors are not allowed"
            )
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            message = f"aliases multiply the document: at most {MAX_ALIASED:,} values may come from aliases"
            raise self._error(event, number, message)
        return value, size

    def _add(self, frame: _Frame, value: Any, size: int, event: Any) -> None:
        """Puts a value where it belongs: behind the last list entry, or as key or value into the mapping."""
        frame.size += size
        container = frame.container
        if isinstance(container, list):
            container.append(value)
        elif frame.key is None:
            frame.key = self._key(value, event, container)
        else:
            if frame.key == "<<" and self._is_merge(value, event):
                frame.merges.extend([value] if isinstance(value, dict) else value)
            else:
                container[frame.key] = value
            frame.key = None

    def _key(self, value: Any, event: Any, container: dict[str, Any]) -> str:
        if not isinstance(value, str):
            text = getattr(event, "value", "")
            raise self._error(event, 0, f"the key {text} must be a string, YAML reads {shown(value)}: quote it")
        if value in container:
            raise self._error(event, 0, f"the key {shown(value)} occurs twice")
        return value

    def _is_merge(self, value: Any, event: Any) -> bool:
        values = value if isinstance(value, list) else [value]
        if all(isinstance(part, dict) for part in values):
            return True
        raise self._error(event, 0, "the merge key << needs a mapping or a list of mappings")

    def _scalar(self, event: Any, stack: list[_Frame]) -> Any:
        text: str = event.value
        if event.implicit[0] and event.tag is None:
            if text in self._plain:
                value = self._plain[text]
            else:
                value = resolve_plain(text)
                if len(text) < 40:
                    self._plain[text] = value
            if (
                type(value) in {int, float}
                and stack
                and stack[-1].key is None
                and isinstance(stack[-1].container, dict)
            ):
                return text  # a number as key: Kubernetes' reader makes it a text as well
            return value
        if event.implicit[1] or event.tag == "!":
            return text
        return self._tagged(event, text)

    def _tagged(self, event: Any, text: str) -> Any:
        if event.tag == _TAG + "str":
            return text
        self._check_tag(event, "null", "bool", "int", "float")
        value = resolve_plain(text)
        if event.tag == _TAG + "float" and type(value) is int:
            return float(value)
        return value

    def _check_tag(self, event: Any, *allowed: str) -> None:
        if event.tag is None or event.tag == "!" or event.tag in {_TAG + name for name in allowed}:
            return
        names = ", ".join(f"!!{name}" for name in ("str", "null", "bool", "int", "float", "map", "seq"))
        raise self._error(event, 0, f"the tag {event.tag} is not allowed: use {names}")

    def _error(self, event: Any, number: int, message: str) -> InputError:
        mark = event.start_mark
        source = f"{self._source}: document {number}" if number > 1 else self._source
        return InputError(source, "", "", f"not valid (line {mark.line + 1}, column {mark.column + 1}): {message}")
