"""Kinds of values that Kubernetes users write as text: durations, quantities, times.

Each is a pydantic type that reads the text into the number the simulation computes with, writes it back as text, and
appears in the schema as what it is in YAML. There are no floats in YAML: 0.5 is written "0.5" or 500m, as in
Kubernetes, where a custom resource takes integers and text only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from stowplan_autoscaling.inputs.errors import shown
from stowplan_scheduler.quantity import NANOS, QuantityError, parse_quantity
from stowplan_scheduler.timestamps import TimestampError, format_time, parse_time

_UNITS: Final = {"h": 3600 * NANOS, "m": 60 * NANOS, "s": NANOS, "ms": 10**6, "us": 10**3, "ns": 1}
_STEP: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|ns|m|s)")
DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(h|ms|us|ns|m|s))+$"
_MAX_NANOS: Final = 2**63 - 1
MAX_SPREAD: Final = 10.0
_EXAMPLE: Final = "must be a duration such as 500ms, 15s, 10m or 1h30m"


def problem(message: str) -> PydanticCustomError:
    """A finding about a value, with its text as it stands."""
    return PydanticCustomError("stowplan", "{text}", {"text": message})


# ---- durations -----------------------------------------------------------------------------------------------------


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration as Go writes it, without a sign: "1h30m", "1.5s". Raises ValueError."""
    steps = _STEP.findall(text)
    if not steps or "".join(amount + unit for amount, unit in steps) != text:
        raise ValueError(text)
    nanos = int(sum(Fraction(amount) * _UNITS[unit] for amount, unit in steps))
    if nanos > _MAX_NANOS:
        raise ValueError(text)
    return nanos


def format_duration(nanos: int) -> str:
    """The shortest such text: 90 minutes are "1h30m", nothing is "0s"."""
    if nanos < NANOS and nanos:
        unit = next(name for name in ("ms", "us", "ns") if nanos % _UNITS[name] == 0)
        return f"{nanos // _UNITS[unit]}{unit}"
    hours, rest = divmod(nanos, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    seconds, fraction = divmod(rest, NANOS)
    text = f"{hours}h" * bool(hours) + f"{minutes}m" * bool(minutes)
    if fraction:
        return f"{text}{seconds}.{fraction:09d}".rstrip("0") + "s"
    return text + f"{seconds}s" if seconds or not text else text


def _duration(value: Any) -> int:
    if type(value) is not str:
        hint = f': "{value}s" is that many seconds' if type(value) is int else ""
        raise problem(f"{_EXAMPLE}, got {shown(value)}{hint}")
    try:
        return parse_duration(value)
    except ValueError:
        hint = "; there are no days, 24h is one" if re.fullmatch(r".*[0-9]d.*", value) else ""
        raise problem(f"{shown(value)}: {_EXAMPLE}{hint}") from None


def _positive_duration(value: Any) -> int:
    nanos = _duration(value)
    if nanos == 0:
        raise problem(f"{shown(value)}: must be greater than zero")
    return nanos


_DURATION_SCHEMA: Final = WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "maxLength": 64})
_AS_DURATION: Final = PlainSerializer(format_duration)

Duration = Annotated[int, BeforeValidator(_duration), _AS_DURATION, _DURATION_SCHEMA]
"""Nanoseconds."""

PositiveDuration = Annotated[int, BeforeValidator(_positive_duration), _AS_DURATION, _DURATION_SCHEMA]
"""Nanoseconds, more than zero."""


# ---- amounts -------------------------------------------------------------------------------------------------------


def _nanos(value: Any) -> int:
    """Nano units of a quantity that is not negative."""
    if type(value) is float:
        raise problem(f'must be a whole number or a text, got {shown(value)}: write "{value}"')
    if type(value) not in {str, int}:
        raise problem(f"must be a quantity such as 500m, 2 or 4Gi, got {shown(value)}")
    try:
        nanos = parse_quantity(value)
    except QuantityError as error:
        raise problem(f"{shown(value)}: {error}") from None
    if nanos < 0:
        raise problem(f"{shown(value)}: must not be negative")
    return nanos


def _number(value: Any) -> float:
    return _nanos(value) / NANOS


def _positive(value: Any) -> float:
    number = _number(value)
    if number == 0:
        raise problem(f"{shown(value)}: must be greater than zero")
    return number


def _share(value: Any) -> float:
    number = _number(value)
    if number > 1:
        raise problem(f"{shown(value)}: must be between 0 and 1")
    return number


def _spread(value: Any) -> float:
    number = _number(value)
    if number > MAX_SPREAD:
        raise problem(f"{shown(value)}: must be between 0 and {MAX_SPREAD:g}")
    return number


def _whole(value: Any) -> int:
    return -(-_nanos(value) // NANOS)


def _milli(value: Any) -> int:
    return -(-_nanos(value) * 1000 // NANOS)


def _number_text(value: float) -> int | str:
    return int(value) if value == int(value) else f"{value:.9f}".rstrip("0")


_QUANTITY_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$",
        "x-kubernetes-int-or-string": True,
    }
)


def _quantity(read: Callable[[Any], Any], write: Callable[[Any], Any]) -> tuple[Any, ...]:
    return BeforeValidator(read), PlainSerializer(write), _QUANTITY_SCHEMA


Number = Annotated[float, *_quantity(_number, _number_text)]
"""A quantity, zero or more."""

PositiveNumber = Annotated[float, *_quantity(_positive, _number_text)]
"""A quantity, more than zero."""

Share = Annotated[float, *_quantity(_share, _number_text)]
"""A quantity from 0 to 1."""

Spread = Annotated[float, *_quantity(_spread, _number_text)]
"""Standard deviation of a logarithm: with 10, one time in forty is half a billion times the median already."""

Bytes = Annotated[int, *_quantity(_whole, str)]
"""A quantity in whole bytes."""

MilliCores = Annotated[int, *_quantity(_milli, lambda value: f"{value}m")]
"""A quantity of cpu in thousandths of a core."""


def _amount(value: Any) -> str:
    _nanos(value)
    return str(value)


Amount = Annotated[str, BeforeValidator(_amount), _QUANTITY_SCHEMA]
"""A quantity as its text, for resources that only the API objects know."""


# ---- times ---------------------------------------------------------------------------------------------------------


def _time(value: Any) -> int:
    if not isinstance(value, str):
        raise problem(f"must be a time such as 2026-03-02T08:00:00Z, got {shown(value)}")
    try:
        return parse_time(value)
    except TimestampError:
        raise problem(f"{shown(value)}: must be a time in RFC 3339 such as 2026-03-02T08:00:00Z") from None


Time = Annotated[
    int,
    BeforeValidator(_time),
    PlainSerializer(format_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Nanoseconds since 1970."""
