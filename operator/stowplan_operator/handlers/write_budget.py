"""How often the status of one object may be written, whatever seems to be the reason.

Two operators without a Lease would each put right what the other one wrote, as fast as the server answers; so would one
operator whose status the server changes. A budget makes of that a write every few seconds, and spares an honest series
of changes.
"""

from __future__ import annotations

from typing import Final

AT_ONCE: Final = 20
"""Writes that may follow one another without a pause: an edit costs two to four."""

PERIOD_SECONDS: Final = 3.0
"""In so much time one more becomes possible."""

_FORGET_SECONDS: Final = 2 * AT_ONCE * PERIOD_SECONDS


class WriteBudget:
    """Counts writes by UID. Times are seconds of a clock that does not go back."""

    def __init__(self, at_once: int = AT_ONCE, period: float = PERIOD_SECONDS) -> None:
        self._most = float(at_once)
        self._period = period
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, uid: str, now: float) -> float:
        """0 if a write is allowed, which counts it; else the seconds until one will be."""
        left, since = self._left.get(uid, (self._most, now))
        left = min(self._most, left + (now - since) / self._period)
        if left < 1:
            self._left[uid] = left, now
            return (1 - left) * self._period
        self._left[uid] = left - 1, now
        self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Objects that were not written for long have all they can have."""
        if len(self._left) > AT_ONCE:
            self._left = {uid: entry for uid, entry in self._left.items() if now - entry[1] < _FORGET_SECONDS}
