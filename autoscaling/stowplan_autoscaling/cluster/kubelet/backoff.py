"""Back-off that doubles: of image pulls and of crashing containers.

Follows staging/src/k8s.io/client-go/util/flowcontrol/backoff.go of Kubernetes v1.37.2; pkg/kubelet/kubelet.go says when
a kubelet's back-offs are forgotten: both 10 minutes after their last use.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import MINUTE, SECOND

IMAGE_INITIAL: Final = 10 * SECOND
IMAGE_MAX: Final = 300 * SECOND
FORGOTTEN_AFTER: Final = 10 * MINUTE

BACK_OFF: Final = "BackOff"
"""Reason of the events."""

JITTER: Final = 0.5
"""A worker that waits for a back-off, or for its next regular sync, waits up to so much longer (pod_workers.go)."""


class BackOff:
    """One key's back-off; times in nanoseconds."""

    __slots__ = ("_initial", "_most", "current", "last")

    def __init__(self, initial: int, most: int) -> None:
        self._initial = min(initial, most)
        self._most = most
        self.last = 0
        """When it was used last."""
        self.current = 0
        """How long is waited now; 0 before the first use."""

    def next(self, event: int, now: int) -> None:
        """Note a use because of something that happened at `event`: the wait is the first one, then twice the last."""
        if not self.current or event - self.last > FORGOTTEN_AFTER:
            self.current = self._initial
        else:
            self.current = min(2 * self.current, self._most)
        self.last = now

    def ends_after(self, event: int) -> int:
        """Until when to wait if the wait counts from `event`; `event` itself if there is nothing to wait for."""
        if not self.current or event - self.last > FORGOTTEN_AFTER:
            return event
        return event + self.current

    def ends(self, now: int) -> int:
        """Until when one has to wait if the wait counts from the last use."""
        if not self.current or now - self.last > FORGOTTEN_AFTER:
            return now
        return self.last + self.current
