"""Pods that wait for the end of their back-off.

There are two heaps. Pods that plugins rejected may be popped early by an idle scheduler (SchedulerPopFromBackoffQ);
pods that came back after an error truly wait. Expiries are whole seconds, so that pods of one second leave together and
are ordered by the queue sort within it.

Follows pkg/scheduler/backend/queue/backoff_queue.go of Kubernetes v1.37.2 for pods; the gate is on.
"""

from __future__ import annotations

from collections.abc import Callable

from .heap import PodHeap, SortKey
from .queued_pod import SECOND, QueuedPodInfo


def floor_to_second(instant: int) -> int:
    """The whole second at or before an instant, in nanoseconds."""
    return instant - instant % SECOND


def earlier(one: int | None, other: int | None) -> int | None:
    """The first of two instants, of which either may be none."""
    if one is None or (other is not None and other < one):
        return other
    return one


def backoff_duration(count: int, initial: int, maximum: int) -> int:
    """How long a pod backs off after `count` failures in a row, in the unit of `initial`: doubling up to `maximum`."""
    if count == 0:
        return 0
    shift = count - 1
    return maximum if initial > maximum >> shift else initial << shift


class BackoffQueue:
    """The two heaps. Durations are nanoseconds; a maximum of 0 switches back-off off."""

    __slots__ = ("_after_error", "_initial", "_maximum", "_rejected", "_sort_key")

    def __init__(self, sort_key: Callable[[QueuedPodInfo], SortKey], initial: int, maximum: int) -> None:
        """`sort_key` orders the pods of one second, as in the active queue."""
        self._sort_key = sort_key
        self._initial = initial
        self._maximum = maximum
        self._rejected = PodHeap(self._order_of_rejected)
        self._after_error = PodHeap(self._order_after_error)

    def sort_by(self, sort_key: Callable[[QueuedPodInfo], SortKey]) -> None:
        """Have another order within each second."""
        self._sort_key = sort_key
        self._rejected = self._rejected.resorted(self._order_of_rejected)

    def set_durations(self, initial: int, maximum: int) -> None:
        """Other durations from now on. Back-offs that have begun end when they were to: pods know it since `add`."""
        self._initial = initial
        self._maximum = maximum

    def __len__(self) -> int:
        return len(self._rejected) + len(self._after_error)

    def __bool__(self) -> bool:
        """Whether any pod backs off; asked with every event."""
        return bool(self._rejected.pods or self._after_error.pods)

    def __contains__(self, key: str) -> bool:
        return key in self._rejected or key in self._after_error

    @property
    def rejected(self) -> PodHeap:
        """Pods that plugins rejected. To look at only."""
        return self._rejected

    @property
    def after_error(self) -> PodHeap:
        """Pods that came back after an error. To look at only."""
        return self._after_error

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod with this key."""
        return self._rejected.get(key) or self._after_error.get(key)

    def expiry(self, pod: QueuedPodInfo) -> int | None:
        """The whole second in which the back-off ends; None for a pod that need not back off."""
        count = pod.consecutive_errors_count or pod.unschedulable_count
        if self._maximum == 0 or count == 0:
            return None
        if pod.backoff_expiration is None:
            duration = backoff_duration(count, self._initial, self._maximum)
            pod.backoff_expiration = floor_to_second(pod.timestamp + duration)
        return pod.backoff_expiration

    def is_backing_off(self, pod: QueuedPodInfo, now: int) -> bool:
        """Whether the back-off lasts; it does until the second of its expiry is over."""
        expiry = self.expiry(pod)
        return expiry is not None and expiry >= floor_to_second(now)

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a pod that is backing off, by what sent it back."""
        (self._rejected if pod.rejectors else self._after_error).push(pod)

    def reorder(self, pod: QueuedPodInfo) -> None:
        """Put a pod that is here in its place again, after its object changed."""
        (self._rejected if pod.key in self._rejected else self._after_error).push(pod)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod with this key, if it is here."""
        return self._rejected.remove(key) or self._after_error.remove(key)

    def pop_rejected(self) -> QueuedPodInfo | None:
        """Take the pod that ends its back-off next, whenever that is; never one that came back after an error."""
        return self._rejected.pop()

    def pop_completed(self, now: int) -> list[QueuedPodInfo]:
        """Take every pod whose back-off is over: rejected ones first, then those that came back after an error."""
        completed: list[QueuedPodInfo] = []
        for heap in (self._rejected, self._after_error):
            while (head := heap.peek()) is not None and not self.is_backing_off(head, now):
                heap.pop()
                completed.append(head)
        return completed

    def next_completion(self) -> int | None:
        """The first whole second at which `pop_completed` finds something."""
        rejected, failed = self._rejected.peek(), self._after_error.peek()
        return earlier(
            None if rejected is None else self._expiry_or_past(rejected) + SECOND,
            None if failed is None else self._expiry_or_past(failed) + SECOND,
        )

    def _expiry_or_past(self, pod: QueuedPodInfo) -> int:
        expiry = self.expiry(pod)
        return pod.timestamp if expiry is None else expiry

    def _order_of_rejected(self, pod: QueuedPodInfo) -> SortKey:
        return (self._expiry_or_past(pod), *self._sort_key(pod))

    def _order_after_error(self, pod: QueuedPodInfo) -> SortKey:
        return (self._expiry_or_past(pod),)
