"""Which events a pod in flight is told about, and when the log forgets."""

from __future__ import annotations

from scheduler.queue.queue_support import make_info
from stowplan_scheduler.framework.cluster_event import ASSIGNED_POD_ADD, NODE_ADD, NODE_DELETE
from stowplan_scheduler.queue.in_flight import InFlight


def missed(log: InFlight, uid: str) -> list[str] | None:
    events = log.missed(uid)
    return None if events is None else [event.event.label for event in events]


def logged(log: InFlight) -> list[str]:
    return [event.event.label for event in log.events]


def test_without_a_pod_in_flight_nothing_is_logged() -> None:
    """Nobody would ever need the event, and the log would grow for ever."""
    log = InFlight()
    log.log(NODE_ADD, None, None)
    assert logged(log) == []


def test_a_pod_hears_what_came_after_its_pop() -> None:
    """Two pods in flight see different tails of one log."""
    log = InFlight()
    log.start(make_info("a"))
    log.log(NODE_ADD, None, None)
    log.start(make_info("b"))
    log.log(NODE_DELETE, None, None)
    assert missed(log, "uid-a") == ["NodeAdd", "NodeDelete"]
    assert missed(log, "uid-b") == ["NodeDelete"]
    assert missed(log, "uid-c") is None
    assert log.problems() == []


def test_done_of_the_oldest_prunes_up_to_the_next_pod() -> None:
    """Events before the oldest pod in flight are needed by nobody."""
    log = InFlight()
    for name, event in (("a", NODE_ADD), ("b", NODE_DELETE), ("c", ASSIGNED_POD_ADD)):
        log.start(make_info(name))
        log.log(event, None, None)
    log.done("uid-b")
    assert logged(log) == ["NodeAdd", "NodeDelete", "AssignedPodAdd"]
    log.done("uid-a")
    assert logged(log) == ["AssignedPodAdd"]
    log.done("uid-c")
    assert logged(log) == []
    assert log.problems() == []


def test_done_may_be_called_again() -> None:
    """Every exit path calls it; some paths meet."""
    log = InFlight()
    log.start(make_info("a"))
    log.done("uid-a")
    log.done("uid-a")
    assert len(log) == 0


def test_a_second_start_of_the_same_uid_is_refused() -> None:
    """It would hide events from the first attempt."""
    log = InFlight()
    assert log.start(make_info("a"))
    log.log(NODE_ADD, None, None)
    assert not log.start(make_info("a"))
    assert missed(log, "uid-a") == ["NodeAdd"]
