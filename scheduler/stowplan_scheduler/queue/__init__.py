"""The scheduling queue: active, backing off, unschedulable, in flight; events, queueing hints, nominations."""

from __future__ import annotations

from .backoff_queue import earlier
from .gates import PreEnqueueGates
from .hints import HintMap, Strategy
from .measured import MeasuredGates
from .nominator import NominatingMode
from .object_events import node_update_events, pod_update_events
from .places import AlreadyQueuedError, PendingPods, Place, QueueInvariantError
from .queued_pod import SECOND, QueuedPodInfo
from .scheduling_queue import SchedulingQueue

__all__ = [
    "SECOND",
    "AlreadyQueuedError",
    "HintMap",
    "MeasuredGates",
    "NominatingMode",
    "PendingPods",
    "Place",
    "PreEnqueueGates",
    "QueueInvariantError",
    "QueuedPodInfo",
    "SchedulingQueue",
    "Strategy",
    "earlier",
    "node_update_events",
    "pod_update_events",
]
