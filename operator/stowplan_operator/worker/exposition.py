"""Prometheus' text format as kube-scheduler writes it: order of series and labels, and every number digit for digit.

Go's library writes le="1" and 6.7108864e+07 where Python's writes le="1.0" and 67108864.0. To Prometheus 3 both are the
same; an older one takes them for different series, and so do comparisons of texts.

Follows expfmt/text_create.go of github.com/prometheus/common and strconv.FormatFloat(x, 'g', -1, 64).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

_PLAIN: Final = range(-4, 6)
"""Powers of ten of the first digit for which Go writes no exponent."""


class Line(NamedTuple):
    """One sample: what is added to the family's name, labels in the order in which they are written, the value."""

    suffix: str
    labels: Sequence[tuple[str, str]]
    value: float


class Family(NamedTuple):
    """One metric with its samples. `help` as it is printed, stability included."""

    name: str
    type: str
    help: str
    lines: Sequence[Line]


def exposition(families: Iterable[Family]) -> bytes:
    """All families by name; those without samples are left out, as Go's library does."""
    parts: list[str] = []
    for family in sorted(families, key=lambda each: each.name):
        if not family.lines:
            continue
        parts.append(header(family.name, family.type, family.help))
        for suffix, labels, value in family.lines:
            written = ",".join([f'{name}="{quoted(text)}"' for name, text in labels])
            written = f"{{{written}}}" if written else ""
            parts.append(f"{family.name}{suffix}{written} {go_float(value)}\n")
    return "".join(parts).encode()


def header(name: str, kind: str, help_text: str) -> str:
    """What stands before the samples of a metric."""
    return f"# HELP {name} {_escaped(help_text)}\n# TYPE {name} {kind}\n"


@lru_cache(maxsize=4096)
def go_float(value: float) -> str:
    """The shortest text of a number, as Go prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    digits, exponent = _shortest(abs(value))
    sign = "-" if value < 0 else ""
    place = exponent + len(digits) - 1
    if place not in _PLAIN:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if place < 0 else '+'}{abs(place):02d}"
    if exponent >= 0:
        return f"{sign}{digits}{'0' * exponent}"
    if place >= 0:
        return f"{sign}{digits[: place + 1]}.{digits[place + 1 :]}"
    return f"{sign}0.{'0' * (-place - 1)}{digits}"


def _shortest(value: float) -> tuple[str, int]:
    """(digits, exponent of the last one): the fewest that stand for the number. Python's repr has the same digits."""
    mantissa, _, power = repr(float(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(power or 0) - len(fraction)
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    return stripped, exponent + len(digits) - len(stripped)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def quoted(text: str) -> str:
    """A label's value between its quotation marks."""
    return _escaped(text).replace('"', '\\"')
