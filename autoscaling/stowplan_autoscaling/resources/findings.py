"""From what pydantic finds wrong to one FieldError: the path in the YAML, what stands there, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stowplan_autoscaling.inputs.decode import field_path
from stowplan_autoscaling.inputs.errors import FieldError, shown

_MOST_NAMES: Final = 12
_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "int_type": "an integer",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
}
_ORDER: Final = ("extra_forbidden", "missing")
"""An unknown field often explains why another one is missing, or why too many are set."""


def field_error(error: ValidationError, model: type[BaseModel]) -> FieldError:
    """The finding that says most, as an error about a field."""
    return field_errors(error, model)[0]


def field_errors(error: ValidationError, model: type[BaseModel]) -> list[FieldError]:
    """All findings as errors about fields; those that say most come first."""
    found = error.errors(include_url=False)
    return [_field_error(each, model) for each in sorted(found, key=_rank) if not _is_emptied(each, found)]


def _is_emptied(found: ErrorDetails, others: Sequence[ErrorDetails]) -> bool:
    """Whether a list is too short only because its entries are wrong: pydantic does not count those."""
    path = found["loc"]
    return found["type"] == "too_short" and any(
        other["loc"][: len(path)] == path and len(other["loc"]) > len(path) for other in others
    )


def _field_error(found: ErrorDetails, model: type[BaseModel]) -> FieldError:
    path = found["loc"]
    if found["type"] == "extra_forbidden":
        return FieldError(_text(path), f"unknown field{near(str(path[-1]), _fields(model, path[:-1]))}")
    return FieldError(_text(path), _message(found))


def _rank(found: ErrorDetails) -> int:
    return _ORDER.index(found["type"]) if found["type"] in _ORDER else len(_ORDER)


def _message(found: ErrorDetails) -> str:
    kind, value, context = found["type"], found["input"], found.get("ctx", {})
    if kind in _EXPECTED:
        return _wrong_type(_EXPECTED[kind], value)
    match kind:
        case "missing":
            return "must be set"
        case "literal_error" | "enum":
            return f"{shown(value)}: must be {str(context['expected']).replace(chr(39), '')}"
        case "string_pattern_mismatch":
            return f"{shown(value)}: must be lower case letters, digits, '-' and '.', without the latter at either end"
        case "greater_than_equal" | "less_than_equal":
            word, limit = ("least", context.get("ge")) if kind == "greater_than_equal" else ("most", context.get("le"))
            return f"{shown(value)}: must be at {word} {limit:,}"
        case "too_short" | "too_long":
            return _wrong_length(kind == "too_long", context)
        case "string_too_short":
            return "must be set"
        case "string_too_long":
            return f"{shown(value)}: must have at most {context['max_length']} characters"
        case _:
            return found["msg"]


def _wrong_length(long: bool, context: Mapping[str, Any]) -> str:
    if long:
        return f"has {context['actual_length']:,} entries: at most {context['max_length']:,} are allowed"
    return f"must have at least {context['min_length']} entry"


def _wrong_type(expected: str, value: Any) -> str:
    message = f"must be {expected}, got {shown(value)}"
    if expected == "a string" and isinstance(value, bool):
        return message + " (YAML reads y, n, yes, no, on and off as true or false: quote it)"
    return message + ": quote it" if expected == "a string" and isinstance(value, int | float) else message


def near(name: str, known: Sequence[str]) -> str:
    """The part of a message that names what was meant, or else what there is."""
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    if not known:
        return "; there are none"
    listed = ", ".join(sorted(known)[:_MOST_NAMES])
    return f"; known are {listed}{', ...' if len(known) > _MOST_NAMES else ''}"


def _text(path: Sequence[int | str]) -> str:
    text = ""
    for step in path:
        text = field_path(text, step)
    return text


def _fields(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """The names in YAML that the mapping at a path can have."""
    for step in path:
        if isinstance(step, str):
            inner = model_of_field(model, step)
            if inner is None:
                return []
            model = inner
    return fields_of(model)


def fields_of(model: type[BaseModel]) -> list[str]:
    """The names in YAML of the fields of a model."""
    return [field.alias or name for name, field in model.model_fields.items()]


def model_of_field(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The model of a field by its name in YAML, or of the entries of its list; None if it has none."""
    found = {field.alias or own: field for own, field in model.model_fields.items()}.get(name)
    return None if found is None else _model_in(found.annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside of X, X | None, tuple[X, ...] or Annotated[X, ...]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
