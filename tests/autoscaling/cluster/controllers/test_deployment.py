"""Rollouts and scaling of Deployments: sizes of ReplicaSets step by step, as the tables of upstream's rules say."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.apps_world import RECREATED, WEB, AppsWorld, replica_set, rolling, template
from autoscaling.cluster.small_world import START
from stowplan_autoscaling.cluster.controllers.deployment.arithmetic import DESIRED_REPLICAS, MAX_REPLICAS
from stowplan_autoscaling.cluster.controllers.deployment.arithmetic import share as share_of
from stowplan_autoscaling.cluster.controllers.deployment.revisions import REVISION, REVISION_HISTORY
from stowplan_autoscaling.cluster.errors import ConflictError
from stowplan_autoscaling.cluster.objects.apps import Deployment, ReplicaSet
from stowplan_autoscaling.cluster.pods import FAILED, RUNNING
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import PodStatus
from stowplan_scheduler.objects.cluster import IntOrString

# ---- the steps of a rollout --------------------------------------------------------------------------------------


class Steps:
    """A rollout whose ReplicaSets the test plays: pods appear at once, and become ready when it says so."""

    def __init__(self, replicas: int, **spec: Any) -> None:
        self.world = AppsWorld(with_replica_sets=False)
        self.world.deploy(replicas, **spec)
        self.world.start()
        self.moment = 0.0
        self.ready()
        self.settle()

    def settle(self) -> None:
        """Until nobody does anything any more, with pods that are ready staying so."""
        while True:
            self.moment += 1
            self.world.run(self.moment)
            before = self.world.server.version
            for each in self.world.sets():
                ready = min(each.status.available_replicas, each.spec.replicas)
                self.report(each, ready)
            if self.world.server.version == before:
                return

    def ready(self) -> None:
        """All pods that are there."""
        for each in self.world.sets():
            self.report(each, each.spec.replicas)

    def report(self, each: ReplicaSet, ready: int) -> None:
        size = each.spec.replicas
        status = replace(
            each.status,
            observed_generation=each.metadata.generation,
            replicas=size,
            ready_replicas=ready,
            available_replicas=ready,
        )
        self.world.server.update_status("ReplicaSet", replace(each, status=status))

    def roll_out(self) -> list[tuple[int, ...] | str]:
        """(new, old) after each step, "ready" where pods had to become ready first."""
        self.world.roll_out(2)
        found: list[tuple[int, ...] | str] = []
        seen = len(self.world.sizes)
        for _ in range(20):
            self.settle()
            found += self.world.sizes[seen:]
            seen = len(self.world.sizes)
            before = self.world.server.version
            self.ready()
            if self.world.server.version == before:
                return found
            found.append("ready")
        raise AssertionError("the rollout does not end")


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "steps"),
    [
        (10, "25%", "25%", "3,10 3,8 5,8 ready 5,3 10,3 ready 10,0"),
        (4, "25%", "25%", "1,4 1,3 2,3 ready 2,1 4,1 ready 4,0"),
        (3, "25%", "25%", "1,3 ready 1,2 2,2 ready 2,1 3,1 ready 3,0"),
        (7, "25%", "25%", "2,7 2,6 3,6 ready 3,3 6,3 ready 6,0 7,0 ready"),
        (2, 0, "1%", "0,2 0,1 1,1 ready 1,0 2,0 ready"),
        (4, "100%", 0, "4,4 ready 4,0"),
        (3, 0, 3, "0,3 0,0 3,0 ready"),
        (0, "25%", "25%", "0,0"),
    ],
)
def test_a_rollout_goes_in_these_steps(replicas: int, surge: IntOrString, unavailable: IntOrString, steps: str) -> None:
    """maxSurge rounds up and maxUnavailable down; both 0 make 1 unavailable. One step per sync: up, else down. New and
    old together stay within n + S, and those available above n - U.
    """
    found = Steps(replicas, strategy=rolling(surge, unavailable)).roll_out()
    assert " ".join(one if isinstance(one, str) else f"{one[0]},{one[1]}" for one in found) == steps


def rolled(replicas: int, available: int, *, new: int = 0, unavailable: int = 2) -> tuple[int, int]:
    """(new, old) after one sync of 10 replicas with `replicas` old ones, of which so many are available."""
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(10, version=2, strategy=rolling(0, unavailable))
    sizes = {DESIRED_REPLICAS: "10", MAX_REPLICAS: "10"}
    for name, version, size, ready in (("old", 1, replicas, available), ("new", 2, new, 0)):
        made = replica_set(name, size, owner=owner, version=version, available=ready, annotations=sizes)
        world.server.create("ReplicaSet", replace(made, created=START + version))
    world.start()
    old, fresh = world.sets()
    return fresh.spec.replicas, old.spec.replicas


@pytest.mark.parametrize("available", [8, 9])
def test_old_pods_that_are_not_available_go_first(available: int) -> None:
    """10 wanted, 2 may be missing, the new ReplicaSet is empty. 8 available: the two that are not go. 9: the one
    that is not goes, and of the others as many as leave 8. Either way 8 stay, and 2 new ones come in their place.
    """
    assert rolled(10, available) == (2, 8)


def test_nothing_goes_as_long_as_the_new_pods_are_not_available() -> None:
    """8 old ones ready, 2 new ones not: 10 - 8 - 2 = 0 may go."""
    assert rolled(8, 8, new=2) == (2, 8)


def test_a_status_that_lags_behind_makes_no_old_pods() -> None:
    """The old ReplicaSet was taken down to 3 and still reports 5 available pods, while all new ones are available, so
    that 8 - 4 old pods could go: the step is left out, and with the next status it goes on.
    """
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(6, version=2, strategy=rolling(2, 2))
    sizes = {DESIRED_REPLICAS: "6", MAX_REPLICAS: "8"}
    stale = replica_set("old", 3, owner=owner, version=1, available=5, annotations=sizes)
    world.server.create("ReplicaSet", stale)
    world.server.create(
        "ReplicaSet",
        replica_set("new", 5, owner=owner, version=2, available=5, annotations=sizes, created=START + SECOND),
    )
    world.start()
    world.run(1)
    assert [each.spec.replicas for each in world.sets()] == [3, 5]
    old = world.sets()[0]
    status = replace(old.status, replicas=3, ready_replicas=3, available_replicas=3)
    world.server.update_status("ReplicaSet", replace(old, status=status))
    world.run(2)
    assert [each.spec.replicas for each in world.sets()] == [0, 6]


def test_several_old_replica_sets_give_up_the_oldest_first() -> None:
    """A rollout that replaced another one half way: broken pods first, whoever has them, then the oldest."""
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(10, version=3, strategy=rolling(0, 2))
    sizes = {DESIRED_REPLICAS: "10", MAX_REPLICAS: "10"}
    for version, size, ready in ((1, 5, 5), (2, 5, 4)):
        made = replica_set(f"rs-{version}", size, owner=owner, version=version, available=ready, annotations=sizes)
        world.server.create("ReplicaSet", replace(made, created=START + version * SECOND))
    world.start()
    assert [each.spec.replicas for each in world.sets()] == [4, 4, 2]


# ---- rollouts with pods ------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.integers(1, 8),
    st.sampled_from([0, 1, 2, "25%", "50%", "100%"]),
    st.sampled_from([0, 1, "25%", "50%"]),
    st.integers(0, 2**16),
)
def test_a_rollout_keeps_its_promises_and_ends(
    replicas: int, surge: IntOrString, unavailable: IntOrString, seed: int
) -> None:
    """Pods become ready one at a time in any order: never more than n + S wanted, never fewer than n - U available."""
    world = AppsWorld()
    world.deploy(replicas, strategy=rolling(surge, unavailable))
    world.start()
    world.all_ready()
    world.run(1)
    most = replicas + share(surge, replicas, up=True)
    missing = share(unavailable, replicas, up=False)
    least = replicas - (missing or (most == replicas))
    extremes: list[tuple[int, int]] = []

    def note(kind: str, old: Any, new: Any) -> None:
        if kind in {"Pod", "ReplicaSet"}:
            wanted = sum(each.spec.replicas for each in world.sets())
            extremes.append((wanted, sum(pod.is_ready for pod in world.active())))

    world.server.observers.append(note)
    world.roll_out(2)
    for step in range(2, 100):
        world.run(step)
        waiting = [pod for pod in world.active() if not pod.is_ready]
        if not waiting:
            break
        world.make_ready(waiting[(seed >> step % 16) % len(waiting)].metadata.name)
    assert [each.spec.replicas for each in world.sets()] == [0, replicas]
    assert max(wanted for wanted, _ in extremes) <= most
    assert min(ready for _, ready in extremes) >= least
    assert world.condition("Progressing").reason == "NewReplicaSetAvailable"
    status = world.web().status
    assert (status.replicas, status.updated_replicas, status.available_replicas) == (replicas,) * 3


def share(value: IntOrString, total: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    product = int(value[:-1]) * total
    return -(-product // 100) if up else product // 100


def test_a_rollout_back_finds_the_old_replica_set() -> None:
    """The template is known: its ReplicaSet gets the next revision and remembers the one it had."""
    world = AppsWorld()
    world.deploy(2)
    world.start()
    for step, version in enumerate((2, 1), start=1):
        world.all_ready()
        world.run(10 * step)
        world.roll_out(version)
        for moment in range(8):
            world.run(10 * step + 1 + moment)
            world.all_ready()
    first, second = world.sets()
    assert (first.spec.replicas, second.spec.replicas) == (2, 0)
    assert (first.metadata.annotations[REVISION], second.metadata.annotations[REVISION]) == ("3", "2")
    assert first.metadata.annotations[REVISION_HISTORY] == "1"
    assert world.web().metadata.annotations[REVISION] == "3"


def test_names_carry_the_hash_of_the_template() -> None:
    """Labels and selector of the ReplicaSet as well, so that old and new pods are told apart."""
    world = AppsWorld()
    world.deploy(1)
    world.start()
    made = world.only_set()
    digest = made.metadata.labels["pod-template-hash"]
    assert made.metadata.name == f"web-{digest}"
    assert made.spec.selector is not None
    assert made.spec.selector.match_labels == {"app": "web", "pod-template-hash": digest}
    assert world.active()[0].metadata.labels == {"app": "web", "pod-template-hash": digest}
    assert made.metadata.annotations == {REVISION: "1", DESIRED_REPLICAS: "1", MAX_REPLICAS: "2"}
    assert world.reasons("Deployment") == ["ScalingReplicaSet"]
    assert world.events[0][4] == f"Scaled up replica set {made.metadata.name} from 0 to 1"


def test_a_replica_set_of_another_template_with_that_name_is_a_collision() -> None:
    """The count of collisions goes into the hash, so the next try has another name."""
    world = AppsWorld()
    probe = AppsWorld()
    probe.deploy(1)
    probe.start()
    name = probe.only_set().metadata.name
    owner = world.deploy(1)
    world.server.create("ReplicaSet", replica_set(name, 0, owner=owner, version=9))
    world.start()
    world.run(1)
    assert world.web().status.collision_count == 1
    assert len(world.sets()) == 2
    assert world.sets()[1].metadata.name != name
    assert len(world.active()) == 1


# ---- recreate ----------------------------------------------------------------------------------------------------


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    """Old pods have 30 s to stop; the new ones come when the kubelet has removed them, all at once."""
    world = AppsWorld()
    world.deploy(2, strategy=RECREATED)
    world.start()
    for pod in world.active():
        world.server.bind(pod.key, "n1")
    world.all_ready()
    world.run(1)
    world.roll_out(2)
    world.run(5)
    assert world.sizes[-1] == (0,)
    leaving = list(world.server.all("Pod"))
    assert len(leaving) == 2
    world.server.remove("Pod", leaving[0])
    world.run(10)
    assert len(world.sets()) == 1
    world.server.remove("Pod", leaving[1])
    world.run(11)
    assert [each.spec.replicas for each in world.sets()] == [0, 2]
    assert len(world.active()) == 2


def test_recreate_does_not_wait_for_pods_that_have_ended() -> None:
    """A failed pod of the old ReplicaSet stays until it is collected."""
    world = AppsWorld()
    world.deploy(1, strategy=RECREATED)
    world.start()
    world.change(world.active()[0].metadata.name, status=PodStatus(phase=FAILED))
    world.run(1)
    world.roll_out(2)
    world.run(2)
    assert [each.spec.replicas for each in world.sets()] == [0, 1]


# ---- scaling -----------------------------------------------------------------------------------------------------


def scaled(before: tuple[int, ...], old: int, new: int, *, surge: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    """Sizes after the sync that sees `new` replicas where there were `old`; the newest ReplicaSet first."""
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(new, version=len(before), strategy=rolling(surge[1], 1))
    for index, size in enumerate(reversed(before)):
        made = replica_set(
            f"rs-{index}",
            size,
            owner=owner,
            version=index + 1,
            created=START + index * SECOND,
            annotations={DESIRED_REPLICAS: str(old), MAX_REPLICAS: str(old + surge[0])},
        )
        world.server.create("ReplicaSet", made)
    world.informers.start(world.server, world.feed)
    sync(world)
    return tuple(each.spec.replicas for each in reversed(world.sets()))


def sync(world: AppsWorld) -> None:
    """One sync, and nothing of what follows from it; its second write of the status is a conflict, as upstream's is."""
    assert world.deployments is not None
    with contextlib.suppress(ConflictError):
        for _ in world.deployments.sync(WEB) or ():
            pass


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ((2, 3), 5, 10, (4, 6)),
        ((2, 3), 5, 3, (1, 2)),
        ((8, 1), 9, 4, (4, 0)),
        ((2, 3, 2), 7, 10, (3, 4, 3)),
        ((2, 8, 3), 13, 8, (1, 5, 2)),
        ((1, 1, 1), 3, 4, (2, 1, 1)),
        ((1, 1, 1), 3, 2, (1, 1, 0)),
        ((3, 2, 1), 6, 0, (0, 0, 0)),
        ((0, 0, 0), 0, 6, (6, 0, 0)),
        ((5, 0), 5, 8, (8, 0)),
        ((0, 5), 5, 8, (0, 8)),
    ],
)
def test_a_scaling_during_a_rollout_is_shared_out(
    before: tuple[int, ...], old: int, new: int, after: tuple[int, ...]
) -> None:
    """In proportion to what each has, rounded half away from zero, the rest to the largest; of equal ones the newest
    grows and the oldest shrinks. A single ReplicaSet with pods gets it all.
    """
    assert scaled(before, old, new) == after


def test_the_surge_counts_on_both_sides() -> None:
    """10 + 2 become 20 + 2: 6 x 22 / 12 = 11. And 10 + 3 become 50 + 6: 5 x 56 / 13 = 21.5, 8 x 56 / 13 = 34.5."""
    assert scaled((6, 6), 10, 20, surge=(2, 2)) == (11, 11)
    assert scaled((5, 8), 10, 50, surge=(3, 6)) == (22, 34)


def test_shares_are_rounded_half_away_from_zero() -> None:
    """1 x 5 / 2 = 2.5 becomes 3, and 5 x 5 / 10 = 2.5 as well; what is given away already limits both."""
    world = AppsWorld()
    wanted = world.deploy(5, strategy=rolling(0, 1))
    one, five = (replica_set("rs", size, annotations={MAX_REPLICAS: str(2 * size)}) for size in (1, 5))
    assert [share_of(one, wanted, 4, added) for added in (0, 3, 4)] == [2, 1, 0]
    assert [share_of(five, wanted, -5, added) for added in (0, -4, -5)] == [-2, -1, 0]
    assert share_of(replace(five, spec=replace(five.spec, replicas=0)), wanted, 4, 0) == 0


@pytest.mark.parametrize(("new", "sizes"), [(4, [1, 1, 2]), (2, [1, 0, 1])])
def test_of_equally_old_and_large_replica_sets_the_name_decides(new: int, sizes: list[int]) -> None:
    """ReplicaSets made within one second: the last by name is taken for the newest, so it grows first. When two are
    equally old the first by name shrinks first.
    """
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(new, version=3, strategy=rolling(0, 1))
    for name, version, created in (("b", 1, 0), ("a", 2, 1), ("c", 3, 1)):
        made = replica_set(
            name,
            1,
            owner=owner,
            version=version,
            created=START + created * SECOND,
            annotations={DESIRED_REPLICAS: "3", MAX_REPLICAS: "3"},
        )
        if new == 2:
            made = replace(made, created=START + (2 - created) * SECOND)
        world.server.create("ReplicaSet", made)
    world.informers.start(world.server, world.feed)
    sync(world)
    assert [each.spec.replicas for each in world.sets()] == sizes


def test_old_replica_sets_of_a_saturated_rollout_are_emptied() -> None:
    """The new one has all its replicas available: what is left of old ones goes, whatever the shares."""
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(3, version=2)
    world.server.create(
        "ReplicaSet",
        replica_set("old", 2, owner=owner, version=1, available=2, annotations={DESIRED_REPLICAS: "5"}),
    )
    new = replica_set(
        "new", 3, owner=owner, version=2, available=3, annotations={DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}
    )
    world.server.create("ReplicaSet", replace(new, created=START + SECOND))
    world.informers.start(world.server, world.feed)
    sync(world)
    assert [each.spec.replicas for each in world.sets()] == [0, 3]


def test_without_annotation_the_number_of_pods_is_taken_for_what_was() -> None:
    """The status says 5 pods: 2 and 3 of them become 4 and 6 of 10. With no pods either nobody gets a share, and the
    largest takes all that is to be added.
    """
    for status, after in ((5, [6, 4]), (0, [8, 2])):
        world = AppsWorld(with_replica_sets=False)
        owner = world.deploy(10, version=2, strategy=rolling(0, 1))
        stored = world.web()
        world.server.update_status("Deployment", replace(stored, status=replace(stored.status, replicas=status)))
        for name, version, size in (("old", 1, 3), ("new", 2, 2)):
            made = replica_set(name, size, owner=owner, version=version, annotations={DESIRED_REPLICAS: "5"})
            world.server.create("ReplicaSet", replace(made, created=START + version * SECOND))
        world.informers.start(world.server, world.feed)
        sync(world)
        assert [each.spec.replicas for each in world.sets()] == after


def test_scaling_to_nothing_and_back_with_pods() -> None:
    """Through the whole chain, with the sizes noted for the next scaling."""
    world = AppsWorld()
    world.deploy(3)
    world.start()
    for moment, replicas in ((1, 0), (2, 6)):
        world.scale(replicas)
        world.run(moment)
        assert len(world.active()) == replicas
        annotations = world.only_set().metadata.annotations
        assert annotations[DESIRED_REPLICAS] == str(replicas)
        assert annotations[MAX_REPLICAS] == str(replicas + -(-replicas // 4))


def test_an_autoscaler_that_writes_during_a_rollout_gets_all_its_pods() -> None:
    """10 become 20 half way; at the end there are 20 new ones."""
    world = AppsWorld()
    world.deploy(10)
    world.start()
    world.all_ready()
    world.run(1)
    world.roll_out(2)
    world.run(2)
    world.scale(20)
    for moment in range(3, 40):
        world.run(moment)
        world.all_ready()
    assert [each.spec.replicas for each in world.sets()] == [0, 20]
    assert world.web().status.available_replicas == 20


# ---- history -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "kept"), [(2, [3, 4, 5]), (0, [5]), (10, [1, 2, 3, 4, 5]), (None, [1, 2, 3, 4, 5])])
def test_so_many_old_replica_sets_are_kept(limit: int | None, kept: list[int]) -> None:
    """After five revisions: the present one, and of the others the latest."""
    world = AppsWorld()
    world.deploy(1, revision_history_limit=limit)
    world.start()
    moment = 1
    for version in range(2, 6):
        world.all_ready()
        world.run(moment)
        world.roll_out(version)
        world.run(moment + 1)
        world.all_ready()
        world.run(moment + 2)
        moment += 3
    world.all_ready()
    world.run(moment)
    assert [int(each.metadata.annotations[REVISION]) for each in world.sets()] == kept


def test_annotations_of_the_deployment_go_to_the_replica_set() -> None:
    """But not those by which the controller itself keeps its books."""
    world = AppsWorld()
    stored = world.deploy(1)
    noted = {"team": "x", DESIRED_REPLICAS: "77", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    world.server.update("Deployment", replace(stored, metadata=replace(stored.metadata, annotations=noted)))
    world.start()
    world.run(1)
    assert world.only_set().metadata.annotations == {
        "team": "x",
        REVISION: "1",
        DESIRED_REPLICAS: "1",
        MAX_REPLICAS: "2",
    }


# ---- several deployments, and what it costs ----------------------------------------------------------------------


def test_a_deployment_that_is_gone_rolls_out_nothing() -> None:
    """Its ReplicaSets stay: collecting them is another controller's work."""
    world = AppsWorld()
    world.deploy(2)
    world.start()
    world.server.remove("Deployment", WEB)
    world.server.remove("Pod", world.active()[0].key)
    world.run(1)
    assert len(world.active()) == 2
    assert world.server.find("Deployment", WEB) is None


def test_only_the_template_makes_a_new_replica_set() -> None:
    """minReadySeconds is written to the ReplicaSet that is there; another order of labels is the same template."""
    world = AppsWorld()
    world.deploy(1)
    world.start()
    world.respecify(min_ready_seconds=7)
    world.run(1)
    assert world.only_set().spec.min_ready_seconds == 7
    same = template(1)
    world.respecify(template=replace(same, metadata=replace(same.metadata, labels=dict(same.metadata.labels))))
    world.run(2)
    assert len(world.sets()) == 1


def test_a_slow_watch_makes_no_second_replica_set() -> None:
    """The Deployment is synced again before its ReplicaSet is seen: the name is taken, and that is all."""
    world = AppsWorld(latency=100 * MILLISECOND)
    world.deploy(2)
    world.start()
    assert world.deployments is not None
    for moment in (0.12, 0.15, 0.18):
        world.run(moment)
        world.deployments.queue.add(WEB)
    world.run(5)
    assert len(world.sets()) == 1
    assert len(world.active()) == 2
    assert world.web().status.collision_count == 0


def test_a_deployment_at_rest_is_left_alone() -> None:
    """A hundred more looks write nothing."""
    world = AppsWorld()
    world.deploy(2)
    world.start()
    world.all_ready()
    world.run(1)
    version = world.server.version
    assert world.deployments is not None
    for moment in range(100):
        world.deployments.queue.add(WEB)
        world.run(2 + moment)
    assert world.server.version == version
    assert isinstance(world.web(), Deployment)
    assert {pod.status.phase for pod in world.active()} == {RUNNING}
