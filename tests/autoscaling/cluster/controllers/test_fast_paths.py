"""Shortcuts of the Deployment and ReplicaSet controllers change nothing but the time that syncs take.

The same random history is played in two worlds: one as it is, and one whose controllers remember nothing, so that every
sync is done in full. All objects, versions and events must be equal after every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.apps_world import RECREATED, AppsWorld, forget_everything, replica_set, rolling
from stowplan_autoscaling.cluster.controllers.deployment.arithmetic import DESIRED_REPLICAS, MAX_REPLICAS
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.pods import FAILED
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import PodStatus

OPERATIONS = (
    "ready", "ready", "ready", "all ready", "all ready", "unready", "fail", "remove", "bind", "scale", "scale",
    "roll out", "roll out", "pause", "strategy", "min ready", "history", "annotate", "deadline", "quota", "touch",
    "long wait", "edit set",
)  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9), st.sampled_from([0.0, 0.002, 0.3, 1.0, 20.0])),
    min_size=1,
    max_size=25,
)
Step = tuple[str, int, float]


class Played:
    """One world and how steps are played in it."""

    def __init__(self, latency: int, limit: tuple[float, int] | None, *, forgetful: bool) -> None:
        self.room = 10**6
        self.world = AppsWorld(latency=latency, limit=limit, admit=self._admit)
        if forgetful:
            forget_everything(self.world)
        self.world.deploy(3, progress_deadline_seconds=30)
        self.world.start()
        self.moment = 0.001

    def _admit(self, kind: str, obj: Any) -> Any:
        if kind == "Pod" and len(self.world.server.all("Pod")) >= self.room:
            raise ForbiddenError("exceeded quota")
        return obj

    def play(self, step: Step) -> None:
        what, number, wait = step
        world = self.world
        pods = list(world.server.all("Pod").values())
        pod = pods[number % len(pods)] if pods else None
        if what == "all ready":
            world.all_ready()
        elif what in {"ready", "unready", "fail", "remove", "bind"} and pod is not None:
            self._change(what, pod.metadata.name)
        elif what == "scale":
            world.scale(number)
        elif what == "roll out":
            world.roll_out(number % 3)
        elif what == "touch":
            assert world.deployments is not None
            assert world.replica_sets is not None
            world.deployments.queue.add("default/web")
            for each in world.sets():
                world.replica_sets.queue.add(f"default/{each.metadata.name}")
        elif what == "long wait":
            self.moment += 45
        elif what == "quota":
            self.room = 10**6 if self.room < 10**6 else number
        elif what == "edit set" and world.sets():
            each = world.sets()[number % len(world.sets())]
            world.server.scale("ReplicaSet", f"default/{each.metadata.name}", number % 4)
        else:
            self._respecify(what, number)
        self.moment += wait
        world.run(self.moment)

    def _change(self, what: str, name: str) -> None:
        world = self.world
        if what in {"ready", "unready"}:
            world.make_ready(name, ready=what == "ready")
        elif what == "fail":
            world.change(name, status=PodStatus(phase=FAILED), ready="False")
        elif what == "bind" and not world.pod(name).spec.node_name:
            world.server.bind(f"default/{name}", "n1")
        else:
            world.server.remove("Pod", f"default/{name}")

    def _respecify(self, what: str, number: int) -> None:
        world, spec = self.world, self.world.web().spec
        if what == "pause":
            world.respecify(paused=not spec.paused)
        elif what == "strategy":
            kinds = [rolling("25%", "25%"), rolling(1, 0), rolling(0, 2), RECREATED]
            world.respecify(strategy=kinds[number % 4])
        elif what == "min ready":
            world.respecify(min_ready_seconds=0 if spec.min_ready_seconds else number)
        elif what == "history":
            world.respecify(revision_history_limit=number % 3)
        elif what == "deadline":
            world.respecify(progress_deadline_seconds=None if number == 0 else 5 + number)
        elif what == "annotate":
            held = world.web()
            noted = {**held.metadata.annotations, "note": str(number)}
            world.server.update("Deployment", replace(held, metadata=replace(held.metadata, annotations=noted)))

    def state(self) -> tuple[Any, ...]:
        return self.world.server.version, self.world.server.objects, self.world.events


def compare(latency: int, limit: tuple[float, int] | None, steps: Sequence[Step]) -> AppsWorld:
    quick, slow = (Played(latency, limit, forgetful=forgetful) for forgetful in (False, True))
    for step in steps:
        quick.play(step)
        slow.play(step)
        assert quick.state() == slow.state()
    return quick.world


@settings(max_examples=60)
@given(STEPS)
def test_without_latency_nothing_differs(steps: list[Step]) -> None:
    """As in comparisons with the real controllers: what is written is seen at once."""
    compare(0, None, steps)


@settings(max_examples=40)
@given(STEPS, st.sampled_from([1, 5, 60, 500]))
def test_with_a_slow_watch_nothing_differs(steps: list[Step], latency: int) -> None:
    """Then syncs act on old objects, and conflicts and stale reads are common."""
    compare(latency * MILLISECOND, None, steps)


@settings(max_examples=40)
@given(STEPS, st.sampled_from([0, 5, 60]))
def test_with_a_throttled_client_nothing_differs(steps: list[Step], latency: int) -> None:
    """Then syncs take time, and what they have read gets old while they wait for a token."""
    compare(latency * MILLISECOND, (4.0, 3), steps)


def test_the_shortcuts_are_taken() -> None:
    """The properties above would also hold if every sync were done in full."""
    played = Played(0, None, forgetful=False)
    world = played.world
    assert world.deployments is not None
    assert world.replica_sets is not None
    for step in (("all ready", 0, 1.0), ("roll out", 2, 1.0), ("all ready", 0, 1.0), ("all ready", 0, 1.0)):
        played.play(step)
    played.play(("all ready", 0, 1.0))
    assert len(world.deployments._settled) == len(world.deployments._steady) == 1
    assert set(world.replica_sets._settled) == {f"default/{each.metadata.name}" for each in world.sets()}
    assert world.deployments.sync("default/web") is None


def test_a_pod_that_is_bound_costs_its_replica_set_no_sync() -> None:
    """Only what its status counts makes a ReplicaSet look at its pods again."""
    played = Played(0, None, forgetful=False)
    world = played.world
    assert world.replica_sets is not None
    played.play(("touch", 0, 1.0))
    key = f"default/{world.sets()[0].metadata.name}"
    before = world.replica_sets._settled[key]
    for step in (("bind", 0, 1.0), ("bind", 1, 1.0)):
        played.play(step)
    assert [bool(pod.spec.node_name) for pod in world.server.all("Pod").values()] == [True, True, False]
    assert world.replica_sets._settled[key] is before
    played.play(("ready", 2, 1.0))
    assert world.replica_sets._settled[key] is not before


def test_an_old_replica_set_that_could_not_be_cleaned_up_is_not_forgotten() -> None:
    """No history is kept; the old ReplicaSet has not observed its last size yet, and is deleted when it has."""
    world = AppsWorld(with_replica_sets=False)
    owner = world.deploy(1, version=2, revision_history_limit=0)
    sizes = {DESIRED_REPLICAS: "1", MAX_REPLICAS: "2"}
    old = replica_set("old", 0, owner=owner, version=1, annotations=sizes)
    world.server.create("ReplicaSet", replace(old, status=replace(old.status, observed_generation=0)))
    new = replica_set("new", 1, owner=owner, version=2, available=1, annotations=sizes)
    world.server.create("ReplicaSet", replace(new, created=new.created + SECOND))
    world.start()
    world.run(1)
    assert [each.metadata.name for each in world.sets()] == ["old", "new"]
    held = world.sets()[0]
    world.server.update_status("ReplicaSet", replace(held, status=replace(held.status, observed_generation=1)))
    world.run(2)
    assert [each.metadata.name for each in world.sets()] == ["new"]
