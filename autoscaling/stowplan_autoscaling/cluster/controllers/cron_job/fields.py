"""The five fields of a cron schedule: names, ranges, steps, lists (robfig/cron v3, parser.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .errors import ScheduleError


class Bounds(NamedTuple):
    """What a field may say."""

    low: int
    high: int
    names: Mapping[str, int] = {}


class Field(NamedTuple):
    """What a field says: its values, and whether it is unrestricted ("*" or "?" without a step)."""

    values: frozenset[int]
    is_star: bool


def _named(text: str, first: int) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(text.split(), first)}


MINUTE: Final = Bounds(0, 59)
HOUR: Final = Bounds(0, 23)
DAY_OF_MONTH: Final = Bounds(1, 31)
MONTH: Final = Bounds(1, 12, _named("jan feb mar apr may jun jul aug sep oct nov dec", 1))
DAY_OF_WEEK: Final = Bounds(0, 6, _named("sun mon tue wed thu fri sat", 0))
"""Sunday is 0; 7 is not accepted."""


def parse_field(text: str, bounds: Bounds) -> Field:
    """A list of ranges. Raises ScheduleError."""
    values: set[int] = set()
    is_star = False
    for part in text.split(","):
        if part:
            numbers, star = _parse_range(part, bounds)
            values.update(numbers)
            is_star = is_star or star
    return Field(frozenset(values), is_star)


def _parse_range(text: str, bounds: Bounds) -> tuple[range, bool]:
    """One of "*", "5" and "1-5", with "/step" or without; "5/15" means "5-59/15"."""
    span, slash, step_text = text.partition("/")
    if "/" in step_text:
        raise ScheduleError(f"too many slashes: {text}")
    low_text, hyphen, high_text = span.partition("-")
    is_star = low_text in {"*", "?"}
    if is_star:
        low, high = bounds.low, bounds.high
    else:
        low = high = _number_or_name(low_text, bounds)
        if "-" in high_text:
            raise ScheduleError(f"too many hyphens: {text}")
        if hyphen:
            high = _number_or_name(high_text, bounds)
    step = 1
    if slash:
        step = _number(step_text)
        if not hyphen:
            high = bounds.high
        is_star = is_star and step <= 1
    _check(text, low, high, step, bounds)
    return range(low, high + 1, step), is_star


def _check(text: str, low: int, high: int, step: int, bounds: Bounds) -> None:
    if low < bounds.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number_or_name(text: str, bounds: Bounds) -> int:
    found = bounds.names.get(text.lower())
    return _number(text) if found is None else found


def _number(text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if text.startswith("-") and int(digits):
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(digits)
