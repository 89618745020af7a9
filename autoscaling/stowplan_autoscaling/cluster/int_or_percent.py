"""A number or a percentage of a total (apimachinery/pkg/util/intstr)."""

from __future__ import annotations

from functools import lru_cache

IntOrString = int | str


@lru_cache(maxsize=4096)
def scaled_value(value: IntOrString, total: int, *, round_up: bool) -> int:
    """The number, or that many percent of the total. Raises ValueError for a text that is no percentage."""
    if isinstance(value, int):
        return value
    if not value.endswith("%") or not value[:-1].lstrip("-").isdigit():
        raise ValueError(f"must be an integer or a percentage such as 25%, got {value!r}")
    product = int(value[:-1]) * total
    return -(-product // 100) if round_up else product // 100
