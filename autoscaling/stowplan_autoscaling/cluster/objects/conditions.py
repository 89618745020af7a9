"""Conditions in the status of API objects, found by their type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class HasType(Protocol):
    """What conditions of all kinds have in common."""

    @property
    def type(self) -> str:
        """What it says something about, such as Ready; one condition of each type."""
        ...


C = TypeVar("C", bound=HasType)


def condition_of(conditions: Iterable[C], kind: str) -> C | None:
    """The condition of a type, if there is one."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None
