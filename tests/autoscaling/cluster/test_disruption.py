"""Disruption budgets: what is allowed, when it is counted again, and what happens when it cannot be known."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import World, make_pod
from stowplan_autoscaling.cluster.controllers.disruption import DisruptionController
from stowplan_autoscaling.cluster.objects.apps import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec
from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import LabelSelector, ObjectMeta, OwnerReference, PodCondition
from stowplan_scheduler.timestamps import format_time

WEB = LabelSelector(match_labels={"app": "web"})


def started(world: World, **spec: int | str) -> DisruptionController:
    """A world with the controller and one budget over app=web."""
    controller = DisruptionController(world.kernel, world.informers, world.client())
    world.server.create("PodDisruptionBudget", budget("guard", WEB, spec))
    world.start()
    return controller


def budget(name: str, selector: LabelSelector | None, spec: dict[str, int | str]) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=selector, **spec),  # type: ignore[arg-type]
    )


def guard(world: World) -> PodDisruptionBudget:
    found: PodDisruptionBudget = world.server.get("PodDisruptionBudget", "default/guard")
    return found


@pytest.mark.parametrize(
    ("spec", "scale", "pods", "ready", "desired", "allowed"),
    [
        ({"max_unavailable": "25%"}, 10, 10, 10, 7, 3),
        ({"max_unavailable": "30%"}, 3, 3, 3, 2, 1),
        ({"min_available": "50%"}, 5, 5, 5, 3, 2),
        ({"min_available": 1}, 1, 1, 1, 1, 0),
        ({"max_unavailable": 0}, 4, 4, 4, 4, 0),
        ({"max_unavailable": 1}, 10, 12, 7, 9, 0),
        ({"max_unavailable": 1}, 10, 12, 12, 9, 3),
        ({"max_unavailable": "150%"}, 2, 2, 1, 0, 1),
        ({"max_unavailable": 1}, 0, 2, 2, 0, 0),
    ],
)
def test_what_a_budget_allows_follows_from_scale_and_ready_pods(
    spec: dict[str, int | str], scale: int, pods: int, ready: int, desired: int, allowed: int
) -> None:
    """Shares round up on both sides: 25 % of 10 are 3 that may be missing, 50 % of 5 are 3 that must be there.

    The last two rows: a share above 100 % leaves nothing to be desired; a scale of 0 allows nothing whatever runs.
    """
    world = World()
    world.pods(pods, owner=world.replica_set(scale), ready=ready)
    started(world, **spec)
    status = guard(world).status
    assert (status.desired_healthy, status.disruptions_allowed, status.current_healthy) == (desired, allowed, ready)
    assert status.expected_pods == (pods if spec == {"min_available": 1} else scale)
    wanted = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    assert (status.conditions[0].status, status.conditions[0].reason) == wanted


def test_the_scale_is_that_of_the_deployment_behind_two_replica_sets() -> None:
    """During a rollout 12 pods of two ReplicaSets run, and the denominator is still the Deployment's 10."""
    world = World()
    deployment = world.server.create(
        "Deployment", Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=DeploymentSpec(replicas=10))
    )
    above = OwnerReference(
        api_version="apps/v1", kind="Deployment", name="web", uid=deployment.metadata.uid, controller=True
    )
    for name, count in (("old", 8), ("new", 4)):
        stored = world.server.create(
            "ReplicaSet",
            ReplicaSet(
                metadata=ObjectMeta(name=name, namespace="default", owner_references=(above,)),
                spec=ReplicaSetSpec(replicas=count),
            ),
        )
        owner = OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name=name, uid=stored.metadata.uid, controller=True
        )
        for number in range(count):
            world.server.create("Pod", make_pod(f"{name}-{number}", labels={"app": "web"}, owner=owner, node="n1"))
            world.make_ready(f"{name}-{number}")
    started(world, max_unavailable="25%")
    status = guard(world).status
    assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (10, 7, 5)


def test_pods_that_do_not_match_wake_nothing_and_count_nowhere() -> None:
    """Neither the labels of another app nor the same labels in another namespace concern the budget."""
    world = World()
    world.pods(2, owner=world.replica_set(2), ready=2)
    controller = started(world, max_unavailable=1)
    before, version = controller.queue.syncs, guard(world).version
    world.server.create("Pod", make_pod("other", labels={"app": "db"}))
    world.server.create("Pod", make_pod("web-9", labels={"app": "web"}, namespace="elsewhere"))
    world.run(1)
    assert controller.queue.syncs == before
    assert guard(world).version == version


def test_a_pod_leaves_the_count_when_its_labels_do_not_match_any_more() -> None:
    """Upstream is woken by the pod's new labels only; the count follows at the next sync."""
    world = World()
    world.pods(3, owner=world.replica_set(3), ready=3)
    started(world, max_unavailable=1)
    assert guard(world).status.current_healthy == 3
    world.change("web-0", metadata=replace(world.pod("web-0").metadata, labels={"app": "quarantine"}))
    world.run(1)
    assert guard(world).status.current_healthy == 3
    world.make_ready("web-1", ready=False)
    world.run(2)
    assert guard(world).status.current_healthy == 1


def test_a_changed_selector_counts_anew() -> None:
    """The index of a budget's pods is built again from what has been seen."""
    world = World()
    world.pods(2, owner=world.replica_set(2), ready=2)
    world.pods(5, owner=world.replica_set(5, "db"), ready=4, prefix="db")
    started(world, max_unavailable=1)
    new = replace(guard(world).spec, selector=LabelSelector(match_labels={"app": "db"}))
    world.server.update("PodDisruptionBudget", replace(guard(world), spec=new))
    world.run(1)
    status = guard(world).status
    assert (status.expected_pods, status.current_healthy, status.observed_generation) == (5, 4, 2)


def test_an_eviction_that_led_to_nothing_is_forgotten_after_two_minutes() -> None:
    """The pod counts as gone until 2 min after its eviction; then it counts again, and an event says so."""
    world = World()
    world.pods(3, owner=world.replica_set(3), ready=3)
    started(world, max_unavailable=1)
    world.run(10)
    entry = {"web-1": format_time(world.kernel.now)}
    world.server.update_status(
        "PodDisruptionBudget",
        replace(guard(world), status=replace(guard(world).status, disrupted_pods=entry, disruptions_allowed=0)),
    )
    world.run(129.9)
    assert (guard(world).status.current_healthy, guard(world).status.disrupted_pods) == (2, entry)
    world.run(131)
    assert (guard(world).status.current_healthy, guard(world).status.disrupted_pods) == (3, None)
    assert guard(world).status.disruptions_allowed == 1
    assert [event[0] for event in world.events if event[3] == "NotDeleted"] == pytest.approx([130.005], abs=0.001)


def test_an_evicted_pod_leaves_the_list_once_it_is_being_deleted() -> None:
    """From then on its deletion timestamp keeps it out of the count."""
    world = World()
    world.pods(3, owner=world.replica_set(3), ready=3)
    started(world, max_unavailable=1)
    entry = {"web-1": format_time(world.kernel.now // SECOND * SECOND)}
    world.server.update_status(
        "PodDisruptionBudget", replace(guard(world), status=replace(guard(world).status, disrupted_pods=entry))
    )
    world.server.delete("Pod", "default/web-1")
    world.run(1)
    status = guard(world).status
    assert (status.current_healthy, status.disrupted_pods, status.disruptions_allowed) == (2, None, 0)


def test_without_a_known_controller_nothing_may_be_disrupted() -> None:
    """The fail-safe: the count stays as it was, the allowance is 0, and the condition says why."""
    world = World()
    world.pods(3, owner=world.replica_set(3), ready=3)
    started(world, max_unavailable=1)
    assert guard(world).status.disruptions_allowed == 1
    world.server.remove("ReplicaSet", "default/web")
    world.make_ready("web-0", ready=False)
    world.run(1)
    status = guard(world).status
    assert (status.disruptions_allowed, status.current_healthy) == (0, 3)
    assert (status.conditions[0].reason, status.conditions[0].message) == (
        "SyncFailed",
        'found no controllers for pod "web-0"',
    )
    # The write of the fail-safe wakes the controller once more; then nothing changes.
    assert world.reasons("PodDisruptionBudget") == ["CalculateExpectedPodCountFailed"] * 2


def test_bare_pods_do_not_enter_the_scale_and_are_complained_about() -> None:
    """Two pods without a controller beside a scale of 3: expected are 3."""
    world = World()
    world.pods(3, owner=world.replica_set(3), ready=3)
    for number in (7, 8):
        world.server.create("Pod", make_pod(f"web-{number}", labels={"app": "web"}, node="n1"))
        world.make_ready(f"web-{number}")
    started(world, max_unavailable=1)
    status = guard(world).status
    assert (status.expected_pods, status.current_healthy, status.disruptions_allowed) == (3, 5, 3)
    message = world.events[0][4]
    assert "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,}," in message


def test_jobs_have_no_scale() -> None:
    """The text is that of an API server asked for the scale subresource of a Job."""
    world = World()
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="j", controller=True)
    world.pods(1, owner=owner, ready=1)
    started(world, max_unavailable=1)
    assert guard(world).status.conditions[0].message == "jobs.batch does not implement the scale subresource"


def test_a_conflict_is_tried_again_without_the_fail_safe() -> None:
    """Changes take 20 ms to be seen: a pod wakes the controller while it still holds the old version of the budget."""
    world = World(latency=20 * MILLISECOND)
    world.pods(3, owner=world.replica_set(3), ready=3)
    started(world, max_unavailable=1)
    world.run(1)
    new = replace(guard(world).spec, max_unavailable=2)
    world.server.update("PodDisruptionBudget", replace(guard(world), spec=new))
    world.run(1.01)
    world.make_ready("web-0", ready=False)
    world.run(2)
    assert guard(world).status.disruptions_allowed == 1
    assert world.events == []


def test_a_stale_disruption_target_is_taken_back_after_two_minutes() -> None:
    """Only where nobody has deleted the pod; the kubelet's own condition stays."""
    world = World()
    world.pods(2, owner=world.replica_set(2), ready=2)
    started(world, max_unavailable=1)
    world.run(10)
    for name, reason in (("web-0", "EvictionByEvictionAPI"), ("web-1", "TerminationByKubelet")):
        condition = PodCondition(
            type="DisruptionTarget", status="True", reason=reason, last_transition_time=format_time(world.kernel.now)
        )
        world.change(name, status=replace(world.pod(name).status, conditions=(condition,)))
    world.run(129.9)
    assert [world.pod(name).status.conditions[0].status for name in ("web-0", "web-1")] == ["True", "True"]
    world.run(130.1)
    assert [world.pod(name).status.conditions[0].status for name in ("web-0", "web-1")] == ["False", "True"]


def test_a_pod_of_two_budgets_wakes_the_first_by_name() -> None:
    """Upstream takes one of them and complains; the other one learns of it with its next event."""
    world = World()
    world.pods(2, owner=world.replica_set(2), ready=2)
    world.server.create("PodDisruptionBudget", budget("also", WEB, {"max_unavailable": 1}))
    started(world, max_unavailable=1)
    world.make_ready("web-0", ready=False)
    world.run(1)
    also: PodDisruptionBudget = world.server.get("PodDisruptionBudget", "default/also")
    assert (also.status.current_healthy, guard(world).status.current_healthy) == (1, 2)
    assert "MultiplePodDisruptionBudgets" in world.reasons("Pod")
