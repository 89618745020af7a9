"""Groups whose scale-ups failed are left alone for a while, longer each time.

Follows pkg/utils/backoff/exponential_backoff.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass

from .node_groups import InstanceError
from .options import AutoscalingOptions


@dataclass(frozen=True, slots=True)
class BackoffInfo:
    """`until`: when the group may be tried again; `duration`: of this back-off; `failed_at`: the last failure."""

    duration: int
    until: int
    failed_at: int
    error: InstanceError


class ExponentialBackoff:
    """Back-offs by group."""

    def __init__(self, options: AutoscalingOptions) -> None:
        self._options = options
        self._groups: dict[str, BackoffInfo] = {}

    def back_off(self, group_id: str, error: InstanceError, now: int) -> int:
        """A scale-up failed; until when the group is left alone. A failure during a back-off does not double it."""
        options, held = self._options, self._groups.get(group_id)
        duration = options.initial_node_group_backoff_duration
        if held is not None:
            duration = held.duration
            if held.until < now:
                duration = min(2 * held.duration, options.max_node_group_backoff_duration)
        self._groups[group_id] = BackoffInfo(duration, now + duration, now, error)
        return now + duration

    def status(self, group_id: str, now: int) -> BackoffInfo | None:
        """The back-off that a group is in, None if it may be scaled up."""
        held = self._groups.get(group_id)
        return None if held is None or held.until < now else held

    def remove_stale(self, now: int) -> None:
        """Forget groups whose last failure is long ago."""
        timeout = self._options.node_group_backoff_reset_timeout
        for group_id in [key for key, held in self._groups.items() if held.failed_at + timeout < now]:
            del self._groups[group_id]

    def next_change(self, now: int) -> int | None:
        """When the first of the present back-offs ends; None without one."""
        return min((held.until for held in self._groups.values() if held.until >= now), default=None)
