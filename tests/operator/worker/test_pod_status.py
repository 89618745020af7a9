"""Conditions, nominations and victims: what is written, in which order, and what is left unwritten."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stowplan_operator.worker.requests import UNKNOWN, BindPod, DeletePod, EmitEvent, PatchPod, Request
from stowplan_operator.worker.retries import MAX_TRIES
from stowplan_scheduler.objects import PersistentVolumeClaimVolumeSource, Pod, PodCondition, PodResourceClaim, Volume
from support.builders import node
from support.machines import SECOND, Desk, of, settings, small, the, waiting

REFUSED = "0/1 nodes are available: the pod uses {}, which Stowplan does not decide yet."


def with_condition(pod: Pod, condition: PodCondition) -> Pod:
    return replace(pod, status=replace(pod.status, conditions=(condition,)))


def running(desk: Desk, *names: str) -> None:
    """Pods of low priority, 400m each, bound and seen so."""
    for name in names:
        desk.see(waiting(name))
    for bind in of(BindPod, desk.tick()):
        desk.answer(bind)
        desk.show_bound(bind)


def of_pod(requests: list[Request], name: str) -> PatchPod:
    (found,) = (patch for patch in of(PatchPod, requests) if patch.key == f"default/{name}")
    return found


def test_a_pod_that_fits_nowhere_gets_the_condition_and_an_event_with_the_whole_text() -> None:
    desk = Desk(small(), replace(waiting(cpu="2"), metadata=replace(waiting().metadata, generation=5)))
    requests = desk.tick()
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )
    patch = the(PatchPod, requests)
    assert patch.condition == PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message=text, observed_generation=5
    )
    assert (patch.uid, patch.nominated_node_name) == ("default/p1", None)
    event = the(EmitEvent, requests)
    assert (event.type, event.reason, event.action, event.note) == ("Warning", "FailedScheduling", "Scheduling", text)
    assert event.scheduler_name == "stowplan"


def test_a_condition_that_keeps_its_status_keeps_its_transition_time() -> None:
    since = "2026-01-01T00:00:00Z"
    old = PodCondition(type="PodScheduled", status="False", reason="Other", message="x", last_transition_time=since)
    desk = Desk(with_condition(waiting(), old))
    condition = the(PatchPod, desk.tick()).condition
    assert condition is not None
    assert condition.last_transition_time == since


def test_what_the_pod_says_already_is_not_written_again() -> None:
    desk = Desk(waiting())
    patch = the(PatchPod, desk.tick())
    assert patch.condition is not None
    desk.answer(patch, 200)
    desk.see(with_condition(waiting(), patch.condition))
    desk.see(small("n1", cpu="100m"))
    requests = desk.settle(desk.now + 5 * SECOND)
    assert "Insufficient cpu" in the(PatchPod, requests).condition.message  # type: ignore[union-attr]
    desk.lose(small("n1"))
    assert of(PatchPod, desk.settle(desk.now + 5 * SECOND)) == [], "the patch before is still under way"


@pytest.mark.parametrize(
    ("pod", "what"),
    [
        (
            replace(
                waiting(),
                spec=replace(
                    waiting().spec,
                    volumes=(
                        Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c")),
                    ),
                ),
            ),
            "volumes",
        ),
        (
            replace(waiting(), spec=replace(waiting().spec, resource_claims=(PodResourceClaim(name="gpu"),))),
            "resource claims",
        ),
    ],
)
def test_a_pod_that_is_not_decided_yet_says_so_in_plain_words_and_is_never_bound(pod: Pod, what: str) -> None:
    desk = Desk(small(), pod)
    requests = desk.tick()
    condition = the(PatchPod, requests).condition
    assert condition is not None
    assert condition.reason == "Unschedulable"
    assert condition.message.startswith(REFUSED.format(what))
    assert of(BindPod, requests + desk.settle(1000 * SECOND)) == []


def test_patches_of_one_pod_do_not_overtake_each_other_and_the_newest_wish_wins() -> None:
    desk = Desk(small(), waiting(cpu="2"))
    first = the(PatchPod, desk.tick())
    for count in (2, 3):
        desk.see(node(f"n{count}").taint("dedicated").build())
        assert of(PatchPod, desk.settle(desk.now + 15 * SECOND)) == []
    second = the(PatchPod, desk.answer(first, 200))
    assert second.condition is not None
    assert second.condition.message.startswith("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated")


@pytest.mark.parametrize("status", [UNKNOWN, 403, 409, 429, 500])
def test_a_patch_is_repeated_after_a_passing_failure_but_not_for_ever(status: int) -> None:
    desk = Desk(small(), waiting(cpu="2"))
    sent = 0
    patches = of(PatchPod, desk.tick())
    while patches:
        sent += 1
        assert desk.answer(patches[0], status) == []
        patches = of(PatchPod, desk.settle(desk.now + 5 * SECOND))
    assert sent == MAX_TRIES


def test_a_patch_of_a_pod_that_is_gone_is_not_repeated() -> None:
    desk = Desk(small(), waiting(cpu="2"))
    assert desk.answer(the(PatchPod, desk.tick()), 404) == []
    assert desk.machine.requests_in_flight == 0
    assert of(PatchPod, desk.settle(60 * SECOND)) == []


def test_not_more_writes_are_in_flight_than_allowed() -> None:
    desk = Desk(*(waiting(f"p{i}") for i in range(5)), given=settings(max_binds=2))
    patches = of(PatchPod, desk.tick())
    assert len(patches) == 2
    assert len(of(PatchPod, desk.answer(patches[0], 200))) == 1


def test_a_victim_gets_its_condition_then_is_deleted_by_uid_and_the_preemptor_is_nominated() -> None:
    """As upstream's PreemptPod; 400m of 1000m are taken, 800m are wanted."""
    desk = Desk(small())
    running(desk, "low")
    desk.see(waiting("high", cpu="800m", priority=10))
    requests = desk.tick()
    nomination = of_pod(requests, "high")
    assert nomination.nominated_node_name == "n1"
    condition = of_pod(requests, "low")
    assert condition.uid == "default/low"
    assert condition.condition == PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message="stowplan: preempting to accommodate a higher priority pod",
    )
    assert of(DeletePod, requests) == [], "not before the condition is there"
    delete = the(DeletePod, desk.answer(condition, 200))
    assert (delete.key, delete.uid) == ("default/low", "default/low")
    event = the(EmitEvent, desk.answer(delete, 200))
    assert (event.reason, event.note) == ("Preempted", "Preempted by pod default/high on node n1")
    assert event.related is not None
    assert event.related.name == "high"
    desk.answer(nomination, 200)
    desk.lose(waiting("low"))
    assert the(BindPod, desk.settle(desk.now + 15 * SECOND)).key == "default/high"


def test_a_victim_that_has_the_condition_already_is_deleted_at_once() -> None:
    desk = Desk(small())
    running(desk, "low")
    held = desk.objects["Pod", "default/low"]
    message = "stowplan: preempting to accommodate a higher priority pod"
    condition = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=message)
    desk.see(with_condition(held, condition))
    desk.see(waiting("high", cpu="800m", priority=10))
    assert the(DeletePod, desk.tick()).key == "default/low"


@pytest.mark.parametrize("answer", [(404, 404), (200, 404), (200, 409)])
def test_a_victim_that_is_gone_already_ends_the_preemption_without_an_event(answer: tuple[int, int]) -> None:
    desk = Desk(small())
    running(desk, "low")
    desk.see(waiting("high", cpu="800m", priority=10))
    condition, status = answer
    requests = desk.tick()
    desk.answer(of_pod(requests, "high"), 200)
    requests = desk.answer(of_pod(requests, "low"), condition)
    if condition == 200:
        requests = desk.answer(the(DeletePod, requests), status)
    assert of(EmitEvent, requests) == []
    desk.lose(waiting("low"))
    assert the(BindPod, desk.settle(desk.now + 15 * SECOND)).key == "default/high"


def test_a_deletion_that_fails_for_good_opens_the_gate_of_the_preemptor() -> None:
    """It is tried again, finds the victim still there and preempts again, as upstream's Activate has it."""
    desk = Desk(small())
    running(desk, "low")
    desk.see(waiting("high", cpu="800m", priority=10))
    requests = desk.tick()
    desk.answer(of_pod(requests, "high"), 200)
    delete = the(DeletePod, desk.answer(of_pod(requests, "low"), 200))
    desk.answer(delete, 422, "no")
    again = desk.settle(desk.now + 15 * SECOND)
    assert of_pod(again, "low").condition is not None


def test_a_victim_whose_bind_has_not_left_goes_back_to_the_queue_instead_of_being_deleted() -> None:
    """Upstream cancels a victim in PreBind the same way (executor.go, PreemptPod)."""
    desk = Desk(small(), *(waiting(name, cpu="300m") for name in "abc"), given=settings(max_binds=2))
    assert [bind.key for bind in of(BindPod, desk.tick())] == ["default/a", "default/b"]
    desk.see(waiting("high", cpu="900m", priority=10))
    requests = desk.tick()
    deleted = []
    while requests:
        deleted += [request.key for request in of(DeletePod, requests)]
        writes = [request for request in requests if isinstance(request, PatchPod | DeletePod)]
        requests = [request for write in writes for request in desk.answer(write, 200)]
    assert sorted(deleted) == ["default/a", "default/b"], "their binds are in flight: only the API server can end them"
    assert "unbound" in desk.story("c")


def test_a_nomination_is_taken_away_from_pods_of_lower_priority() -> None:
    desk = Desk(small(cpu="1"))
    running(desk, "low1", "low2")
    desk.see(waiting("middle", cpu="500m", priority=5))
    first = desk.tick()
    assert of_pod(first, "middle").nominated_node_name == "n1"
    desk.answer(of_pod(first, "middle"), 200)
    desk.see(waiting("high", cpu="900m", priority=10))
    requests = desk.tick()
    assert of_pod(requests, "middle").nominated_node_name == ""
    assert of_pod(requests, "middle").condition is None


def test_nobody_is_deleted_for_a_preemptor_that_has_a_node_by_now() -> None:
    """Another scheduler, or somebody by hand, has bound it while its first victim got its condition."""
    desk = Desk(small(), small("n2", cpu="100m"))
    running(desk, "low")
    desk.see(waiting("high", cpu="800m", priority=10))
    condition = of_pod(desk.tick(), "low")
    desk.show_bound(BindPod(id=0, key="default/high", uid="", node="n2", epoch=0))
    assert desk.answer(condition, 200) == []
    assert desk.machine.requests_in_flight == 1, "the preemptor's own status, sent before"
    assert of(DeletePod, desk.settle(60 * SECOND)) == []


def test_the_last_victim_is_spared_too_if_the_preemptor_is_gone() -> None:
    desk = Desk(small())
    running(desk, "low1", "low2")
    desk.see(waiting("high", cpu="900m", priority=10))
    requests = desk.tick()
    first = next(patch for patch in of(PatchPod, requests) if patch.key != "default/high")
    delete = the(DeletePod, desk.answer(first, 200))
    desk.lose(waiting("high"))
    assert of(PatchPod, desk.answer(delete, 200)) == []


def test_what_is_still_to_be_said_of_a_pod_that_was_bound_meanwhile_is_not_said() -> None:
    desk = Desk(small(), waiting(cpu="2"))
    first = the(PatchPod, desk.tick())
    desk.see(node("n2").taint("dedicated").build())
    desk.settle(desk.now + 15 * SECOND)
    desk.show_bound(BindPod(id=0, key="default/p1", uid="", node="n1", epoch=0))
    assert desk.answer(first, 200) == []
