"""The back-off of daemon pods that fail (client-go/util/flowcontrol/backoff.go as the DaemonSet controller uses it)."""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import MINUTE, SECOND

FIRST_DELAY: Final = SECOND
MAX_DELAY: Final = 15 * MINUTE


class FailureBackoff:
    """By key: how long after a failed pod was deleted the next one is left alone."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, int]] = {}
        """(delay, when it began)."""

    def delay(self, key: str) -> int:
        """The present delay."""
        return self._entries.get(key, (0, 0))[0]

    def is_waiting(self, key: str, now: int) -> bool:
        """Whether the delay is not over."""
        entry = self._entries.get(key)
        return entry is not None and now - entry[1] < entry[0]

    def advance(self, key: str, now: int) -> None:
        """Double the delay; begin anew after twice the longest one without failure."""
        delay, since = self._entries.get(key, (0, 0))
        if delay == 0 or now - since > 2 * MAX_DELAY:
            delay = FIRST_DELAY
        else:
            delay = min(2 * delay, MAX_DELAY)
        self._entries[key] = delay, now
