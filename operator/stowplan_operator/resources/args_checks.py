"""pluginConfig[].args, decoded and validated by the scheduler's own configuration package, entry by entry.

So each entry has its findings, in upstream's words, with the path of the field in the resource. Decoding stops at the
first wrong type of an entry; unknown fields, and all that validation finds, are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from stowplan_autoscaling.resources.findings import near
from stowplan_scheduler.config import ConfigurationError
from stowplan_scheduler.config.args_validation import args_errors
from stowplan_scheduler.config.decode import decode_configuration
from stowplan_scheduler.config.decoder import DecodeError, StructDecoder
from stowplan_scheduler.config.defaults import apply_defaults
from stowplan_scheduler.config.field_error import Path
from stowplan_scheduler.config.plugin_args import ARGS_TYPES
from stowplan_scheduler.config.schema import KINDS, Struct, Type
from stowplan_scheduler.config.schema import Sequence as SequenceOf

from .documents import configuration_of
from .problems import ProfileProblem

_PREFIXES: Final = re.compile(
    r"(?:strict decoding error: |decoding \.profiles\[0\]\.pluginConfig\[0\]: |decoding args for plugin [^:]*: )+"
)
_STRICT: Final = re.compile(r'(unknown|duplicate) field "((?:[^"\\]|\\.)*)"')
_MISMATCH: Final = re.compile(r"json: cannot unmarshal (.+) into Go (?:struct field \S+|value) of type (\S+)$")
_POSITION: Final = re.compile(r"\[[0-9]+\]")
_WORDS: Final[Mapping[str, str]] = {
    "bool": "true or false",
    "string": "a string",
    "int32": "an integer of 32 bits",
    "int64": "an integer of 64 bits",
    "object": "a mapping",
    "array": "a list",
    "number": "a number",
}


def args_problems(name: str, args: Any, where: str) -> Iterator[ProfileProblem]:
    """What is wrong with the args of a plugin; `where` is their path. Args of other distributions' plugins may be any.

    `where` is spec.pluginConfig[0].args, or spec for args that were made of spec.scoringStrategy.
    """
    document = configuration_of([{"pluginConfig": [{"name": name, "args": args}]}])
    try:
        config = apply_defaults(decode_configuration(document))
    except ConfigurationError as error:
        yield from _decode_problems(name, args, error.errors[0], where)
        return
    model = next(found.args for found in config.profiles[0].plugin_config if found.name == name)
    if type(model) in ARGS_TYPES.values():
        yield from map(problem_of, args_errors(Path(where), model))


def problem_of(text: str) -> ProfileProblem:
    """One of upstream's texts about a field, which begin with its path."""
    path, _, message = text.partition(": ")
    return ProfileProblem(path, message)


def _decode_problems(name: str, args: Any, text: str, where: str) -> Iterator[ProfileProblem]:
    text = _PREFIXES.sub("", text, count=1)
    strict = _STRICT.findall(text)
    for word, path in strict:
        if word == "unknown":
            known = _known_fields(name, _POSITION.sub("", path).split(".")[:-1])
            yield ProfileProblem(f"{where}.{path}", f"unknown field{near(path.rpartition('.')[2], known)}")
        else:
            yield ProfileProblem(f"{where}.{path}", "occurs twice")
    if strict:
        return
    place = _place_of_kind(name, args, text) or _place_of_mismatch(name, args)
    mismatch = _MISMATCH.search(text)
    message = f"must be {_expected(mismatch[2])}, got {_found(mismatch[1])}" if mismatch else text
    yield ProfileProblem(f"{where}.{place}" if place else where, message)


# ---- where a type is wrong -------------------------------------------------------------------------------------------


class _Locator(StructDecoder):
    """Decodes once more, for the place of what stopped it: upstream's text has no positions, and of times no field."""

    place = ""

    def value(self, shape: Type, tree: object, path: str) -> object:
        """As upstream's; the innermost value that does not fit is remembered."""
        was_good = not self.mismatch
        try:
            found = super().value(shape, tree, path)
        except DecodeError:
            self.place = self.place or path
            raise
        if self.mismatch and was_good:
            self.place = self.place or path
        return found


def _place_of_kind(name: str, args: Any, text: str) -> str:
    """The field if the args are of another kind or version."""
    if not text.startswith(("no kind ", "args for plugin ", "unexpected GroupVersion")):
        return ""
    kind = args.get("kind") if isinstance(args, Mapping) else None
    return "apiVersion" if kind in (None, "", f"{name}Args") else "kind"


def _place_of_mismatch(name: str, args: Any) -> str:
    shape = KINDS.get(f"{name}Args")
    if shape is None:
        return ""
    locator = _Locator()
    # What is wrong is known already; only its place is asked for.
    with suppress(DecodeError):
        locator.struct(shape, args)
    return locator.place


def _expected(go: str) -> str:
    """A Go type in words."""
    if go.startswith("[]"):
        return "a list"
    if go.startswith("map["):
        return "a mapping"
    if go in _WORDS:
        return _WORDS[go]
    return "a mapping" if go.rpartition(".")[2] in _structs() else "a string"


def _found(kind: str) -> str:
    """What stands there: a kind of JSON, or a number as it is written."""
    return kind.removeprefix("number ") if kind.startswith("number ") else _WORDS.get(kind, kind)


def _structs() -> frozenset[str]:
    """The names of all Go structs that args can hold."""
    found: set[str] = set()
    pending: list[object] = list(KINDS.values())
    while pending:
        shape = pending.pop()
        if isinstance(shape, SequenceOf):
            pending.append(shape.element)
        elif isinstance(shape, Struct) and shape.name not in found:
            found.add(shape.name)
            pending.extend(shape.fields.values())
    return frozenset(found)


def _known_fields(name: str, steps: Sequence[str]) -> list[str]:
    """The fields that args, or a mapping inside of them, can have."""
    shape: object = KINDS.get(f"{name}Args")
    for step in steps:
        shape = shape.fields.get(step) if isinstance(shape, Struct) else None
        if isinstance(shape, SequenceOf):
            shape = shape.element
    return list(shape.fields) if isinstance(shape, Struct) else []
