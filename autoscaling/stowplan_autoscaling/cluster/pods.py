"""The pod of the virtual cluster: the scheduler's pod, plus what controllers, kubelet and autoscalers read of its life.

Times are nanoseconds since 1970-01-01T00:00:00Z. They stand beside the texts of the API object so that nobody parses
one; the texts that the scheduler itself reads (status.startTime, metadata.deletionTimestamp) are kept in step by
`store.py`.
"""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.objects import Pod

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


class ClusterPod(Pod, frozen=True, kw_only=True):
    """A pod of the virtual cluster. Frozen: a change is a new object."""

    version: int = 0
    """metadata.resourceVersion as a number."""
    created: int = 0
    """metadata.creationTimestamp."""
    scheduled: int | None = None
    """When it was bound to its node: the transition time of PodScheduled=True."""
    unschedulable: bool = False
    """PodScheduled=False with reason Unschedulable."""
    started: int | None = None
    """status.startTime."""
    ready: str = ""
    """Status of the condition Ready: "True", "False", "Unknown"; "" without the condition."""
    ready_since: int = 0
    """Last transition of the condition Ready."""
    finished: int | None = None
    """When its containers had all ended (phase Succeeded or Failed)."""
    deleted: int | None = None
    """metadata.deletionTimestamp: the end of the grace period."""
    owner_uid: str = ""
    """uid of the controller that owns it; "" for a bare pod."""
    restarts: int = 0
    """Container restarts, all containers together."""
    exit_codes: tuple[tuple[str, int], ...] = ()
    """(container, exit code) of those that have ended."""

    @property
    def is_active(self) -> bool:
        """Neither finished nor being deleted (pkg/controller/controller_utils.go, IsPodActive)."""
        return self.deleted is None and self.status.phase not in {SUCCEEDED, FAILED}

    @property
    def is_ready(self) -> bool:
        """Whether the condition Ready is True."""
        return self.ready == TRUE
