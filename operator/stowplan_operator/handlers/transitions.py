"""Events for what changed in the conditions of an object: what `kubectl describe` shows below the status.

An event follows the write of the status that it speaks of. A crash between the two loses the event and doubles none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .conditions import TRUE, conditions_of
from .names import ACCEPTED, DEGRADED, PAUSED, PROGRAMMED, READY
from .observed import text

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_BAD_WHEN_TRUE: Final = frozenset({DEGRADED})
_WORTH_TELLING: Final = (ACCEPTED, PROGRAMMED, PAUSED, DEGRADED, READY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event about one object. `reason` is that of the condition."""

    kind: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    note: str


def happenings(
    kind: str, name: str, uid: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Happening]:
    """What there is to tell of a change from one status to another: one event per condition that flipped.

    Accepted=False tells again when the generation changed: another edit was refused. A Degraded or Ready condition that
    flips together with Accepted, for the same reason, would only repeat it.
    """
    old, new = conditions_of(before), conditions_of(after)
    told: set[str] = set()
    for type in _WORTH_TELLING:
        found = new.get(type)
        if found is None or not _is_news(type, old.get(type), found):
            continue
        note = text(found.get("message"))
        if note in told:
            continue
        told.add(note)
        holds = found.get("status") == TRUE
        is_bad = holds if type in _BAD_WHEN_TRUE else (not holds and type == ACCEPTED)
        yield Happening(
            kind=kind,
            name=name,
            uid=uid,
            type=WARNING if is_bad else NORMAL,
            reason=text(found.get("reason")),
            action=type,
            note=note,
        )


def _is_news(type: str, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    if old is None:
        # The first status: what is as it should be, or not there yet, goes without saying.
        return new.get("status") == TRUE if type in {READY, PAUSED} else type == ACCEPTED and new.get("status") != TRUE
    if old.get("status") != new.get("status"):
        return True
    refused_again = type == ACCEPTED and new.get("status") != TRUE
    return refused_again and old.get("observedGeneration") != new.get("observedGeneration")
