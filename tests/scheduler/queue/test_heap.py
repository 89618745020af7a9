"""The heap: order, index, and ties that come out as Go's container/heap gives them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.queue_support import priority_sort, queued
from stowplan_scheduler.queue.heap import PodHeap
from stowplan_scheduler.queue.queued_pod import QueuedPodInfo


class GoHeap:
    """container/heap of Go over (key, name), as its documentation describes it: swaps, index by search."""

    def __init__(self) -> None:
        self.items: list[tuple[tuple[int, ...], str]] = []

    def _less(self, i: int, j: int) -> bool:
        return self.items[i][0] < self.items[j][0]

    def _swap(self, i: int, j: int) -> None:
        self.items[i], self.items[j] = self.items[j], self.items[i]

    def _up(self, j: int) -> None:
        while j > 0 and self._less(j, (j - 1) // 2):
            self._swap(j, (j - 1) // 2)
            j = (j - 1) // 2

    def _down(self, start: int, size: int) -> bool:
        i = start
        while 2 * i + 1 < size:
            j = 2 * i + 1
            if j + 1 < size and self._less(j + 1, j):
                j += 1
            if not self._less(j, i):
                break
            self._swap(i, j)
            i = j
        return i > start

    def push(self, key: tuple[int, ...], name: str) -> None:
        names = [n for _, n in self.items]
        if name in names:
            i = names.index(name)
            self.items[i] = (key, name)
            if not self._down(i, len(self.items)):
                self._up(i)
        else:
            self.items.append((key, name))
            self._up(len(self.items) - 1)

    def remove_at(self, i: int) -> str:
        last = len(self.items) - 1
        if i != last:
            self._swap(i, last)
            if not self._down(i, last):
                self._up(i)
        return self.items.pop()[1]

    def remove(self, name: str) -> str | None:
        names = [n for _, n in self.items]
        return self.remove_at(names.index(name)) if name in names else None

    def pop(self) -> str | None:
        return self.remove_at(0) if self.items else None


def names_popped(heap: PodHeap) -> list[str]:
    names = []
    while (pod := heap.pop()) is not None:
        names.append(pod.info.pod.metadata.name)
    return names


def test_pods_of_one_instant_and_priority_leave_as_from_gos_heap() -> None:
    """kube-scheduler 1.37.2 tries seven pods that are created at one instant in this order."""
    heap = PodHeap(priority_sort)
    for i in range(7):
        heap.push(queued(f"p{i}"))
    assert names_popped(heap) == ["p0", "p6", "p5", "p4", "p3", "p2", "p1"]


def test_priority_comes_before_time() -> None:
    """PrioritySort: higher priority first, then the earlier timestamp."""
    heap = PodHeap(priority_sort)
    for name, priority, timestamp in (("a", 0, 1), ("b", 5, 3), ("c", 5, 2), ("d", -1, 0)):
        heap.push(queued(name, timestamp, priority=priority))
    assert names_popped(heap) == ["c", "b", "a", "d"]


def test_pushing_a_pod_again_moves_it_to_its_new_place() -> None:
    """An update of a queued pod fixes its place instead of adding it twice."""
    heap = PodHeap(priority_sort)
    pods = [queued(name, timestamp) for timestamp, name in enumerate("abc")]
    for pod in pods:
        heap.push(pod)
    pods[2].timestamp = -1
    heap.push(pods[2])
    assert len(heap) == 3
    assert names_popped(heap) == ["c", "a", "b"]


def test_a_removed_pod_is_gone_and_an_unknown_one_is_none() -> None:
    """remove answers what it took; the index forgets it."""
    heap = PodHeap(priority_sort)
    pod = queued("a")
    heap.push(pod)
    assert heap.remove("ns/other") is None
    assert heap.remove("ns/a") is pod
    assert "ns/a" not in heap
    assert heap.peek() is None


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["push", "push", "push", "pop", "remove"]), st.integers(0, 12), st.integers(0, 3)),
    max_size=60,
)


@given(OPERATIONS)
def test_any_history_leaves_the_heap_as_gos_would_be(operations: list[tuple[str, int, int]]) -> None:
    """Few different keys make many ties, whose order only the algorithm decides."""
    heap, model = PodHeap(lambda pod: (pod.timestamp,)), GoHeap()
    pods: dict[str, QueuedPodInfo] = {}
    for operation, number, timestamp in operations:
        name = f"p{number}"
        if operation == "push":
            pod = pods.setdefault(name, queued(name))
            pod.timestamp = timestamp
            heap.push(pod)
            model.push((timestamp,), name)
        else:
            taken = heap.pop() if operation == "pop" else heap.remove(f"ns/{name}")
            assert (taken.info.pod.metadata.name if taken else None) == (
                model.pop() if operation == "pop" else model.remove(name)
            )
        assert heap.problems() == []
        assert [pod.info.pod.metadata.name for pod in heap] == [name for _, name in model.items]
