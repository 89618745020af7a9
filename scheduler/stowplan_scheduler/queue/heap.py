"""A binary heap of pods with a key index, exactly as Go's container/heap arranges it.

Pods whose sort keys are equal leave a heap in an order that depends on the algorithm. Upstream's is observable: seven
pods that are created at one instant are tried first, last, last but one, and so on down to the second. Python's heapq
breaks such ties in another way, so the sifting is done here.

Follows pkg/scheduler/backend/heap of Kubernetes v1.37.2 and container/heap of Go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .queued_pod import QueuedPodInfo

SortKey = tuple[int, ...]
"""What a heap compares; the smallest comes first."""


class PodHeap:
    """Pods by key, the least sort key first. A pod may be in one heap at a time: it holds its own position."""

    __slots__ = ("_by_key", "_keys", "_sort_key", "pods")

    def __init__(self, sort_key: Callable[[QueuedPodInfo], SortKey]) -> None:
        """`sort_key` is asked once per push; push a pod again after a change of what it reads."""
        self._sort_key = sort_key
        self._keys: list[SortKey] = []
        self.pods: list[QueuedPodInfo] = []
        """In heap order: the first one is the head, the rest is not sorted. To look at only."""
        self._by_key: dict[str, QueuedPodInfo] = {}

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods in heap order: the first one is the head, the rest is not sorted."""
        return iter(self.pods)

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod with this key."""
        return self._by_key.get(key)

    def peek(self) -> QueuedPodInfo | None:
        """The head, which stays."""
        return self.pods[0] if self.pods else None

    def sorted(self) -> tuple[QueuedPodInfo, ...]:
        """All pods, least sort key first, ties by key. For reports; costs O(n log n)."""
        return tuple(sorted(self.pods, key=lambda pod: (self._keys[pod.heap_position], pod.key)))

    def resorted(self, sort_key: Callable[[QueuedPodInfo], SortKey]) -> PodHeap:
        """A heap of these pods in another order; this one must not be used any more."""
        heap = PodHeap(sort_key)
        for pod in self.sorted():
            heap.push(pod)
        return heap

    def push(self, pod: QueuedPodInfo) -> None:
        """Add a pod, or put one that is here already in its new place. O(log n)."""
        sort_key = self._sort_key(pod)
        if pod.key in self._by_key:
            self._settle(pod.heap_position, sort_key, pod)
            return
        self._by_key[pod.key] = pod
        self._keys.append(sort_key)
        self.pods.append(pod)
        self._up(len(self.pods) - 1, sort_key, pod)

    def pop(self) -> QueuedPodInfo | None:
        """Take the head. O(log n)."""
        return self._take(0) if self.pods else None

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod with this key, if it is here. O(log n)."""
        pod = self._by_key.get(key)
        return None if pod is None else self._take(pod.heap_position)

    def _take(self, index: int) -> QueuedPodInfo:
        taken = self.pods[index]
        del self._by_key[taken.key]
        taken.heap_position = -1
        last_key, last = self._keys.pop(), self.pods.pop()
        if index < len(self.pods):
            self._settle(index, last_key, last)
        return taken

    def _settle(self, index: int, sort_key: SortKey, pod: QueuedPodInfo) -> None:
        """Put a pod into the hole at `index` and restore the order (container/heap, Fix and Remove)."""
        if not self._down(index, sort_key, pod):
            self._up(index, sort_key, pod)

    def _up(self, index: int, sort_key: SortKey, pod: QueuedPodInfo) -> None:
        keys, pods = self._keys, self.pods
        while index:
            parent = (index - 1) >> 1
            if not sort_key < keys[parent]:
                break
            keys[index] = keys[parent]
            moved = pods[index] = pods[parent]
            moved.heap_position = index
            index = parent
        keys[index] = sort_key
        pods[index] = pod
        pod.heap_position = index

    def _down(self, start: int, sort_key: SortKey, pod: QueuedPodInfo) -> bool:
        """Let the pod sink from `start`; whether it sank. It stays above children that are its equals."""
        keys, pods = self._keys, self.pods
        size = len(pods)
        index = start
        child = 2 * index + 1
        while child < size:
            least = keys[child]
            right = child + 1
            if right < size and keys[right] < least:
                child, least = right, keys[right]
            if not least < sort_key:
                break
            keys[index] = least
            moved = pods[index] = pods[child]
            moved.heap_position = index
            index = child
            child = 2 * index + 1
        keys[index] = sort_key
        pods[index] = pod
        pod.heap_position = index
        return index > start

    def problems(self) -> list[str]:
        """What is wrong with the heap: order, positions, index. Empty if nothing is."""
        found = [
            f"{pod.key} stands before its parent"
            for i, pod in enumerate(self.pods)
            if i and self._keys[i] < self._keys[(i - 1) >> 1]
        ]
        found += [f"{pod.key} has a wrong position" for i, pod in enumerate(self.pods) if pod.heap_position != i]
        found += [f"{pod.key} has a stale sort key" for pod in self.pods if self._sort_key(pod) != self._key_of(pod)]
        if {pod.key: pod for pod in self.pods} != self._by_key:
            found.append("the index does not name the pods")
        return found

    def _key_of(self, pod: QueuedPodInfo) -> SortKey:
        return self._keys[pod.heap_position]
