"""Pods to be tried next, and those being tried.

Follows pkg/scheduler/backend/queue/active_queue.go of Kubernetes v1.37.2. Popping from the back-off queue is the
business of the scheduling queue, which knows both.
"""

from __future__ import annotations

from collections.abc import Callable

from .heap import PodHeap, SortKey
from .in_flight import InFlight
from .queued_pod import QueuedPodInfo


class ActiveQueue:
    """The heap of pods in the order of the queue sort, and the pods in flight."""

    __slots__ = ("heap", "in_flight", "scheduling_cycle")

    def __init__(self, sort_key: Callable[[QueuedPodInfo], SortKey]) -> None:
        """`sort_key`: smaller is popped first."""
        self.heap = PodHeap(sort_key)
        self.in_flight = InFlight()
        self.scheduling_cycle = 0
        """How many attempts have been started."""

    def sort_by(self, sort_key: Callable[[QueuedPodInfo], SortKey]) -> None:
        """Have another order."""
        self.heap = self.heap.resorted(sort_key)

    def __len__(self) -> int:
        """How many pods wait to be tried."""
        return len(self.heap)

    def __contains__(self, key: str) -> bool:
        return key in self.heap

    def get(self, key: str) -> QueuedPodInfo | None:
        """The active pod with this key."""
        return self.heap.get(key)

    def push(self, pod: QueuedPodInfo) -> None:
        """Add a pod, or put one that is here in its place again after its object changed."""
        self.heap.push(pod)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod with this key, if it is here."""
        return self.heap.remove(key)

    def pop(self) -> QueuedPodInfo | None:
        """Take the head; it is not in flight yet."""
        return self.heap.pop()

    def start_attempt(self, pod: QueuedPodInfo) -> bool:
        """Count an attempt and mark the pod as in flight. False, and nothing else, if its UID is in flight already."""
        if not self.in_flight.start(pod.info):
            return False
        pod.attempts += 1
        self.scheduling_cycle += 1
        return True
