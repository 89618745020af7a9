"""A pod in the scheduling queue, with what the queue remembers about its attempts.

Follows QueuedPodInfo and QueueingParams of pkg/scheduler/framework/types.go of Kubernetes v1.37.2. All times are the
caller's, in integer nanoseconds.
"""

from __future__ import annotations

from stowplan_scheduler.framework.pod_info import PodInfo

SECOND = 1_000_000_000
"""Nanoseconds per second."""

_NOBODY: frozenset[str] = frozenset()


class QueuedPodInfo:
    """A pod on its way through the queue.

    The queue owns every field while the pod waits. While the pod is in flight (popped, not yet done) the scheduler may
    replace `info` and the rejectors; it must not touch anything else.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "flush_timestamp",
        "gating_plugin",
        "heap_position",
        "info",
        "initial_attempt_timestamp",
        "key",
        "pending_plugins",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )

    def __init__(self, info: PodInfo, timestamp: int) -> None:
        """A pod that the queue sees for the first time."""
        self.info = info
        self.key = info.key
        self.timestamp = timestamp
        """When the pod was added, or came back from its last attempt."""
        self.flush_timestamp: int | None = None
        """When the pod was last woken only because it had waited too long."""
        self.attempts = 0
        self.initial_attempt_timestamp: int | None = None
        """When the pod first entered the active queue; time behind a gate does not count."""
        self.unschedulable_count = 0
        self.consecutive_errors_count = 0
        self.backoff_expiration: int | None = None
        """End of the back-off, a whole second, once computed; None: to be computed."""
        self.unschedulable_plugins = _NOBODY
        self.pending_plugins = _NOBODY
        self.gating_plugin = ""
        """The plugin whose PreEnqueue keeps the pod out of the active queue; "" if none does."""
        self.was_flushed_from_unschedulable = False
        self.heap_position = -1
        """Index in the one heap that holds the pod (see heap.py)."""

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.info.uid

    @property
    def scheduler_name(self) -> str:
        """The profile that the pod asks for."""
        return self.info.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        """Whether a PreEnqueue plugin keeps the pod out."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> frozenset[str]:
        """Every plugin that stands in the pod's way; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins if self.pending_plugins else self.unschedulable_plugins

    @property
    def last_looked_at(self) -> int:
        """From when on the waiting time in the unschedulable pods counts."""
        return self.timestamp if self.flush_timestamp is None else max(self.timestamp, self.flush_timestamp)

    def clear_rejectors(self) -> None:
        """Forget the verdicts of the last attempt (upstream ClearRejectorPlugins); for the failure handler."""
        self.unschedulable_plugins = _NOBODY
        self.pending_plugins = _NOBODY
        self.gating_plugin = ""

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key}, attempts={self.attempts}, rejectors={sorted(self.rejectors)})"


def move_order(pod: QueuedPodInfo) -> tuple[int, int, str]:
    """In which order pods leave the unschedulable pods together; upstream iterates over a Go map there."""
    return -pod.info.priority, pod.timestamp, pod.key
