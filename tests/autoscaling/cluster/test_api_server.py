"""The API server: versions, halves of an object, deletions with grace, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_node, make_pod
from stowplan_autoscaling.cluster.errors import AlreadyExistsError, ConflictError, ForbiddenError, NotFoundError
from stowplan_autoscaling.cluster.objects.apps import Deployment, DeploymentSpec, DeploymentStatus
from stowplan_autoscaling.cluster.pods import RUNNING, SUCCEEDED
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import ObjectMeta, PodCondition, key_of
from stowplan_scheduler.timestamps import format_time

WEB = "default/web"


def deployed() -> tuple[World, Deployment]:
    world = World()
    made = Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=DeploymentSpec(replicas=3))
    return world, world.server.create("Deployment", made)


def test_a_new_object_gets_uid_version_generation_and_time() -> None:
    """Times have whole seconds, as the API shows them."""
    world = World()
    world.run(1.7)
    pod = world.server.create("Pod", make_pod("a"))
    assert (pod.metadata.uid, pod.metadata.generation, pod.version) == ("Pod/default/a", 1, 1)
    assert pod.created == START + SECOND
    assert world.server.get("Pod", "default/a") is pod
    assert list(world.server.all("Pod")) == ["default/a"]


def test_a_uid_that_is_given_stays() -> None:
    """Objects of a dump keep theirs."""
    pod = make_pod("a")
    made = World().server.create("Pod", replace(pod, metadata=replace(pod.metadata, uid="u1")))
    assert made.metadata.uid == "u1"


def test_names_are_generated_one_after_the_other() -> None:
    """Five digits after what the object says, counted by prefix."""
    world = World()
    template = make_pod("")
    names = [
        world.server.create(
            "Pod", replace(template, metadata=replace(template.metadata, generate_name=prefix))
        ).metadata.name
        for prefix in ("a-", "b-", "a-")
    ]
    assert names == ["a-00001", "b-00001", "a-00002"]


def test_a_name_is_taken_once() -> None:
    """By kind and namespace; a refused object leaves no trace."""
    world = World()
    world.server.create("Pod", make_pod("a"))
    world.server.create("Pod", make_pod("a", namespace="other"))
    with pytest.raises(AlreadyExistsError, match='Pod "default/a" already exists'):
        world.server.create("Pod", make_pod("a"))
    assert world.server.version == 2


def test_admission_completes_or_refuses() -> None:
    """What it returns is stored; what it raises reaches the caller, and nothing is stored."""

    def admit(kind: str, obj: Any) -> Any:
        if obj.metadata.name == "no":
            raise ForbiddenError("exceeded quota")
        return replace(obj, spec=replace(obj.spec, scheduler_name="mine"))

    world = World(admit=admit)
    assert world.server.create("Pod", make_pod("a")).spec.scheduler_name == "mine"
    with pytest.raises(ForbiddenError, match="exceeded quota"):
        world.server.create("Pod", make_pod("no"))
    assert world.server.find("Pod", "default/no") is None
    assert world.server.version == 1


def test_keys_of_objects_with_and_without_namespace() -> None:
    """As everywhere in Kubernetes' caches."""
    assert key_of(make_pod("a").metadata) == "default/a"
    assert key_of(make_node("n").metadata) == "n"


@pytest.mark.parametrize("action", ["get", "update", "update_status", "put", "scale", "bind", "delete"])
def test_what_is_not_there_is_not_found(action: str) -> None:
    """404, with kind and key in the text; `find` and `remove` only say so."""
    world = World()
    arguments: dict[str, tuple[Any, ...]] = {
        "get": ("Pod", "default/a"),
        "update": ("Pod", make_pod("a")),
        "update_status": ("Pod", make_pod("a")),
        "put": ("Pod", make_pod("a")),
        "scale": ("Pod", "default/a", 3),
        "bind": ("default/a", "n1"),
        "delete": ("Pod", "default/a"),
    }
    with pytest.raises(NotFoundError, match='Pod "default/a" not found'):
        getattr(world.server, action)(*arguments[action])
    assert world.server.find("Pod", "default/a") is None
    assert not world.server.remove("Pod", "default/a")
    assert world.server.version == 0


def test_an_update_leaves_the_status_and_counts_generations_of_the_spec() -> None:
    """Labels do not make a generation, replicas do; a uid cannot be changed."""
    world, web = deployed()
    labelled = replace(
        web,
        metadata=replace(web.metadata, labels={"a": "b"}, uid="other"),
        status=DeploymentStatus(replicas=9),
    )
    stored = world.server.update("Deployment", labelled)
    assert (stored.metadata.labels, stored.metadata.uid) == ({"a": "b"}, web.metadata.uid)
    assert (stored.status.replicas, stored.metadata.generation) == (0, 1)
    assert world.server.scale("Deployment", WEB, 5).metadata.generation == 2
    assert world.server.get("Deployment", WEB).spec.replicas == 5


def test_a_status_update_leaves_the_rest() -> None:
    """But annotations come along, as a Deployment's revision does."""
    world, web = deployed()
    changed = replace(
        web,
        metadata=replace(web.metadata, annotations={"revision": "1"}, labels={"a": "b"}),
        spec=replace(web.spec, replicas=9),
        status=DeploymentStatus(replicas=2),
    )
    stored = world.server.update_status("Deployment", changed)
    assert (stored.status.replicas, stored.spec.replicas, stored.metadata.labels) == (2, 3, {})
    assert stored.metadata.annotations == {"revision": "1"}
    assert stored.spec is web.spec, "who compares specs by identity sees that nothing has changed"


def test_a_status_is_written_over_what_the_writer_has_seen() -> None:
    """All else stays; what has changed since is a conflict, as with the whole object."""
    world, web = deployed()
    stored = world.server.write_status("Deployment", web, DeploymentStatus(replicas=2))
    assert (stored.status.replicas, stored.version) == (2, web.version + 1)
    assert (stored.spec, stored.metadata) == (web.spec, web.metadata)
    assert world.server.get("Deployment", WEB) is stored
    with pytest.raises(ConflictError):
        world.server.write_status("Deployment", web, DeploymentStatus(replicas=1))
    with pytest.raises(NotFoundError):
        world.server.write_status("Deployment", replace(web, metadata=ObjectMeta(name="x")), DeploymentStatus())


def test_an_old_version_is_a_conflict_and_no_version_overwrites() -> None:
    """The text is the API server's."""
    world, web = deployed()
    world.server.scale("Deployment", WEB, 4)
    for write in (world.server.update, world.server.update_status):
        with pytest.raises(ConflictError, match='cannot be fulfilled on Deployment "default/web": the object has been'):
            write("Deployment", replace(web, spec=replace(web.spec, replicas=7), status=DeploymentStatus(replicas=1)))
    assert world.server.get("Deployment", WEB).spec.replicas == 4
    assert world.server.update("Deployment", replace(web, version=0)).spec.replicas == 3


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    """Nobody is told of it, either."""
    world, web = deployed()
    told: list[str] = []
    world.server.observers.append(lambda kind, old, new: told.append(kind))
    assert world.server.update("Deployment", replace(web)) is web
    assert world.server.update_status("Deployment", replace(web)) is web
    assert world.server.scale("Deployment", WEB, 3) is web
    assert (world.server.version, told) == (1, [])


def test_observers_are_told_at_once_of_old_and_new() -> None:
    """None stands for what was not there, or is no longer."""
    world = World()
    told: list[tuple[str, bool, bool]] = []
    world.server.observers.append(lambda kind, old, new: told.append((kind, old is None, new is None)))
    world.server.create("Pod", make_pod("a"))
    world.change("a", restarts=1)
    world.server.remove("Pod", "default/a")
    assert told == [("Pod", True, False), ("Pod", False, False), ("Pod", False, True)]


def test_a_binding_takes_the_scheduling_conditions_away() -> None:
    """A nomination and PodScheduled=False are over; a second binding is a conflict."""
    world = World()
    pod = make_pod("a")
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    status = replace(pod.status, nominated_node_name="n9", conditions=(condition,))
    world.server.create("Pod", replace(pod, status=status, unschedulable=True))
    world.run(2.5)
    bound = world.server.bind("default/a", "n1")
    assert (bound.spec.node_name, bound.scheduled, bound.unschedulable) == ("n1", START + 2 * SECOND, False)
    assert (bound.status.nominated_node_name, bound.status.conditions) == ("", ())
    with pytest.raises(ConflictError, match='pod a is already assigned to node "n1"'):
        world.server.bind("default/a", "n2")


@pytest.mark.parametrize(
    ("node", "phase", "grace", "gone"),
    [
        ("", "Pending", None, True),
        ("n1", RUNNING, None, False),
        ("n1", RUNNING, 0, True),
        ("n1", SUCCEEDED, None, True),
        ("n1", "Failed", 60, True),
    ],
)
def test_only_a_pod_that_may_run_gets_a_grace_period(node: str, phase: str, grace: int | None, gone: bool) -> None:
    """Without a node, or finished, or without grace there is nothing to wait for."""
    world = World()
    pod = make_pod("a", node=node)
    world.server.create("Pod", replace(pod, status=replace(pod.status, phase=phase)))
    world.server.delete("Pod", "default/a", grace=grace)
    assert (world.server.find("Pod", "default/a") is None) is gone


@pytest.mark.parametrize(
    ("own", "asked", "seconds"), [(None, None, 30), (5, None, 5), (5, 60, 60), (-1, None, 1), (5, -9, 1)]
)
def test_a_deleted_pod_stays_until_the_end_of_its_grace(own: int | None, asked: int | None, seconds: int) -> None:
    """30 s unless the pod or the request says otherwise; less than nothing is a second. A second deletion changes
    nothing.
    """
    world = World()
    pod = make_pod("a", node="n1")
    pod = replace(pod, spec=replace(pod.spec, termination_grace_period_seconds=own))
    world.server.create("Pod", pod)
    world.run(10.5)
    world.server.delete("Pod", "default/a", grace=asked)
    marked = world.pod("a")
    assert marked.deleted == START + (10 + seconds) * SECOND
    assert marked.metadata.deletion_timestamp == format_time(START + (10 + seconds) * SECOND)
    assert marked.metadata.deletion_grace_period_seconds == seconds
    assert not marked.is_active
    world.server.delete("Pod", "default/a")
    assert world.pod("a") is marked


def test_finalizers_keep_a_pod_that_has_no_grace_left() -> None:
    """It goes with the last of them, when whoever set it takes it away."""
    world = World()
    pod = make_pod("a")
    world.server.create("Pod", replace(pod, metadata=replace(pod.metadata, finalizers=("job",))))
    world.server.delete("Pod", "default/a")
    held = world.pod("a")
    assert (held.deleted, held.metadata.deletion_grace_period_seconds) == (START, 0)
    world.server.put("Pod", replace(held, metadata=replace(held.metadata, finalizers=())))
    assert world.server.find("Pod", "default/a") is None


def test_a_second_deletion_without_grace_ends_the_first_ones_grace() -> None:
    """A pod with a finalizer whose kubelet has stopped it: the deletion time moves back to when it was asked for."""
    world = World()
    pod = make_pod("a", node="n1")
    world.server.create("Pod", replace(pod, metadata=replace(pod.metadata, finalizers=("job",))))
    world.run(5)
    world.server.delete("Pod", "default/a")
    world.run(8)
    world.server.delete("Pod", "default/a", grace=0)
    assert (world.pod("a").deleted, world.pod("a").metadata.deletion_grace_period_seconds) == (START + 5 * SECOND, 0)


def test_a_deletion_may_name_the_uid() -> None:
    """Another pod of the same name is left alone."""
    world = World()
    world.server.create("Pod", make_pod("a"))
    with pytest.raises(ConflictError, match="uid precondition failed"):
        world.server.delete("Pod", "default/a", uid="old")
    world.server.delete("Pod", "default/a", uid="Pod/default/a")
    assert world.server.find("Pod", "default/a") is None


def test_other_objects_are_deleted_at_once() -> None:
    """Grace is for pods."""
    world, _ = deployed()
    world.server.delete("Deployment", WEB)
    assert world.server.find("Deployment", WEB) is None
    assert world.server.version == 2


def test_a_patch_goes_through_what_patches_do() -> None:
    """A comparison with a real server cuts times to seconds there."""
    world = World()
    world.server.create("Pod", make_pod("a"))
    world.server.patched = lambda pod: replace(pod, ready_since=7)
    assert world.server.patch(replace(world.pod("a"), restarts=2)).ready_since == 7
    assert (world.pod("a").restarts, world.pod("a").ready_since) == (2, 7)
