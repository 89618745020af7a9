"""Leading and following: nothing leaves unless the machine leads and has seen enough; a stop loses nothing."""

from __future__ import annotations

from stowplan_operator.worker.requests import NOT_SENT, UNKNOWN, BindPod, DeletePod, EmitEvent, PatchPod
from stowplan_scheduler.events import WATCHED
from support.machines import SECOND, Desk, of, settings, small, the, waiting


def test_a_follower_keeps_its_view_warm_and_says_nothing() -> None:
    desk = Desk(small(), waiting(), leading=False)
    assert desk.machine.wake_at() is None
    assert desk.tick() == []
    assert desk.machine.pending()["active"] == 1
    assert desk.machine.epoch == 0
    assert desk.machine.utilization() == {"cpu": 0, "memory": 0}


def test_after_winning_nothing_is_bound_before_nodes_and_pods_have_been_heard_of_up_to_that_moment() -> None:
    """The leader before may have bound pods that this one's watches have not shown yet."""
    desk = Desk(small(), waiting(), leading=False)
    machine = desk.machine
    assert machine.lead(4, 100, desk.now) == []
    assert machine.wake_at() is None
    assert machine.heard("Pod", 100, desk.now) == []
    assert machine.wake_at() is None, "nodes are still old"
    machine.heard("Node", 101, desk.now)
    assert machine.fresh
    assert the(BindPod, desk.tick()).epoch == 4


def test_nothing_is_tried_before_every_kind_has_been_heard_of() -> None:
    desk = Desk(small(), waiting(), leading=False)
    machine = type(desk.machine)(settings(), desk.machine.scheduler.rng, start=0)
    machine.lead(1, 0, 0)
    for kind in WATCHED:
        assert not machine.synced
        machine.heard(kind, 1, 0)
    assert machine.fresh


def test_a_version_that_is_older_than_one_before_is_ignored() -> None:
    desk = Desk(leading=False)
    desk.machine.heard("Pod", 100, 0)
    desk.machine.heard("Node", 100, 0)
    desk.machine.heard("Pod", 7, 0)
    desk.machine.lead(1, 100, 0)
    assert desk.machine.fresh


def test_on_losing_the_lease_binds_that_have_not_left_go_back_to_the_queue_and_nothing_is_said() -> None:
    desk = Desk(small(cpu="8"), *(waiting(f"p{i}") for i in range(4)), given=settings(max_binds=1))
    sent = the(BindPod, desk.tick())
    assert desk.machine.binds_under_way == 2
    assert desk.machine.follow(desk.now) == []
    assert desk.machine.binds_under_way == 1, "the one that is in flight may still be answered"
    assert desk.answer(sent, 201) == [], "no event either"
    assert desk.machine.binds_under_way == 0
    assert desk.settle(30 * SECOND) == []
    assert "bound" in desk.story("p0")


def test_a_lost_answer_is_not_read_back_by_who_does_not_lead() -> None:
    """The pod goes back; if the bind did happen, the watch says so, at the latest at the barrier of the next leader."""
    desk = Desk(small(), waiting())
    bind = the(BindPod, desk.tick())
    desk.machine.follow(desk.now)
    assert desk.answer(bind, UNKNOWN) == []
    assert desk.machine.binds_under_way == 0
    assert desk.machine.pending()["backoff"] == 1
    desk.show_bound(bind)
    assert desk.machine.pending()["backoff"] == 0
    assert len(desk.machine.scheduler.cache.get_node("n1").pods) == 1  # type: ignore[union-attr]


def test_whoever_leads_again_goes_on_where_it_was() -> None:
    desk = Desk(small(), waiting())
    bind = the(BindPod, desk.tick())
    desk.machine.follow(desk.now)
    desk.answer(bind, NOT_SENT)
    desk.machine.lead(2, 50, desk.now)
    assert desk.settle(10 * SECOND) == []
    for kind in ("Node", "Pod"):
        desk.machine.heard(kind, 50, desk.now)
    assert the(BindPod, desk.settle(20 * SECOND)).epoch == 2


def test_an_eviction_under_way_ends_with_the_lease() -> None:
    """Its condition was sent and may be answered; the deletion is not sent any more."""
    desk = Desk(small(), waiting("low"))
    desk.show_bound(the(BindPod, desk.tick()))
    desk.see(waiting("high", cpu="800m", priority=10))
    condition = next(p for p in of(PatchPod, desk.tick()) if p.key == "default/low")
    desk.machine.follow(desk.now)
    assert desk.answer(condition, 200) == []
    assert of(DeletePod, desk.settle(60 * SECOND)) == []
    desk.machine.lead(2, 0, desk.now)
    again = of(PatchPod, desk.settle(400 * SECOND))
    assert [patch.key for patch in again if patch.condition and patch.condition.type == "DisruptionTarget"] == [
        "default/low"
    ]


def test_draining_tries_no_more_pods_but_ends_what_was_decided() -> None:
    desk = Desk(small(cpu="8"), *(waiting(f"p{i}") for i in range(4)), given=settings(max_binds=1))
    first = the(BindPod, desk.tick())
    desk.machine.drain(desk.now)
    second = the(BindPod, desk.answer(first))
    assert of(BindPod, desk.answer(second)) == []
    assert desk.machine.is_drained
    assert of(BindPod, desk.settle(60 * SECOND)) == []
    assert desk.machine.pending()["active"] == 2


def test_a_worker_that_has_drained_also_waits_for_its_patches() -> None:
    desk = Desk(waiting())
    patch = the(PatchPod, desk.tick())
    desk.machine.drain(desk.now)
    drained = [desk.machine.is_drained]
    desk.answer(patch, 200)
    drained.append(desk.machine.is_drained)
    assert drained == [False, True]


def test_a_new_epoch_without_a_loss_in_between_counts_as_one() -> None:
    desk = Desk(small(cpu="8"), waiting("p0"), waiting("p1"), given=settings(max_binds=1))
    desk.tick()
    desk.machine.lead(2, 0, desk.now)
    assert desk.machine.binds_under_way == 1
    assert desk.machine.epoch == 2


def test_events_are_written_by_the_leader_alone() -> None:
    desk = Desk(waiting())
    assert the(EmitEvent, desk.tick()).reason == "FailedScheduling"
    desk = Desk(waiting(), leading=False)
    assert desk.settle(60 * SECOND) == []
