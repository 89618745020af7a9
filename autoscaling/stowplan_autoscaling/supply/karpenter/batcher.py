"""The batching window: pods that come close together are provisioned for in one round.

The first trigger opens a window; it closes after a second without another trigger, or ten seconds after it opened. A
pod triggers once per window; one that still waits triggers again every ten seconds.

Follows pkg/controllers/provisioning (batcher.go, controller.go) of Karpenter core v1.15.0.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import SECOND

from .options import Options

RETRIGGER: Final = 10 * SECOND
"""How often a pod that still waits, or a node that is being deleted, triggers again."""


class Batcher:
    """The window as a state machine; times in nanoseconds.

    Triggers that come while a round runs, after `close`, open the next window.
    """

    def __init__(self, options: Options) -> None:
        self._idle = options.batch_idle
        self._max = options.batch_max
        self._seen: set[str] = set()
        self._opened: int | None = None
        self._last = 0

    def trigger(self, key: str, now: int) -> None:
        """A pod (by uid) needs capacity, or a node is going."""
        if key in self._seen:
            return
        self._seen.add(key)
        if self._opened is None:
            self._opened = now
        self._last = now

    @property
    def due(self) -> int | None:
        """When the window closes as things stand; None: none is open."""
        return None if self._opened is None else min(self._last + self._idle, self._opened + self._max)

    def close(self, now: int) -> bool:
        """Close the window if it is due, and say so: a round is to run now."""
        due = self.due
        if due is None or now < due:
            return False
        self._seen.clear()
        self._opened = None
        return True
