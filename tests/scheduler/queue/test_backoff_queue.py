"""How long a pod backs off, when it leaves, and in which order."""

from __future__ import annotations

import pytest

from scheduler.queue.queue_support import priority_sort, queued, seconds
from stowplan_scheduler.queue.backoff_queue import BackoffQueue, backoff_duration, floor_to_second


def make_queue(initial: float = 1, maximum: float = 10) -> BackoffQueue:
    return BackoffQueue(priority_sort, seconds(initial), seconds(maximum))


def test_the_backoff_doubles_up_to_the_maximum() -> None:
    """Initial 1 s, maximum 10 s: 1, 2, 4, 8, 10, 10."""
    assert [backoff_duration(count, seconds(1), seconds(10)) for count in range(8)] == [
        seconds(s) for s in (0, 1, 2, 4, 8, 10, 10, 10)
    ]


def test_a_thousand_failures_do_not_overflow() -> None:
    """Upstream compares before it shifts, so the shift never leaves the range."""
    assert backoff_duration(1000, seconds(1), seconds(10)) == seconds(10)


def test_an_initial_backoff_above_the_maximum_is_the_maximum() -> None:
    """initial > max >> 0."""
    assert backoff_duration(1, seconds(20), seconds(10)) == seconds(10)


@pytest.mark.parametrize(
    ("unschedulable", "errors", "expiry"),
    [(0, 0, None), (1, 0, 101), (2, 0, 102), (4, 0, 108), (4, 1, 101), (0, 3, 104), (9, 0, 110)],
)
def test_errors_in_a_row_count_before_rejections(unschedulable: int, errors: int, expiry: int | None) -> None:
    """A failure at 100.4 s; the expiry is cut to the second. A pod that never failed does not back off."""
    pod = queued(timestamp=seconds(100.4))
    pod.unschedulable_count, pod.consecutive_errors_count = unschedulable, errors
    assert make_queue().expiry(pod) == (None if expiry is None else seconds(expiry))


@pytest.mark.parametrize(
    ("now", "backing_off"), [(100.4, True), (101.0, True), (101.999, True), (102.0, False), (102.3, False)]
)
def test_a_failure_at_100_4_with_one_second_leaves_backoff_at_102(now: float, backing_off: bool) -> None:
    """Expiry 101; the whole second 101 still counts, so the effective delay is 1.6 s."""
    pod = queued(timestamp=seconds(100.4), rejectors=["Fit"])
    pod.unschedulable_count = 1
    queue = make_queue()
    queue.add(pod)
    assert queue.next_completion() == seconds(102)
    assert queue.is_backing_off(pod, seconds(now)) is backing_off
    assert queue.pop_completed(seconds(now)) == ([] if backing_off else [pod])


def test_a_maximum_of_zero_switches_backoff_off() -> None:
    """Only reachable through the programming interface, as upstream."""
    pod = queued(timestamp=seconds(100))
    pod.unschedulable_count = 5
    assert make_queue(maximum=0).expiry(pod) is None


def test_the_expiry_is_kept_until_the_next_failure() -> None:
    """Upstream caches it; a changed counter alone does not move it."""
    pod = queued(timestamp=seconds(1))
    pod.unschedulable_count = 1
    queue = make_queue()
    assert queue.expiry(pod) == seconds(2)
    pod.unschedulable_count = 4
    assert queue.expiry(pod) == seconds(2)
    pod.backoff_expiration = None
    assert queue.expiry(pod) == seconds(9)


def test_pods_of_one_second_leave_by_priority() -> None:
    """Expiries are whole seconds, so that priority decides within one."""
    queue = make_queue()
    for name, timestamp, priority in (("low", 5.1, 0), ("high", 5.9, 10), ("early", 4.9, 0)):
        pod = queued(name, seconds(timestamp), priority=priority, rejectors=["Fit"])
        pod.unschedulable_count = 1
        queue.add(pod)
    popped = [queue.pop_rejected() for _ in range(3)]
    assert [pod.info.pod.metadata.name for pod in popped if pod] == ["early", "high", "low"]


def test_a_pod_after_an_error_is_never_popped_early() -> None:
    """SchedulerPopFromBackoffQ takes from the heap of rejected pods alone."""
    queue = make_queue()
    pod = queued(timestamp=0)
    pod.consecutive_errors_count = 1
    queue.add(pod)
    assert queue.pop_rejected() is None
    assert queue.pop_completed(seconds(1.5)) == []
    assert queue.pop_completed(seconds(2)) == [pod]


def test_rejected_pods_complete_before_pods_after_an_error() -> None:
    """Both heaps are flushed, in this order."""
    queue = make_queue()
    after_error, rejected = queued("error", 0), queued("rejected", 5, rejectors=["Fit"])
    after_error.consecutive_errors_count = rejected.unschedulable_count = 1
    queue.add(after_error)
    queue.add(rejected)
    assert queue.pop_completed(seconds(2)) == [rejected, after_error]


@pytest.mark.parametrize(("instant", "floor"), [(0.0, 0), (1.999, 1), (2.0, 2), (-0.5, -1)])
def test_floor_to_second(instant: float, floor: int) -> None:
    """Times before the start of a simulation are negative and round down, too."""
    assert floor_to_second(seconds(instant)) == seconds(floor)
