"""Numbers for people, beyond those of experiment.wording: numbers that may be missing, short numbers, lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan_autoscaling.experiment import wording

NOTHING: Final = "–"
"""What stands where there is no number."""


def amount(value: float | None, unit: str) -> str:
    """A value in the unit of a metric."""
    return NOTHING if value is None else wording.amount(value, unit)


def short(value: float, unit: str = "") -> str:
    """Three digits that count, whole thousands in groups, and the unit behind: for what is read off a curve."""
    if unit == "share":
        return wording.amount(value, unit)
    size = abs(value)
    places = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.0995 else 3
    shown = f"{value:,.{places}f}"
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    shown = "0" if shown == "-0" else shown
    return f"{shown} {unit}" if unit else shown


def listed(names: Sequence[str], limit: int = 12) -> str:
    """Names with commas; of many the first ones, and how many more."""
    if len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit:,} more"


def counted(number: int, word: str) -> str:
    """A number of things: one seed, five seeds."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
