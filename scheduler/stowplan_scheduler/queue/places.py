"""Where a pending pod can be, the record of where every pod is, and what can go wrong.

The names of the places are those of pkg/scheduler/backend/queue of Kubernetes v1.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stowplan_scheduler.framework.pod_info import PodInfo

from .queued_pod import QueuedPodInfo


class Place(StrEnum):
    """Where a pod is. The first four are the values of the label `queue` of upstream's metrics."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in_flight"


class AlreadyQueuedError(ValueError):
    """A pod came back from an attempt although it is in the queue; the message is upstream's."""


class QueueInvariantError(RuntimeError):
    """The queue contradicts itself; the message lists how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPods:
    """Where every pod is at one moment. Each tuple is in the order in which pods would leave."""

    active: tuple[QueuedPodInfo, ...]
    backoff: tuple[QueuedPodInfo, ...]
    error_backoff: tuple[QueuedPodInfo, ...]
    unschedulable: tuple[QueuedPodInfo, ...]
    gated: tuple[QueuedPodInfo, ...]
    in_flight: tuple[PodInfo, ...]
