"""Keys that wait for their time, and their order when several are due at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.cluster.delay_heap import DelayHeap


def drained(heap: DelayHeap) -> list[str]:
    keys = []
    while heap.next_at is not None:
        keys.append(heap.pop())
    return keys


def test_ties_come_in_the_order_of_go_s_heap() -> None:
    """The moves of a real client-go queue with three CronJobs: the key that came back last is behind its equal."""
    heap = DelayHeap()
    for key, when in (("cron3", 300), ("cron1", 240), ("cron2", 240)):
        heap.push(key, when)
    heap.push("cron1", 170)
    assert heap.pop() == "cron1"
    heap.push("cron1", 240)
    assert drained(heap) == ["cron2", "cron1", "cron3"]


def test_last_key_takes_the_place_of_the_first() -> None:
    """Four equal keys: container/heap moves the last one to the top when the first is taken."""
    heap = DelayHeap()
    for key in "abcd":
        heap.push(key, 1)
    assert drained(heap) == ["a", "d", "c", "b"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9))))
def test_each_key_waits_once_until_its_earliest_time(wishes: list[tuple[str, int]]) -> None:
    """Whatever the order of the wishes."""
    heap = DelayHeap()
    earliest: dict[str, int] = {}
    for key, when in wishes:
        heap.push(key, when)
        earliest[key] = min(when, earliest.get(key, when))
    times = []
    while heap.next_at is not None:
        times.append((heap.next_at, heap.pop()))
    assert [when for when, _ in times] == sorted(earliest.values())
    assert {key: when for when, key in times} == earliest
