"""The StatefulSet controller: order of creation, scaling, updates, revisions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.cluster.controllers.lab import START, Lab
from stowplan_autoscaling.cluster.controllers.stateful_set import StatefulSetController
from stowplan_autoscaling.cluster.objects.stateful_set import (
    RollingUpdateStatefulSet,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
    StatefulSetStatus,
    StatefulSetUpdateStrategy,
)
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import Container, LabelSelector, ObjectMeta, PodSpec, PodTemplateSpec

LABELS = {"app": "db"}


def template(image: str = "one") -> PodTemplateSpec:
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=LABELS), spec=PodSpec(containers=(Container(name="db", image=image),))
    )


def lab_with(replicas: int, *, startup: float = 10, terminate: float = 2, **spec: Any) -> Lab:
    lab = Lab(startup=startup, terminate=terminate)
    StatefulSetController(lab.kernel, lab.informers, lab.client)
    lab.server.create(
        "StatefulSet",
        StatefulSet(
            metadata=ObjectMeta(name="db", namespace="default"),
            spec=StatefulSetSpec(
                replicas=replicas, selector=LabelSelector(match_labels=LABELS), template=template(), **spec
            ),
        ),
    )
    lab.begin()
    return lab


def change(lab: Lab, **fields: Any) -> None:
    found = lab.stored("StatefulSet", "db")
    lab.server.update("StatefulSet", replace(found, spec=replace(found.spec, **fields)))


def status(lab: Lab) -> StatefulSetStatus:
    found: StatefulSetStatus = lab.stored("StatefulSet", "db").status
    return found


def rolling(**fields: Any) -> StatefulSetUpdateStrategy:
    return StatefulSetUpdateStrategy(type="RollingUpdate", rolling_update=RollingUpdateStatefulSet(**fields))


def images(lab: Lab) -> list[str]:
    pods = sorted(lab.pods(), key=lambda pod: pod.metadata.name)
    return [pod.spec.containers[0].image for pod in pods]


def test_ordered_set_starts_one_pod_after_the_other() -> None:
    """The next pod is made at the moment the one before is ready."""
    lab = lab_with(3)
    lab.run(60)
    assert lab.created == [(0, "db-0"), (10, "db-1"), (20, "db-2")]
    assert (status(lab).replicas, status(lab).ready_replicas, status(lab).updated_replicas) == (3, 3, 3)
    pod = lab.server.get("Pod", "default/db-1")
    assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "1"
    assert pod.metadata.labels["controller-revision-hash"] == status(lab).current_revision
    message = lab.events[0][3]
    assert message == "Create Pod db-0 in StatefulSet db successful"


def test_parallel_set_starts_all_pods_at_once() -> None:
    """Nobody waits for anybody."""
    lab = lab_with(5, pod_management_policy="Parallel")
    lab.run(30)
    assert [at for at, _ in lab.created] == [0] * 5
    assert status(lab).ready_replicas == 5


def test_pods_must_be_available_before_the_next_one() -> None:
    """minReadySeconds 15 on top of 10 s to start: every 25 s."""
    lab = lab_with(3, min_ready_seconds=15)
    lab.run(100)
    assert [at for at, _ in lab.created] == [0, 25, 50]
    assert status(lab).available_replicas == 3


def test_scaling_down_deletes_from_the_highest_ordinal_one_at_a_time() -> None:
    """Each deletion waits until the pod before it is gone: 2 s each."""
    lab = lab_with(4)
    lab.run(50)
    change(lab, replicas=1)
    lab.run(51)
    assert lab.names() == ["db-0", "db-1", "db-2"]
    lab.run(53)
    assert lab.names() == ["db-0", "db-1"]
    lab.run(60)
    assert (lab.names(), status(lab).replicas) == (["db-0"], 1)


def test_pod_that_ended_is_deleted_and_made_again() -> None:
    """Whatever its exit code was."""
    lab = lab_with(2)
    lab.run(30)
    lab.end("default/db-0", code=0)
    lab.run(31)
    assert lab.created[-1] == (30.0, "db-0")
    assert lab.reasons("StatefulSet")[-2:] == ["SuccessfulDelete", "SuccessfulCreate"]


def test_ordinals_begin_where_the_spec_says() -> None:
    """ordinals.start 5: pods 5 and 6; moving the range deletes what is outside it."""
    lab = lab_with(2, ordinals=StatefulSetOrdinals(start=5))
    lab.run(40)
    assert lab.names() == ["db-5", "db-6"]
    change(lab, ordinals=StatefulSetOrdinals(start=6))
    lab.run(80)
    assert lab.names() == ["db-6", "db-7"]


def test_rolling_update_goes_from_the_highest_ordinal_down() -> None:
    """One at a time: 2 s to stop, 10 s to start."""
    lab = lab_with(3)
    lab.run(40)
    before = status(lab).current_revision
    change(lab, template=template("two"))
    lab.run(41)
    during = status(lab)
    assert (during.current_revision, during.update_revision == before) == (before, False)
    lab.run(100)
    assert lab.created[3:] == [(42, "db-2"), (54, "db-1"), (66, "db-0")]
    assert status(lab).current_revision == status(lab).update_revision
    assert images(lab) == ["two"] * 3


def test_partition_leaves_lower_ordinals_alone() -> None:
    """Partition 2 of 3: only db-2 is updated; a pod below that is lost comes back in the old revision."""
    lab = lab_with(3, update_strategy=rolling(partition=2))
    lab.run(40)
    change(lab, template=template("two"))
    lab.run(80)
    assert images(lab) == ["one", "one", "two"]
    lab.server.delete("Pod", "default/db-0")
    lab.run(120)
    assert images(lab) == ["one", "one", "two"]
    assert (status(lab).current_replicas, status(lab).updated_replicas) == (2, 1)


def test_max_unavailable_updates_several_at_once() -> None:
    """2 of 5 (40 %): db-4 and db-3 go together, and the next pair waits until both are available."""
    lab = lab_with(5, startup=5, update_strategy=rolling(max_unavailable="40%"), pod_management_policy="Parallel")
    lab.run(40)
    change(lab, template=template("two"))
    lab.run(40.5)
    assert lab.names() == ["db-0", "db-1", "db-2"]
    lab.run(100)
    assert images(lab) == ["two"] * 5
    assert [at for at, _ in lab.created[5:]] == [42, 42, 49, 49, 56]


def test_on_delete_updates_only_what_somebody_deletes() -> None:
    """The new revision waits for the old pods to go."""
    lab = lab_with(2, update_strategy=StatefulSetUpdateStrategy(type="OnDelete"))
    lab.run(30)
    change(lab, template=template("two"))
    lab.run(60)
    assert images(lab) == ["one", "one"]
    lab.server.delete("Pod", "default/db-1")
    lab.run(90)
    assert images(lab) == ["one", "two"]


def test_broken_update_stops_at_its_first_pod() -> None:
    """A pod that never becomes ready uses up maxUnavailable 1: the others stay as they are."""
    lab = lab_with(3)
    lab.run(40)
    lab._startup = 10_000
    change(lab, template=template("two"))
    lab.run(200)
    assert images(lab) == ["one", "one", "two"]
    assert status(lab).ready_replicas == 2


def test_going_back_reuses_the_old_revision_under_a_new_number() -> None:
    """Two revisions are kept for two templates, however often they change."""
    lab = lab_with(1)
    lab.run(20)
    first = status(lab).current_revision
    for image, until in (("two", 60), ("one", 100)):
        change(lab, template=template(image))
        lab.run(until)
    numbers = {each.metadata.name: each.revision for each in lab.server.all("ControllerRevision").values()}
    assert status(lab).current_revision == first
    assert sorted(numbers.values()) == [2, 3]
    assert numbers[first] == 3


def test_history_is_cut_to_its_limit() -> None:
    """Revisions that no pod has are deleted beyond the limit, the oldest first."""
    lab = lab_with(1, revision_history_limit=1)
    for number in range(4):
        change(lab, template=template(str(number)))
        lab.run(40 * number + 39)
    assert sorted(each.revision for each in lab.server.all("ControllerRevision").values()) == [4, 5]


@pytest.mark.parametrize(("policy", "others"), [("OrderedReady", []), ("Parallel", ["db-2"])])
def test_lost_pod_comes_back_when_it_is_gone(policy: str, others: list[str]) -> None:
    """Its name is taken until its grace of 2 s has passed; a scale-up waits for that only in order."""
    lab = lab_with(2, pod_management_policy=policy)
    lab.run(38)
    lab.server.delete("Pod", "default/db-0")
    change(lab, replicas=3)
    lab.run(39.9)
    assert [name for _, name in lab.created[2:]] == others
    lab.run(70)
    assert (40, "db-0") in lab.created
    assert lab.names() == ["db-0", "db-1", "db-2"]


def test_set_at_rest_causes_no_writes_and_no_work() -> None:
    """A sync that found nothing to do is not repeated for the same objects."""
    lab = lab_with(3)
    lab.run(60)
    version = lab.server.version
    lab.run(600)
    assert lab.server.version == version
    assert lab.kernel.now == START + 600 * SECOND
