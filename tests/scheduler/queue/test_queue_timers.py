"""The two periodic flushes, and the next instant at which one of them has something to do."""

from __future__ import annotations

import pytest

from scheduler.queue.queue_support import GATE_EVENT, Harness, make_info, seconds
from stowplan_scheduler.framework.cluster_event import NODE_ADD


def test_a_pod_leaves_the_backoff_at_the_second_after_its_expiry() -> None:
    """An error at 100.4 s: expiry 101, active at 102."""
    harness = Harness()
    info = harness.add(make_info(), at=100.4)
    harness.fail(harness.pop(), 100.4)
    assert harness.queue.next_timer(seconds(100.4)) == seconds(102)
    harness.queue.run_timers(seconds(101))
    assert harness.place(info) == "backoff"
    harness.queue.run_timers(seconds(102))
    assert harness.place(info) == "active"
    assert harness.queue.next_timer(seconds(102)) is None


@pytest.mark.parametrize(("rejected_at", "woken_at"), [(0, 330), (0.5, 330), (29.9, 330), (30, 360), (30.001, 360)])
def test_a_pod_is_woken_at_the_first_tick_after_five_minutes(rejected_at: float, woken_at: float) -> None:
    """Every 30 s; exactly 300 s are not longer than 300 s."""
    harness = Harness()
    info = harness.rejected("p", "Deaf", at=rejected_at)
    assert harness.queue.next_timer(seconds(rejected_at)) == seconds(woken_at)
    harness.queue.run_timers(seconds(woken_at - 30))
    assert harness.place(info) == "unschedulable"
    harness.queue.run_timers(seconds(woken_at))
    assert harness.place(info) == "active"
    assert harness.queue.incoming["active", "UnschedulableTimeout"] == 1


def test_ticks_count_from_the_start_of_the_queue() -> None:
    """Started at 12 s: ticks at 12, 42, 72, ... A pod of second 20 is woken at 342."""
    harness = Harness(start=12)
    harness.rejected("p", "Deaf", at=20)
    assert harness.queue.next_timer(seconds(20)) == seconds(342)


def test_run_timers_between_two_ticks_wakes_nobody_early() -> None:
    """The flush of waiting pods runs at its own ticks, also when the back-off flush is due in between."""
    harness = Harness()
    info = harness.rejected("p", "Deaf", at=0)
    for second in range(300, 330):
        harness.queue.run_timers(seconds(second))
        assert harness.place(info) == "unschedulable"
    harness.queue.run_timers(seconds(330))
    assert harness.place(info) == "active"


def test_run_timers_after_a_tick_wakes_only_who_was_due_at_the_tick() -> None:
    """At 330 nobody is due, so nobody calls. A back-off ends at 345: the pod of second 40 has waited 305 s by then, but
    the next tick is 360. The real scheduler tried such a pod at 660, not at 638.
    """
    harness = Harness()
    info = harness.rejected("p", "Deaf", at=40)
    harness.queue.run_timers(seconds(300))
    harness.queue.run_timers(seconds(345))
    assert harness.place(info) == "unschedulable"
    assert harness.queue.next_timer(seconds(345)) == seconds(360)
    harness.queue.run_timers(seconds(360))
    assert harness.place(info) == "active"


def test_a_caller_that_is_late_runs_the_flush_at_once() -> None:
    """A live worker may be late; then the timer is overdue, which `now` says."""
    harness = Harness()
    info = harness.rejected("p", "Deaf", at=0)
    assert harness.queue.next_timer(seconds(400)) == seconds(400)
    harness.queue.run_timers(seconds(400))
    assert harness.place(info) == "active"


def test_a_flushed_pod_says_so_until_its_next_failure() -> None:
    """pod_scheduled_after_flush_total counts the pods that carry the mark when they are bound."""
    harness = Harness()
    harness.rejected("p", "Deaf", at=0)
    harness.queue.run_timers(seconds(330))
    pod = harness.pop(330)
    marks = [(pod.was_flushed_from_unschedulable, pod.flush_timestamp)]
    harness.fail(pod, 331, ["Deaf"])
    marks.append((pod.was_flushed_from_unschedulable, pod.flush_timestamp))
    assert marks == [(True, seconds(330)), (False, None)]


def test_a_gated_pod_is_looked_at_again_only_five_minutes_after_the_last_flush() -> None:
    """Since 1.37 the time of the flush counts, not only when the pod was added. 330 + 300 is not longer: 660."""
    harness = Harness()
    harness.gated.add("p")
    info = harness.add(make_info(), at=0)
    looked_at = []
    for tick in range(0, 1000, 30):
        before = len(harness.pre_enqueue_calls)
        harness.queue.run_timers(seconds(tick))
        harness.queue.check_invariants()
        if len(harness.pre_enqueue_calls) > before:
            looked_at.append(tick)
    assert looked_at == [330, 660, 990]
    assert harness.place(info) == "gated"
    pod = harness.queue.find("ns/p")
    assert pod is not None
    assert not pod.was_flushed_from_unschedulable
    harness.gated.clear()
    harness.event(GATE_EVENT, at=995)
    assert not harness.pop(995).was_flushed_from_unschedulable


def test_a_timeout_is_replayed_for_pods_in_flight() -> None:
    """It is an event like any other, once somebody was woken by it."""
    harness = Harness()
    harness.rejected("parked", "Deaf", at=0)
    harness.add(make_info("flying"), at=329)
    flying = harness.pop(329)
    harness.queue.run_timers(seconds(330))
    assert harness.fail(flying, 330, ["Deaf"]) == "backoff"


def test_with_nobody_to_wake_the_flush_leaves_no_event() -> None:
    """Upstream sends the event only with pods to move."""
    harness = Harness()
    harness.add(make_info())
    harness.pop()
    harness.queue.run_timers(seconds(900))
    assert harness.queue.in_flight_events() == {}


def test_an_empty_queue_needs_no_timer() -> None:
    """The caller may sleep until something happens."""
    harness = Harness()
    harness.add(make_info())
    assert harness.queue.next_timer(0) is None


def test_the_earlier_of_the_two_flushes_is_named() -> None:
    """A pod backing off until 2 s, another that waits until 330 s."""
    harness = Harness()
    harness.rejected("parked", "Deaf", at=0)
    harness.rejected("waiting", "Fit", at=0)
    harness.event(NODE_ADD, at=0)
    assert harness.queue.next_timer(0) == seconds(2)
    harness.queue.run_timers(seconds(2))
    assert harness.queue.next_timer(seconds(2)) == seconds(330)


def test_times_before_the_start_are_negative_and_count() -> None:
    """Pods that exist before a simulation starts: rejected at -10 s, so longer than 300 s at 300 s already."""
    harness = Harness()
    harness.rejected("p", "Deaf", at=-10)
    assert harness.queue.next_timer(0) == seconds(300)
