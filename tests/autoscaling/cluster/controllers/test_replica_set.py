"""The ReplicaSet controller: as many active pods as asked for, what it reports, and what makes it wait."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.cluster.apps_world import AppsWorld, replica_set, running
from autoscaling.cluster.small_world import START
from stowplan_autoscaling.cluster.errors import ConflictError, ForbiddenError
from stowplan_autoscaling.cluster.objects.apps import ReplicaSet, ReplicaSetStatus
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import FAILED, RUNNING, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import OwnerReference, PodStatus


def world_with(replicas: int, *, min_ready: int = 0, **options: Any) -> AppsWorld:
    """A world with one ReplicaSet "rs" that has been synced once."""
    world = AppsWorld(with_deployments=False, **options)
    made = replica_set("rs", replicas, min_ready_seconds=min_ready)
    world.server.create("ReplicaSet", replace(made, status=ReplicaSetStatus()))
    world.start()
    return world


def resize(world: AppsWorld, replicas: int) -> None:
    world.server.scale("ReplicaSet", "default/rs", replicas)


def status(world: AppsWorld) -> tuple[int, int, int, int | None]:
    """Replicas, ready, available, terminating."""
    found = world.only_set().status
    return found.replicas, found.ready_replicas, found.available_replicas, found.terminating_replicas


def quota(room: int) -> Any:
    """An admission that has room for so many pods at a time; `world` is set later."""

    class Quota:
        world: AppsWorld
        refusals = 0

        def __call__(self, kind: str, obj: Any) -> Any:
            if kind == "Pod" and len(self.world.server.all("Pod")) >= self.room:
                self.refusals += 1
                raise ForbiddenError("exceeded quota: pods")
            return obj

        room: int

    made = Quota()
    made.room = room
    return made


def quota_world(replicas: int, room: int, **options: Any) -> tuple[AppsWorld, Any]:
    """A ReplicaSet under a quota."""
    guard = quota(room)
    world = AppsWorld(with_deployments=False, admit=guard, **options)
    guard.world = world
    world.server.create("ReplicaSet", replace(replica_set("rs", replicas), status=ReplicaSetStatus()))
    return world, guard


# ---- numbers -----------------------------------------------------------------------------------------------------


def test_missing_pods_are_made_and_counted_when_they_are_seen() -> None:
    """Three pods of the template, owned by the ReplicaSet; the status follows."""
    world = world_with(3)
    pods = world.active()
    assert [pod.metadata.name for pod in pods] == ["rs-00001", "rs-00002", "rs-00003"]
    assert {pod.owner_uid for pod in pods} == {world.only_set().metadata.uid}
    assert status(world) == (3, 0, 0, 0)
    assert world.only_set().status.observed_generation == 1
    assert world.reasons("ReplicaSet") == ["SuccessfulCreate"] * 3


def test_at_most_500_pods_are_made_or_deleted_at_a_time() -> None:
    """The second half comes when the first has been seen: 1200 are 500, 500 and 200."""
    world = world_with(1200)
    assert len(world.active()) == 1200
    controller = world.replica_sets
    assert controller is not None
    batches: list[int] = []
    world.server.observers.append(
        lambda kind, old, new: batches.append(new.status.replicas) if kind == "ReplicaSet" else None
    )
    resize(world, 100)
    world.run(2)
    assert len(world.active()) == 100
    # Each status says how many there were before the deletions of its sync.
    assert [count for count in dict.fromkeys(batches) if count in {1200, 700, 200}] == [1200, 700, 200]


def test_finished_pods_are_replaced_and_left_alone() -> None:
    """Failed and succeeded pods are not active; pod garbage collection takes them away one day."""
    world = world_with(3)
    world.change("rs-00001", status=PodStatus(phase=FAILED))
    world.change("rs-00002", status=PodStatus(phase=SUCCEEDED))
    world.run(1)
    assert [pod.metadata.name for pod in world.active()] == ["rs-00003", "rs-00004", "rs-00005"]
    assert len(world.server.all("Pod")) == 5
    assert status(world) == (3, 0, 0, 0)


def test_a_pod_being_deleted_is_replaced_at_once() -> None:
    """It counts as terminating until its kubelet has stopped it."""
    world = world_with(2)
    world.server.bind("default/rs-00001", "n1")
    world.run(1)
    world.server.delete("Pod", "default/rs-00001")
    world.run(2)
    assert [pod.metadata.name for pod in world.active()] == ["rs-00002", "rs-00003"]
    assert status(world) == (2, 0, 0, 1)
    world.server.remove("Pod", "default/rs-00001")
    world.run(3)
    assert status(world) == (2, 0, 0, 0)
    assert len(world.server.all("Pod")) == 2


def test_the_cheapest_pods_go() -> None:
    """Of a pod without node, one that is not ready and one that is: in this order."""
    world = world_with(3)
    for name in ("rs-00001", "rs-00002"):
        world.server.bind(f"default/{name}", "n1")
    world.make_ready("rs-00001")
    world.change("rs-00002", status=PodStatus(phase=RUNNING), ready="False")
    world.run(1)
    resize(world, 2)
    world.run(2)
    assert [pod.metadata.name for pod in world.active()] == ["rs-00001", "rs-00002"]
    resize(world, 1)
    world.run(3)
    assert [pod.metadata.name for pod in world.active()] == ["rs-00001"]
    resize(world, 0)
    world.run(4)
    assert (world.active(), status(world)) == ([], (0, 0, 0, 2))


def test_pods_of_siblings_make_a_node_crowded() -> None:
    """Old and new ReplicaSet of one Deployment: of two new pods the one on the node with old pods goes."""
    world = AppsWorld(with_deployments=False)
    owner = world.deploy(2)
    world.server.create("ReplicaSet", replica_set("old", 2, owner=owner, version=1))
    world.server.create("ReplicaSet", replica_set("new", 2, owner=owner, version=2))
    world.start()
    for name, node in (("old-00001", "n2"), ("old-00002", "n2"), ("new-00001", "n1"), ("new-00002", "n2")):
        pod = world.pod(name)
        world.server.put("Pod", running(pod, node=node))
    world.run(1)
    world.server.scale("ReplicaSet", "default/new", 1)
    world.run(2)
    assert [pod.metadata.name for pod in world.active() if pod.metadata.name.startswith("new")] == ["new-00001"]


def test_pods_of_nobody_and_of_others_are_left_alone() -> None:
    """There is no adoption; an owner of that name with another uid is another owner."""
    world = world_with(1)
    stranger = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid="old", controller=True)
    world.pods(2, prefix="bare")
    world.pods(2, owner=stranger, prefix="orphan")
    world.run(1)
    assert status(world)[0] == 1
    assert len(world.active()) == 5


def test_a_replica_set_that_is_gone_makes_no_pods() -> None:
    """One of the same name later starts afresh."""
    world = world_with(2)
    world.server.remove("ReplicaSet", "default/rs")
    world.server.remove("Pod", "default/rs-00001")
    world.run(1)
    assert [pod.metadata.name for pod in world.active()] == ["rs-00002"]
    made = replica_set("rs", 1)
    made = replace(made, metadata=replace(made.metadata, uid="second"), status=ReplicaSetStatus())
    world.server.create("ReplicaSet", made)
    world.run(2)
    assert [pod.owner_uid for pod in world.active()] == ["ReplicaSet/default/rs", "second"]


# ---- availability ------------------------------------------------------------------------------------------------


def test_without_min_ready_seconds_ready_is_available() -> None:
    """And a pod that is no longer ready is no longer available."""
    world = world_with(2)
    world.all_ready()
    world.run(1)
    assert status(world) == (2, 2, 2, 0)
    world.make_ready("rs-00001", ready=False)
    world.run(2)
    assert status(world) == (2, 1, 1, 0)


def test_a_pod_becomes_available_min_ready_seconds_after_it_became_ready() -> None:
    """Ready at 5 and 8 s with 10 s: available at 15 and 18 s."""
    world = world_with(2, min_ready=10)
    seen: list[tuple[float, int]] = []

    def note(kind: str, old: Any, new: Any) -> None:
        if kind == "ReplicaSet" and new.status.available_replicas != old.status.available_replicas:
            seen.append((round(world.kernel.elapsed, 3), new.status.available_replicas))

    world.server.observers.append(note)
    world.run(5)
    world.make_ready("rs-00001")
    world.run(8)
    world.make_ready("rs-00002")
    world.run(9)
    assert status(world) == (2, 2, 0, 0)
    world.run(60)
    assert seen == [(15.0, 1), (18.0, 2)]


def test_a_pod_that_loses_its_readiness_starts_again() -> None:
    """Ready at 5 s, not at 9 s, ready again at 12 s: available at 22 s."""
    world = world_with(1, min_ready=10)
    for moment, ready in ((5, True), (9, False), (12, True)):
        world.run(moment)
        world.make_ready("rs-00001", ready=ready)
    world.run(21.9)
    assert status(world) == (1, 1, 0, 0)
    world.run(22.1)
    assert status(world) == (1, 1, 1, 0)


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_a_quota_lets_the_first_batches_through() -> None:
    """Room for 3 of 10: batches of 1 and 2 pass, of the next 4 all fail, and the ReplicaSet says so."""
    world, guard = quota_world(10, room=3)
    world.start()
    assert len(world.active()) == 3
    # What follows in the same millisecond are answers to events: the last creation that is seen, and the status.
    assert [event[3] for event in world.events if event[0] == 0.0] == ["SuccessfulCreate"] * 3 + ["FailedCreate"] * 4
    assert guard.refusals == 6
    failure = condition_of(world.only_set().status.conditions, "ReplicaFailure")
    assert failure is not None
    assert (failure.status, failure.reason, failure.message) == ("True", "FailedCreate", "exceeded quota: pods")
    assert world.events[-1][4] == "Error creating: exceeded quota: pods"


def test_refused_creations_are_tried_again_after_the_back_off() -> None:
    """One request per attempt, as the first batch fails. The status write is an event that brings the second failure in
    the first moment: the wait of 5 ms counts, as it ends sooner than that of 10 ms, and the third failure waits 20 ms.
    """
    world, _ = quota_world(2, room=0)
    world.start()
    world.run(3)
    moments = [round(event[0] * 1000) for event in world.events if event[3] == "FailedCreate"]
    assert moments[:2] == [0, 0]
    gaps = [later - sooner for sooner, later in itertools.pairwise(moments[1:])]
    assert gaps == [5, 20, 40, 80, 160, 320, 640, 1280]


def test_the_failure_is_forgotten_when_pods_can_be_made() -> None:
    """The condition goes, the rest of the pods come at the next attempt."""
    world, guard = quota_world(4, room=2)
    world.start()
    world.run(1)
    assert condition_of(world.only_set().status.conditions, "ReplicaFailure") is not None
    guard.room = 10
    world.run(3)
    assert len(world.active()) == 4
    assert condition_of(world.only_set().status.conditions, "ReplicaFailure") is None


def test_a_deletion_that_is_refused_is_reported_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """FailedDelete, and a retry; the pod that is gone already is no failure."""
    world = world_with(3)
    calls: list[str] = []
    delete = world.server.delete

    def refuse(kind: str, key: str, **options: Any) -> None:
        calls.append(key)
        if len(calls) == 1:
            raise ForbiddenError("no")
        delete(kind, key, **options)

    monkeypatch.setattr(world.server, "delete", refuse)
    failures: list[tuple[str, str]] = []

    def note(kind: str, old: Any, new: Any) -> None:
        found = condition_of(new.status.conditions, "ReplicaFailure") if kind == "ReplicaSet" else None
        if found is not None:
            failures.append((found.reason, found.message))

    world.server.observers.append(note)
    resize(world, 1)
    world.run(1)
    assert set(failures) == {("FailedDelete", "no")}
    assert len(world.active()) == 1
    assert condition_of(world.only_set().status.conditions, "ReplicaFailure") is None
    assert world.reasons("ReplicaSet")[3:] == ["FailedDelete", "SuccessfulDelete", "SuccessfulDelete"]


# ---- waiting for what was written ---------------------------------------------------------------------------------


@pytest.mark.parametrize("latency", [0, 3 * MILLISECOND, 200 * MILLISECOND])
def test_a_slow_watch_makes_no_pods_twice(latency: int) -> None:
    """Until the creations are seen nothing is created, however often the key comes."""
    world = world_with(5, latency=latency)
    controller = world.replica_sets
    assert controller is not None
    for moment in (0.05, 0.1, 0.15):
        world.run(moment)
        controller.queue.add("default/rs")
    world.run(3)
    assert len(world.server.all("Pod")) == 5
    resize(world, 2)
    for moment in (3.05, 3.1, 3.15):
        world.run(moment)
        controller.queue.add("default/rs")
    world.run(6)
    assert len(world.active()) == 2
    assert status(world) == (2, 0, 0, 0)


def test_a_resize_that_meets_a_status_write_is_not_lost() -> None:
    """The user resizes while the controller, which has not seen that yet, writes a status: the write is repeated on the
    new object. When the controller then sees both, it must act on the new size.
    """
    world = world_with(3, latency=50 * MILLISECOND)
    world.run(5)
    world.make_ready("rs-00001")
    world.run(5.02)
    resize(world, 5)
    world.run(10)
    assert len(world.active()) == 5
    assert status(world) == (5, 1, 1, 0)
    assert world.only_set().status.observed_generation == 2


def test_the_generation_that_was_acted_on_is_the_one_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a conflict the status is written on the newer object, yet it speaks of the older one."""
    world = world_with(3, latency=50 * MILLISECOND)
    world.run(5)
    world.make_ready("rs-00001")
    world.run(5.02)
    resize(world, 5)
    written: list[ReplicaSet] = []
    world.server.observers.append(lambda kind, old, new: written.append(new) if kind == "ReplicaSet" else None)
    world.run(5.06)
    assert [(one.status.observed_generation, one.metadata.generation, one.spec.replicas) for one in written] == [
        (1, 2, 5)
    ]


def test_a_second_conflict_is_left_to_the_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is written twice at most in one sync; then the key comes back 5 ms later."""
    world = world_with(1)
    update = world.server.update_status
    refusals: list[int] = []

    def refuse(kind: str, obj: Any) -> Any:
        if len(refusals) < 2:
            refusals.append(world.kernel.now)
            raise ConflictError("modified")
        return update(kind, obj)

    monkeypatch.setattr(world.server, "update_status", refuse)
    world.run(1)
    world.make_ready("rs-00001")
    world.run(1.004)
    assert (len(refusals), status(world)) == (2, (1, 0, 0, 0))
    world.run(1.006)
    assert status(world) == (1, 1, 1, 0)


def test_creations_that_are_never_seen_hold_it_up_for_five_minutes() -> None:
    """A pod that vanished between creation and watch would otherwise stop the ReplicaSet for ever."""
    world = world_with(1)
    controller = world.replica_sets
    assert controller is not None
    controller._expectations.expect_creations("default/rs", 1, world.kernel.now)
    world.run(1)
    resize(world, 2)
    world.run(100)
    assert len(world.active()) == 1
    world.run(301)
    controller.queue.add("default/rs")
    world.run(302)
    assert len(world.active()) == 2


def test_100_pods_take_4750_ms_and_the_status_waits_for_them() -> None:
    """The controller's client: 30 requests at once, then 20 a second; one worker is busy with that all the time.

    With the 25 events about the first pods there are 125 requests: (125 - 30) / 20 s.
    """
    world = world_with(100, limit=(20, 30))
    created: dict[float, int] = {}
    world.run(10)
    for pod in world.active():
        created[world.seconds(pod.created)] = created.get(world.seconds(pod.created), 0) + 1
    # 15 pods with their events at once, then 10 of them a second as long as there are events, then 20.
    assert sum(created.values()) == 100
    assert max(created) == 4
    assert created[2] == created[3] == 20
    assert world.events[-1][0] == pytest.approx(4.75, abs=0.002)


def test_the_victims_of_one_sync_go_last_first() -> None:
    """Upstream starts a goroutine for each, and on one processor the last one started runs first."""
    world = world_with(4)
    for number, name in enumerate(["rs-00001", "rs-00002", "rs-00003", "rs-00004"]):
        world.server.put("Pod", running(world.pod(name), ready_since=START - 100 * 2**number * SECOND))
    world.run(1)
    gone: list[str] = []

    def note(kind: str, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if kind == "Pod" and new is None and old is not None:
            gone.append(old.metadata.name)

    world.server.observers.append(note)
    resize(world, 1)
    world.run(2)
    assert gone == ["rs-00003", "rs-00001", "rs-00002"]
