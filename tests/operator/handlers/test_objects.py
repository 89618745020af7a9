"""What the operator knows of its objects, whoever told it last, and in whatever order."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from stowplan_operator.handlers.names import PROFILE
from stowplan_operator.handlers.objects import Objects
from stowplan_operator.handlers.work_queue import Sighting, WorkQueue


def seen(name: str, version: int, uid: str = "u1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


def versions(objects: Objects) -> dict[str, str]:
    """The UIDs by name."""
    return {each.name: each.uid for each in objects.of(PROFILE)}


def test_an_older_version_never_replaces_a_newer_one() -> None:
    objects = Objects()
    assert objects.seen(PROFILE, seen("a", 5))
    assert not objects.seen(PROFILE, seen("a", 4))
    assert not objects.seen(PROFILE, seen("a", 5))
    assert objects.seen(PROFILE, seen("a", 6))
    assert not objects.seen(PROFILE, seen("a", 3, "u0"))
    assert versions(objects) == {"a": "u1"}


def test_the_end_of_an_object_does_not_take_its_successor_along() -> None:
    objects = Objects()
    objects.seen(PROFILE, seen("a", 9, "u2"))
    assert not objects.gone(PROFILE, "a", "u1")
    assert versions(objects) == {"a": "u2"}
    assert objects.gone(PROFILE, "a", "u2")
    assert not objects.gone(PROFILE, "a", "u2")
    assert versions(objects) == {}


def test_a_list_removes_what_is_not_in_it_unless_that_is_newer_than_the_list() -> None:
    objects = Objects()
    objects.seen(PROFILE, seen("gone", 3))
    objects.seen(PROFILE, seen("stays", 4))
    objects.seen(PROFILE, seen("new", 12))
    assert objects.replaced(PROFILE, [seen("stays", 4), seen("found", 8)], "10")
    assert set(versions(objects)) == {"stays", "new", "found"}
    assert not objects.replaced(PROFILE, [seen("stays", 4), seen("found", 8)], "10")


def test_the_queue_keeps_the_newest_state_of_each_object_in_order_of_their_first() -> None:
    async def main() -> list[tuple[str, bool]]:
        queue = WorkQueue()

        def offer() -> None:
            queue.offer(Sighting(PROFILE, seen("a", 1, "u1"), is_gone=False))
            queue.offer(Sighting(PROFILE, seen("b", 2, "u2"), is_gone=False))
            # Its successor first, then its end: kopf gives no order between the two.
            queue.offer(Sighting(PROFILE, seen("a", 5, "u3"), is_gone=False))
            queue.offer(Sighting(PROFILE, seen("a", 4, "u1"), is_gone=True))

        thread = threading.Thread(target=offer)
        thread.start()
        await asyncio.wait_for(queue.wait(), 10)
        thread.join()
        return [(each.value["metadata"]["uid"], each.is_gone) for each in queue.take()]

    assert asyncio.run(main()) == [("u1", True), ("u2", False), ("u3", False)]


def test_a_closed_queue_takes_nothing_and_lets_no_thread_fail() -> None:
    async def main() -> WorkQueue:
        queue = WorkQueue()
        queue.offer(Sighting(PROFILE, seen("a", 1), is_gone=False))
        queue.close()
        return queue

    queue = asyncio.run(main())
    # The loop has ended: an offer that reached it would raise.
    queue.offer(Sighting(PROFILE, seen("a", 2), is_gone=False))
    assert queue.take() == []
