"""Findings over seeds: those that say the same with other numbers become one, with the range of each number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from .comparison import Finding

_NUMBER: Final = re.compile(r"(?<![\w./:-])\d[\d,]*(?:\.\d+)?(?![\w/:-]|\.\d)")
"""A number that stands by itself: not within a name, a time of day or a path."""


def findings_of(texts: Mapping[int, Sequence[str]]) -> tuple[Finding, ...]:
    """By seed the findings of its run; each once, with the seeds in which it was so."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for seed, found in texts.items():
        for text in found:
            groups.setdefault(_NUMBER.sub("#", text), []).append((seed, text))
    result: list[Finding] = []
    for group in groups.values():
        seeds = [seed for seed, _ in group]
        if len(set(seeds)) == len(seeds):
            result.append(Finding(text=_ranged([text for _, text in group]), seeds=tuple(seeds)))
        else:
            # Of one run there are several: their numbers tell things apart.
            result += _same(group)
    return tuple(result)


def _same(group: Sequence[tuple[int, str]]) -> list[Finding]:
    seeds: dict[str, list[int]] = {}
    for seed, text in group:
        seeds.setdefault(text, []).append(seed)
    return [Finding(text=text, seeds=tuple(dict.fromkeys(where))) for text, where in seeds.items()]


def _ranged(texts: Sequence[str]) -> str:
    """Texts that differ in numbers only as one: "26 times", "31 times" is "26 to 31 times"."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    low, high = (pick(numbers, key=_value) for pick in (min, max))
    return low if _value(low) == _value(high) else f"{low} to {high}"


def _value(text: str) -> float:
    return float(text.replace(",", ""))
