"""What a Deployment says of itself: availability, progress and its deadline, pauses and failures."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.cluster.apps_world import RECREATED, WEB, AppsWorld, forget_everything, rolling
from autoscaling.cluster.small_world import START
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.kernel import MILLISECOND, SECOND

DEADLINE = {"progress_deadline_seconds": 60}


def started(replicas: int = 2, **spec: Any) -> AppsWorld:
    """A Deployment whose pods are there and not ready."""
    world = AppsWorld()
    world.deploy(replicas, **spec)
    world.start()
    return world


def progress(world: AppsWorld) -> tuple[str, str]:
    found = world.condition("Progressing")
    return found.status, found.reason


def reasons(world: AppsWorld, until: int) -> list[tuple[int, str]]:
    """(second, reason of Progressing) of each change up to `until`."""
    found: list[tuple[int, str]] = []

    def note(kind: str, old: Any, new: Any) -> None:
        if kind == "Deployment":
            condition = condition_of(new.status.conditions, "Progressing")
            reason = "" if condition is None else condition.reason
            if not found or found[-1][1] != reason:
                found.append((int(world.kernel.elapsed), reason))

    world.server.observers.append(note)
    world.run(until)
    world.server.observers.remove(note)
    return found


# ---- counts ------------------------------------------------------------------------------------------------------


def test_counts_are_those_of_the_replica_sets() -> None:
    """During a rollout of 4: 3 old ones ready, 2 new ones not."""
    world = started(4)
    world.all_ready()
    world.run(1)
    status = world.web().status
    assert (status.replicas, status.updated_replicas, status.ready_replicas) == (4, 4, 4)
    assert (status.available_replicas, status.unavailable_replicas, status.observed_generation) == (4, 0, 1)
    world.roll_out(2)
    world.run(2)
    status = world.web().status
    assert (status.replicas, status.updated_replicas, status.ready_replicas) == (5, 2, 3)
    assert (status.available_replicas, status.unavailable_replicas, status.observed_generation) == (3, 2, 2)


@pytest.mark.parametrize(
    ("replicas", "unavailable", "ready", "available"),
    [
        (4, "25%", 3, True),
        (4, "25%", 2, False),
        (3, "25%", 2, False),
        (2, 0, 2, True),
        (2, 2, 0, True),
        (0, 1, 0, True),
    ],
)
def test_enough_available_pods_make_it_available(
    replicas: int, unavailable: int | str, ready: int, available: bool
) -> None:
    """At least n - U."""
    world = started(replicas, strategy=rolling(1, unavailable))
    for pod in world.active()[:ready]:
        world.make_ready(pod.metadata.name)
    world.run(1)
    found = world.condition("Available")
    expected = ("True", "MinimumReplicasAvailable") if available else ("False", "MinimumReplicasUnavailable")
    assert (found.status, found.reason) == expected


def test_recreate_must_have_all_pods_to_be_available() -> None:
    """There is no maxUnavailable."""
    world = started(2, strategy=RECREATED)
    world.make_ready(world.active()[0].metadata.name)
    world.run(1)
    assert world.condition("Available").status == "False"
    world.all_ready()
    world.run(2)
    assert world.condition("Available").status == "True"


def test_pods_being_deleted_are_reported() -> None:
    """Scaled from 2 to 1 with a pod on a node: one terminates until the kubelet has stopped it."""
    world = started(2)
    for pod in world.active():
        world.server.bind(pod.key, "n1")
    world.run(1)
    world.scale(1)
    world.run(2)
    assert world.web().status.terminating_replicas == 1
    for pod in list(world.server.all("Pod").values()):
        if pod.deleted is not None:
            world.server.remove("Pod", pod.key)
    world.run(3)
    assert world.web().status.terminating_replicas == 0


def test_min_ready_seconds_delay_the_end_of_a_rollout() -> None:
    """Ready at 5 s, available 10 s later; only then is the rollout complete."""
    world = started(1, min_ready_seconds=10)
    world.run(5)
    world.all_ready()
    assert reasons(world, 60) == [(5, "ReplicaSetUpdated"), (15, "NewReplicaSetAvailable")]
    assert world.web().status.available_replicas == 1


def test_min_ready_seconds_hold_old_pods() -> None:
    """One replica, surge 1: the old pod goes when the new one has been ready for 10 s."""
    world = started(1, min_ready_seconds=10)
    world.run(1)
    world.all_ready()
    world.run(20)
    world.roll_out(2)
    world.run(25)
    world.all_ready()
    world.run(34.9)
    assert world.sizes[-1] == (1, 1)
    world.run(35.1)
    assert world.sizes[-1] == (1, 0)


# ---- the deadline ------------------------------------------------------------------------------------------------


def test_a_rollout_without_progress_fails_a_second_after_its_deadline() -> None:
    """The last progress, pods created, was at 0 s; with a deadline of 60 s the look that finds it passed is at 61 s."""
    world = started(2, **DEADLINE)
    assert progress(world) == ("True", "ReplicaSetUpdated")
    assert reasons(world, 300) == [(61, "ProgressDeadlineExceeded")]
    assert progress(world) == ("False", "ProgressDeadlineExceeded")
    name = world.only_set().metadata.name
    assert world.condition("Progressing").message == f'ReplicaSet "{name}" has timed out progressing.'


def test_the_deadline_must_have_passed() -> None:
    """At 60 s exactly, when an event brings a sync, the rollout has not failed yet; a nanosecond later it has. Every
    sync is done in full here.
    """
    world = started(2, **DEADLINE)
    forget_everything(world)
    assert world.deployments is not None
    for nanosecond, reason in ((0, "ReplicaSetUpdated"), (1, "ProgressDeadlineExceeded")):
        world.kernel.run(START + 60 * SECOND + nanosecond)
        world.deployments.queue.add(WEB)
        world.kernel.run(START + 60 * SECOND + nanosecond)
        assert progress(world)[1] == reason


def test_each_progress_starts_the_deadline_anew() -> None:
    """A pod that becomes ready at 40 s moves the failure from 61 to 101 s."""
    world = started(2, **DEADLINE)
    world.run(40)
    world.make_ready(world.active()[0].metadata.name)
    assert reasons(world, 300) == [(40, "ReplicaSetUpdated"), (101, "ProgressDeadlineExceeded")]


def test_a_failed_rollout_goes_on_and_may_still_succeed() -> None:
    """The condition is a report: nothing is undone, and pods that become ready at last are progress."""
    world = started(2, **DEADLINE)
    world.run(200)
    world.all_ready()
    assert reasons(world, 300)[-1] == (200, "NewReplicaSetAvailable")
    assert progress(world) == ("True", "NewReplicaSetAvailable")


def test_what_was_complete_once_does_not_fail() -> None:
    """A pod that stops being ready long after the rollout is no lack of progress."""
    world = started(2, **DEADLINE)
    world.all_ready()
    world.run(100)
    world.make_ready(world.active()[0].metadata.name, ready=False)
    world.run(400)
    assert progress(world) == ("True", "NewReplicaSetAvailable")
    assert world.condition("Available").status == "False"


@pytest.mark.parametrize("seconds", [None, 2**31 - 1])
def test_without_a_deadline_there_is_no_progress_to_report(seconds: int | None) -> None:
    """The largest number means none as well."""
    world = started(2, progress_deadline_seconds=seconds)
    world.run(2_000)
    assert condition_of(world.web().status.conditions, "Progressing") is None


# ---- pauses ------------------------------------------------------------------------------------------------------


def test_a_paused_deployment_does_not_roll_out_but_scales() -> None:
    """The template waits; replicas do not."""
    world = started(2)
    world.all_ready()
    world.run(1)
    world.respecify(paused=True)
    world.run(2)
    assert progress(world) == ("Unknown", "DeploymentPaused")
    world.roll_out(2)
    world.scale(4)
    world.run(3)
    assert [each.spec.replicas for each in world.sets()] == [4]
    world.respecify(paused=False)
    world.run(4)
    assert len(world.sets()) == 2
    for moment in range(5, 12):
        world.all_ready()
        world.run(moment)
    assert [each.spec.replicas for each in world.sets()] == [0, 4]
    assert progress(world) == ("True", "NewReplicaSetAvailable")


def test_the_deadline_does_not_run_during_a_pause() -> None:
    """Paused from 10 to 500 s; resumed it has its 60 s again, and fails at 561 s."""
    world = started(2, **DEADLINE)
    world.run(10)
    world.respecify(paused=True)
    assert reasons(world, 500) == [(10, "DeploymentPaused")]
    world.respecify(paused=False)
    assert reasons(world, 900)[-2:] == [(500, "DeploymentResumed"), (561, "ProgressDeadlineExceeded")]


def test_a_pause_half_way_shares_out_a_scaling() -> None:
    """Old and new ReplicaSet of a paused rollout both grow: 8 + 5 of 10 + 3 become 16 + 9 of 20 + 5."""
    world = started(10)
    world.all_ready()
    world.run(1)
    world.roll_out(2)
    world.run(2)
    assert world.sizes[-1] == (5, 8)
    world.respecify(paused=True)
    world.run(3)
    world.scale(20)
    world.run(4)
    # 5 x 25 / 13 = 9.6 rounds to 10, 8 x 25 / 13 = 15.4 to 15.
    assert world.sizes[-1] == (10, 15)


# ---- failures ----------------------------------------------------------------------------------------------------


class Admission:
    """Refuses kinds."""

    def __init__(self, *kinds: str) -> None:
        self.refused = set(kinds)

    def __call__(self, kind: str, obj: Any) -> Any:
        if kind in self.refused:
            raise ForbiddenError(f"no {kind} here")
        return obj


def test_a_replica_sets_failure_is_the_deployments() -> None:
    """With its time and reason, until pods can be made."""
    guard = Admission("Pod")
    world = AppsWorld(admit=guard)
    world.deploy(2, **DEADLINE)
    world.start()
    world.run(1)
    found = world.condition("ReplicaFailure")
    assert (found.status, found.reason, found.message) == ("True", "FailedCreate", "no Pod here")
    world.run(100)
    assert progress(world) == ("False", "ProgressDeadlineExceeded")
    guard.refused.clear()
    # The ReplicaSet comes back after its back-off only: 5 ms doubled 14 or 15 times.
    world.run(400)
    assert condition_of(world.web().status.conditions, "ReplicaFailure") is None
    assert len(world.active()) == 2


def test_a_replica_set_that_cannot_be_made_is_reported_and_tried_again() -> None:
    """Events, the condition, and tries 5, 10, 20 ms apart; the write of the condition is an event of its own."""
    guard = Admission("ReplicaSet")
    world = AppsWorld(admit=guard)
    world.deploy(2)
    world.start()
    world.run(1)
    assert progress(world) == ("False", "ReplicaSetCreateError")
    assert set(world.reasons("Deployment")) == {"ReplicaSetCreateError"}
    assert world.events[0][4].endswith(": no ReplicaSet here")
    guard.refused.clear()
    world.run(3)
    assert len(world.active()) == 2
    assert progress(world) == ("True", "ReplicaSetUpdated")


def test_after_fifteen_retries_a_deployment_waits_for_an_event() -> None:
    """5 ms (2^15 - 1) are 164 s; what is repaired later is found when somebody touches the Deployment."""
    guard = Admission("ReplicaSet")
    world = AppsWorld(admit=guard)
    world.deploy(2)
    world.start()
    world.run(200)
    guard.refused.clear()
    world.run(5_000)
    assert world.sets() == []
    world.scale(3)
    world.run(5_001)
    assert len(world.active()) == 3


def test_a_write_between_sync_and_status_is_a_conflict_that_is_tried_again() -> None:
    """The controller sees the Deployment of 100 ms ago; its status must not undo what the user wrote meanwhile."""
    world = AppsWorld(latency=100 * MILLISECOND)
    world.deploy(2)
    world.start()
    world.run(5)
    world.all_ready()
    world.run(5.15)
    stored = world.web()
    world.server.update(
        "Deployment",
        replace(stored, metadata=replace(stored.metadata, annotations={"note": "x", **stored.metadata.annotations})),
    )
    world.run(10)
    found = world.web()
    assert found.metadata.annotations["note"] == "x"
    assert found.status.available_replicas == 2
    assert progress(world) == ("True", "NewReplicaSetAvailable")
    assert world.server.get("Deployment", WEB).status.observed_generation == 1
