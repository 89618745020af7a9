"""Conditions of status: their shape, and the time that stays while the status stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stowplan_autoscaling.one_line import one_line
from stowplan_scheduler.timestamps import NANOSECONDS, format_time

from .observed import entries, text

TRUE: Final = "True"
FALSE: Final = "False"

_LONGEST: Final = 1024
"""Characters of a message; the API takes 32 times as many, but these are read in a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. `generation`: the one of the object that it speaks of."""

    type: str
    status: str
    reason: str
    message: str
    generation: int

    @property
    def is_true(self) -> bool:
        return self.status == TRUE


def condition(type: str, holds: bool, reason: str, message: str, generation: int) -> Condition:
    """A condition that is True or False."""
    shown = one_line(message)
    cut = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
    return Condition(type=type, status=TRUE if holds else FALSE, reason=reason, message=cut, generation=generation)


def conditions_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions in a status by type."""
    return {text(entry.get("type")): entry for entry in entries(status.get("conditions"))}


def written(conditions: Iterable[Condition], before: Mapping[str, Mapping[str, Any]], now: int) -> list[dict[str, Any]]:
    """The conditions as status holds them. `before`: those that stand there. `now`: nanoseconds since the epoch.

    lastTransitionTime is that of the last change of `status`, as the API conventions have it.
    """
    moment = format_time(now - now % NANOSECONDS)
    result: list[dict[str, Any]] = []
    for each in conditions:
        old = before.get(each.type, {})
        since = text(old.get("lastTransitionTime")) if old.get("status") == each.status else ""
        result.append(
            {
                "type": each.type,
                "status": each.status,
                "observedGeneration": each.generation,
                "lastTransitionTime": since or moment,
                "reason": each.reason,
                "message": each.message,
            }
        )
    return result
