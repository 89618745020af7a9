"""Binds: what is asked, what each answer leads to, and that nothing is bound twice or lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stowplan_operator.worker.requests import NOT_SENT, UNKNOWN, BindPod, EmitEvent, PatchPod, ReadPod, Request
from stowplan_operator.worker.retries import MAX_TRIES
from stowplan_scheduler.objects import Pod
from support.machines import MILLISECOND, SECOND, Desk, of, settings, small, the, waiting

TAKEN = 'Operation cannot be fulfilled on pods/binding "p1": pod p1 is already assigned to node "n2"'


def asked(desk: Desk) -> BindPod:
    """The bind of the one pod of `desk`."""
    return the(BindPod, desk.tick())


def on(pod: Pod, node: str) -> Pod:
    """The pod as a read shows it, bound."""
    spec = replace(pod.spec, node_name=node)
    return replace(pod, spec=spec, metadata=replace(pod.metadata, resource_version="99"))


def read_back(desk: Desk, bind: BindPod, status: int) -> ReadPod:
    """What a bind that was answered so leads to."""
    return the(ReadPod, desk.answer(bind, status, TAKEN))


def test_a_pod_that_fits_is_bound_with_its_uid_and_the_epoch_of_the_lease() -> None:
    desk = Desk(small(), waiting())
    assert asked(desk) == BindPod(id=1, key="default/p1", uid="default/p1", node="n1", epoch=1)
    assert desk.story("p1") == ["seen", "assumed", "asked"]


def test_success_is_reported_as_an_event_and_once() -> None:
    desk = Desk(small(), waiting())
    bind = asked(desk)
    event = the(EmitEvent, desk.answer(bind, 201))
    assert (event.reason, event.note) == ("Scheduled", "Successfully assigned default/p1 to n1")
    assert event.regarding.uid == "default/p1"
    assert desk.answer(bind, 201) == []
    assert desk.show_bound(bind) == []
    assert desk.story("p1") == ["seen", "assumed", "asked", "answered", "bound", "seen-bound"]


def test_cycles_go_on_while_binds_are_in_flight_and_count_the_room_as_taken() -> None:
    """Two pods of 400m fit a node of one core, three do not: the third must not wait for the answers to know."""
    desk = Desk(small(), *(waiting(f"p{i}") for i in range(3)))
    requests = desk.tick()
    assert [bind.key for bind in of(BindPod, requests)] == ["default/p0", "default/p1"]
    assert desk.machine.pending()["unschedulable"] == 1


def test_no_more_binds_are_in_flight_than_allowed_and_decisions_run_ahead_by_as_many() -> None:
    desk = Desk(small(cpu="8"), *(waiting(f"p{i}") for i in range(6)), given=settings(max_binds=2))
    first = of(BindPod, desk.tick())
    assert [bind.key for bind in first] == ["default/p0", "default/p1"]
    assert desk.machine.binds_under_way == 4, "two in flight, two ready"
    assert desk.machine.wake_at() is None, "nothing to do before an answer"
    assert [bind.key for bind in of(BindPod, desk.answer(first[1]))] == ["default/p2"]
    assert desk.machine.wake_at() == desk.now
    assert of(BindPod, desk.tick()) == []
    assert desk.machine.requests_in_flight == 2


@pytest.mark.parametrize("status", [403, 429, 500, 503, NOT_SENT])
def test_a_refusal_for_the_moment_is_tried_again_with_growing_waits_and_then_given_up(status: int) -> None:
    """The waits are 0.1, 0.2, 0.4, 0.8 and 1.6 s; the sixth refusal goes to the scheduler, which backs off itself."""
    desk = Desk(small(), waiting())
    bind = asked(desk)
    waits = []
    requests: list[Request] = []
    for _ in range(MAX_TRIES - 1):
        assert desk.answer(bind, status, "not now") == []
        due = desk.machine.wake_at()
        assert due is not None
        waits.append((due - desk.now) // MILLISECOND)
        bind = the(BindPod, desk.tick(due - desk.now))
        assert bind.node == "n1", "the same node: its room is still held"
    assert waits == [100, 200, 400, 800, 1600]
    requests = desk.answer(bind, status, "not now")
    assert the(EmitEvent, requests).note == 'running Bind plugin "DefaultBinder": not now'
    assert the(PatchPod, requests).condition is not None
    assert desk.machine.binds_under_way == 0
    assert desk.machine.pending()["backoff"] == 1


def test_the_api_server_may_ask_for_a_longer_wait_but_not_for_any_length() -> None:
    desk = Desk(small(), waiting())
    desk.answer(asked(desk), 429, retry_after=3)
    assert desk.machine.wake_at() == desk.now + 3 * SECOND
    desk = Desk(small(), waiting())
    desk.answer(asked(desk), 429, retry_after=3600)
    assert desk.machine.wake_at() == desk.now + 10 * SECOND


@pytest.mark.parametrize("status", [UNKNOWN, 409])
def test_an_unclear_outcome_is_read_back_and_counts_if_the_pod_is_on_the_node(status: int) -> None:
    desk = Desk(small(), waiting())
    bind = asked(desk)
    read = read_back(desk, bind, status)
    assert read.key == "default/p1"
    event = the(EmitEvent, desk.answer(read, 200, pod=on(waiting(), "n1")))
    assert event.reason == "Scheduled"
    assert desk.machine.binds_under_way == 0


@pytest.mark.parametrize("status", [UNKNOWN, 409])
def test_a_pod_that_turns_out_to_be_unbound_is_bound_to_the_same_node_again(status: int) -> None:
    """The first request may still be on its way: where it lands, room is held."""
    desk = Desk(small(), small("n2"), waiting())
    bind = asked(desk)
    assert desk.answer(read_back(desk, bind, status), 200, pod=waiting()) == []
    again = the(BindPod, desk.tick(100 * MILLISECOND))
    assert again.node == bind.node


def test_a_pod_that_another_scheduler_took_is_left_to_it_at_once_though_the_watch_lags() -> None:
    """Not even a condition is written: PodScheduled=False would stay on a bound pod."""
    desk = Desk(small(), small("n2"), waiting())
    bind = asked(desk)
    other = "n2" if bind.node == "n1" else "n1"
    requests = desk.answer(read_back(desk, bind, 409), 200, pod=on(waiting(), other))
    assert of(PatchPod, requests) == []
    assert desk.machine.scheduler.cache.get_node(bind.node).pods == []  # type: ignore[union-attr]
    assert len(desk.machine.scheduler.cache.get_node(other).pods) == 1  # type: ignore[union-attr]
    # What the watch still says of before is no news.
    desk.see(waiting())
    assert desk.settle(60 * SECOND) == []
    assert len(desk.machine.scheduler.cache.get_node(other).pods) == 1  # type: ignore[union-attr]


def test_a_pod_that_was_made_anew_under_its_name_is_not_bound_by_the_old_decision() -> None:
    desk = Desk(small(), waiting())
    bind = asked(desk)
    read = read_back(desk, bind, 409)
    desk.lose(waiting())
    desk.see(waiting(uid="second"))
    assert of(ReadPod, desk.answer(read, 200, pod=waiting(uid="second"))) == []
    again = the(BindPod, desk.tick())
    assert again.uid == "second"


@pytest.mark.parametrize("pods", ["absent", "deleted and made anew"])
def test_a_bind_whose_pod_is_gone_ends_there(pods: str) -> None:
    desk = Desk(small(), waiting())
    bind = asked(desk)
    if pods == "absent":
        desk.answer(bind, 404, 'pods "p1" not found')
    else:
        desk.answer(read_back(desk, bind, 409), 404)
    desk.lose(waiting())
    assert desk.settle(60 * SECOND) == []
    assert desk.machine.pending() == {
        "active": 0, "backoff": 0, "unschedulable": 0, "gated": 0, "in_flight": 0, "binding": 0, "held": 0,
    }  # fmt: skip


def test_reads_go_on_until_one_is_answered_for_the_room_must_not_be_given_away() -> None:
    """An API server that is gone for a minute: waits of at most 5 s, no end, and the room stays held."""
    desk = Desk(small(), waiting(cpu="800m"), waiting("p2", cpu="800m"))
    read = read_back(desk, the(BindPod, desk.tick()), UNKNOWN)
    waits = []
    for _ in range(15):
        desk.answer(read, UNKNOWN)
        due = desk.machine.wake_at()
        assert due is not None
        waits.append((due - desk.now) // MILLISECOND)
        read = the(ReadPod, desk.tick(due - desk.now))
    assert waits[:7] == [100, 200, 400, 800, 1600, 3200, 5000]
    assert set(waits[7:]) == {5000}
    assert the(EmitEvent, desk.answer(read, 200, pod=on(waiting(), "n1"))).reason == "Scheduled"


def test_the_watch_settles_a_bind_whose_answer_was_lost() -> None:
    desk = Desk(small(), waiting())
    bind = asked(desk)
    read = read_back(desk, bind, UNKNOWN)
    assert the(EmitEvent, desk.show_bound(bind)).reason == "Scheduled"
    assert desk.machine.binds_under_way == 0
    assert desk.answer(read, 200, pod=on(waiting(), "n1")) == [], "the late answer means nothing"
    assert desk.story("p1")[-2:] == ["bound", "answered"], "but it is told, and forgotten"
    assert not desk.machine._story._asked


def test_a_bind_that_waits_ends_when_its_pod_is_deleted_or_its_node_is_gone() -> None:
    desk = Desk(small(), waiting())
    desk.answer(asked(desk), 503)
    desk.lose(waiting())
    assert desk.machine.binds_under_way == 0
    desk = Desk(small(), waiting())
    desk.answer(asked(desk), 503)
    desk.lose(small())
    requests = desk.tick(100 * MILLISECOND)
    assert of(BindPod, requests) == [], "the API server would bind it to a node that there is not"
    assert the(EmitEvent, requests).note == 'running Bind plugin "DefaultBinder": node "n1" was deleted'
    assert the(PatchPod, requests).condition is not None, "what follows from it leaves with it"


def test_a_bind_waits_for_the_patch_of_the_same_pod() -> None:
    """PodScheduled=False that reaches the API server after the bind would stay on a running pod."""
    desk = Desk(waiting())
    patch = the(PatchPod, desk.tick())
    desk.see(small())
    assert of(BindPod, desk.settle(2 * SECOND)) == []
    assert desk.machine.binds_under_way == 1
    assert the(BindPod, desk.answer(patch, 200)).node == "n1"


def test_a_pod_that_begins_to_terminate_before_its_bind_has_left_is_not_bound() -> None:
    desk = Desk(small(cpu="8"), waiting(), waiting("p2"), given=settings(max_binds=1))
    bind = the(BindPod, desk.tick())
    terminating = replace(
        waiting("p2"), metadata=replace(waiting("p2").metadata, deletion_timestamp="2000-01-01T00:00:00Z")
    )
    desk.see(terminating)
    assert of(BindPod, desk.answer(bind)) == []


@pytest.mark.parametrize("status", [403, 500, UNKNOWN, 409])
def test_what_the_watch_showed_while_the_bind_was_in_flight_counts_when_its_answer_comes(status: int) -> None:
    """A pod that is gone is not bound again, nor read; one that is on the node is bound."""
    desk = Desk(small(), waiting())
    bind = asked(desk)
    desk.lose(waiting())
    desk.answer(bind, status, "not now")
    assert desk.machine.binds_under_way == 0
    assert of(BindPod, desk.settle(60 * SECOND)) == []
    desk = Desk(small(), waiting())
    bind = asked(desk)
    desk.show_bound(bind)
    assert the(EmitEvent, desk.answer(bind, status, "not now")).reason == "Scheduled"
    assert desk.settle(60 * SECOND) == []


def test_a_pod_that_has_even_ended_elsewhere_when_it_is_read_is_not_heard_of_again() -> None:
    desk = Desk(small(), small("n2"), waiting())
    bind = asked(desk)
    ended = on(waiting(), "n2" if bind.node == "n1" else "n1")
    ended = replace(ended, status=replace(ended.status, phase="Failed"))
    assert of(PatchPod, desk.answer(read_back(desk, bind, 409), 200, pod=ended)) == []
    desk.see(waiting())
    assert desk.settle(60 * SECOND) == []
    assert desk.machine.scheduler.pods.of_key("default/p1") is None
    desk.lose(waiting())
    desk.see(waiting(uid="second"))
    assert the(BindPod, desk.settle(120 * SECOND)).uid == "second"
