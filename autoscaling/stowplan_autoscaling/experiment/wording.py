"""Amounts and differences in words, for verdicts, tables and reports."""

from __future__ import annotations

from math import floor, log10
from typing import Final

from .comparison import Difference, MetricReport

_MINUTE: Final = 60
_HOUR: Final = 3600
_TENFOLD: Final = 10
_MOST_PLACES: Final = 6
"""As many as numbers of a comparison have."""


def amount(value: float, unit: str) -> str:
    """A value with its unit: "1.3 s", "12.4 %", "USD 51.20", "6"."""
    match unit:
        case "s":
            return seconds(value)
        case "share":
            return f"{100 * value:,.1f} %"
        case "h":
            return f"{value:,.1f} h"
        case "core s":
            return f"{value:,.0f} core s"
        case "/h":
            return f"{value:,.2f} /h"
        case "count" | "pods" | "nodes" | "":
            return _plain(value)
        case _:
            return f"{unit} {value:,.{_places(value)}f}"


def _places(value: float) -> int:
    """Of money: two, or as many as show two digits that count of a small amount."""
    size = abs(value)
    return 2 if not size or size >= 1 else min(_MOST_PLACES, max(2, 1 - floor(log10(size))))


def seconds(value: float) -> str:
    """Milliseconds below a second, minutes from two on, hours from two on; with a sign if it is negative."""
    size = abs(value)
    sign = "-" if value < 0 else ""
    if size < 1:
        return f"{sign}{size * 1000:,.0f} ms" if size else "0 s"
    if size < 2 * _MINUTE:
        return f"{sign}{size:,.1f} s"
    if size < 2 * _HOUR:
        return f"{sign}{size / _MINUTE:,.1f} min"
    return f"{sign}{size / _HOUR:,.1f} h"


def step(value: float, unit: str) -> str:
    """A difference, always with its sign; shares differ by percentage points."""
    sign = "+" if value > 0 else "-" if value < 0 else ""
    if unit == "share":
        return f"{sign}{100 * abs(value):,.1f} pp"
    return sign + amount(abs(value), unit)


def percent(share: float) -> str:
    """A relative difference: "-19.6 %"."""
    return f"{100 * share:+,.1f} %"


def is_relative(difference: Difference, unit: str) -> bool:
    """Whether a percentage says more than an amount: not of shares, and not beside next to nothing."""
    return difference.share is not None and unit != "share" and abs(difference.share) < _TENFOLD


def change(difference: Difference, unit: str) -> str:
    """As short as it can be: "-19.6 %", "+4.6 pp", "+25.4 s"."""
    if is_relative(difference, unit):
        return percent(difference.share or 0.0)
    return step(difference.median, unit)


def against(difference: Difference, metric: MetricReport) -> str:
    """How much, and how sure: "-19.6 % (-USD 10.20, 95 % from -USD 10.50 to -USD 10.00; 3 of 3 seeds better)"."""
    unit = metric.unit
    text = step(difference.median, unit)
    if is_relative(difference, unit):
        text = f"{change(difference, unit)} ({text})"
    if difference.seeds > 1:
        low, high = step(difference.low, unit), step(difference.high, unit)
        text += f", 95 % from {low} to {high}"
    most, word = majority(difference)
    return f"{text}, {most} of {difference.seeds} seeds {word}" if most else text


def majority(difference: Difference) -> tuple[int, str]:
    """How many seeds are "better", or "worse", whichever are more; none if they are equally many."""
    if difference.better == difference.worse:
        return 0, ""
    return max((difference.better, "better"), (difference.worse, "worse"))


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
