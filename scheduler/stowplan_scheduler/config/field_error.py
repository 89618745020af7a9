"""Field paths, field errors and aggregates, printed as upstream prints them.

Follows apimachinery `pkg/util/validation/field` (path.go, errors.go) and `pkg/util/errors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .gotext import format_duration, json_string, json_value, quote


@dataclass(frozen=True, slots=True)
class Path:
    """Where a value stands: `profiles[0].pluginConfig[1].args`. The empty path is the root of a plugin's args."""

    text: str = ""

    def child(self, *names: str) -> Path:
        """The field of that name below this one; several names descend several levels."""
        return Path(".".join([self.text, *names] if self.text else names))

    def index(self, position: int) -> Path:
        """The element of a list."""
        return Path(f"{self.text}[{position}]")

    def key(self, name: str) -> Path:
        """The element of a map, which prints like that of a list."""
        return Path(f"{self.text}[{name}]")

    def __str__(self) -> str:
        # fmt prints a nil *field.Path like this, and upstream's nil paths become visible only in that case.
        return self.text or "<nil>"


@dataclass(frozen=True, slots=True)
class Typed:
    """A value of a named Go string type, which upstream prints as JSON and not with %q."""

    value: str


@dataclass(frozen=True, slots=True)
class DurationValue:
    """A metav1.Duration in nanoseconds, printed as "10s" in quotes."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class JsonText:
    """JSON that is printed as it is: a struct, a list or a raw message."""

    text: str


BadValue = str | int | Typed | DurationValue | JsonText


def _print_value(value: BadValue) -> str:
    match value:
        case str():
            return quote(value)
        case bool() | int():
            return json_value(value)
        case Typed():
            return json_string(value.value)
        case DurationValue():
            return f'"{format_duration(value.nanoseconds)}"'
        case JsonText():
            return value.text


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def required(path: Path, detail: str = "") -> str:
    """A value is missing."""
    return _with_detail(f"{path}: Required value", detail)


def forbidden(path: Path, detail: str) -> str:
    """A value must not be given here."""
    return _with_detail(f"{path}: Forbidden", detail)


def invalid(path: Path, value: BadValue, detail: str) -> str:
    """A value breaks a rule."""
    return _with_detail(f"{path}: Invalid value: {_print_value(value)}", detail)


def duplicate(path: Path, value: BadValue) -> str:
    """A value that must be unique is not."""
    return f"{path}: Duplicate value: {_print_value(value)}"


def not_supported(path: Path, value: BadValue, supported: Sequence[str]) -> str:
    """A value is none of the listed ones."""
    detail = "supported values: " + ", ".join(map(quote, supported)) if supported else ""
    return _with_detail(f"{path}: Unsupported value: {_print_value(value)}", detail)


def distinct(errors: Iterable[str]) -> list[str]:
    """The errors without repetitions, in order: `field.ErrorList.ToAggregate`."""
    return list(dict.fromkeys(errors))


def aggregate_text(errors: Iterable[str]) -> str:
    """The text of an aggregate: one message stands alone, several stand in brackets, repetitions are left out."""
    messages = distinct(errors)
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
