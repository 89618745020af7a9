"""When autoscalers are synced."""

from __future__ import annotations

from autoscaling.hpa.builders import SECOND
from stowplan_autoscaling.hpa import SyncQueue


def run(
    queue: SyncQueue, until: int, changes: dict[int, str] | None = None, slow: dict[int, int] | None = None
) -> list[tuple[float, str]]:
    """(seconds, key) of all syncs; `changes`: new generations at a time; `slow`: milliseconds that a sync takes."""
    pending, duration = dict(changes or {}), dict(slow or {})
    now = 0
    found: list[tuple[float, str]] = []
    while True:
        due = queue.next_at(now)
        if pending and (due is None or min(pending) * SECOND < due):
            now = min(pending) * SECOND
            queue.add(pending.pop(min(pending)))
            continue
        if due is None or due > until * SECOND:
            return found
        now = max(now, due)
        key = queue.take(now)
        if key is not None:
            found.append((now / SECOND, key))
            now += duration.pop(round(now / SECOND), 0) * 10**6
            queue.done(key, now)


def test_a_sync_follows_every_period() -> None:
    """From the moment at which the autoscaler appears."""
    queue = SyncQueue(15 * SECOND)
    queue.add("a")
    assert run(queue, 45) == [(0, "a"), (15, "a"), (30, "a"), (45, "a")]


def test_a_changed_spec_is_an_extra_sync() -> None:
    """The one that was planned takes place as well, so the phase stays."""
    queue = SyncQueue(15 * SECOND)
    queue.add("a")
    assert [t for t, _ in run(queue, 30, changes={7: "a"})] == [0, 7, 15, 30]


def test_a_sync_that_takes_time_shifts_the_next() -> None:
    """The period begins when it ends."""
    queue = SyncQueue(15 * SECOND)
    queue.add("a")
    assert [t for t, _ in run(queue, 31, slow={15: 500})] == [0, 15, 30.5]


def test_a_resync_during_a_sync_begins_the_period() -> None:
    """Any other resync finds the key promised earlier than it would promise."""
    queue = SyncQueue(15 * SECOND)
    queue.add("a")
    assert queue.take(0) == "a"
    queue.resync(0)
    queue.done("a", SECOND)
    queue.resync(5 * SECOND)
    assert queue.next_at(SECOND) == 15 * SECOND


def test_keys_that_are_due_together_are_a_batch_in_order() -> None:
    """A key that is added twice is in it once."""
    queue = SyncQueue(15 * SECOND)
    for key in ("b", "a", "b", "c"):
        queue.add(key)
    assert queue.take_all(0) == ["b", "a", "c"]
    for key in ("c", "a", "b"):
        queue.done(key, 0)
    assert queue.take_all(14 * SECOND) == []
    assert queue.take_all(15 * SECOND) == ["c", "a", "b"]


def test_a_key_that_is_added_while_processed_is_ready_afterwards() -> None:
    """The change may have come too late for the sync that is running."""
    queue = SyncQueue(15 * SECOND)
    queue.add("a")
    queue.take(0)
    queue.add("a")
    assert queue.take(0) is None
    queue.done("a", 0)
    assert queue.take(0) == "a"


def test_a_forgotten_key_does_not_come_back() -> None:
    """Neither from the ready ones nor from those that wait."""
    queue = SyncQueue(15 * SECOND)
    queue.add("a")
    queue.add_rate_limited("b", 0)
    queue.forget("a")
    queue.forget("b")
    assert queue.next_at(0) is None
