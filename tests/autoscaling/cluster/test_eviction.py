"""The eviction subresource and drains: what budgets refuse, what they charge, and when a drain ends."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_node, make_pod
from stowplan_autoscaling.cluster.controllers.disruption import DisruptionController
from stowplan_autoscaling.cluster.drain import Drain
from stowplan_autoscaling.cluster.errors import ApiError, ForbiddenError, NotFoundError
from stowplan_autoscaling.cluster.eviction import EvictionRefusedError, evict
from stowplan_autoscaling.cluster.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import LabelSelector, ObjectMeta, OwnerReference

WEB = LabelSelector(match_labels={"app": "web"})


def add_budget(world: World, name: str = "guard", policy: str | None = None, **status: int) -> None:
    """A budget over app=web with a status, as its controller would have left it."""
    spec = PodDisruptionBudgetSpec(selector=WEB, max_unavailable=1, unhealthy_pod_eviction_policy=policy)
    stored = world.server.create(
        "PodDisruptionBudget", PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
    )
    new = PodDisruptionBudgetStatus(**{"observed_generation": 1, "expected_pods": 4, **status})  # type: ignore[arg-type]
    world.server.update_status("PodDisruptionBudget", replace(stored, status=new))


def guard(world: World) -> PodDisruptionBudget:
    found: PodDisruptionBudget = world.server.get("PodDisruptionBudget", "default/guard")
    return found


def four_pods(ready: int = 3) -> World:
    world = World()
    world.pods(4, owner=world.replica_set(4), ready=4)
    for number in range(ready, 4):
        world.make_ready(f"web-{number}", ready=False)
    return world


def try_evict(world: World, name: str) -> None:
    evict(world.server, f"default/{name}", world.kernel.now)


def test_an_eviction_charges_the_budget_at_once() -> None:
    """The allowance falls, the pod is written down with the time, its condition set, and its deletion begun."""
    world = four_pods(ready=4)
    add_budget(world, disruptions_allowed=1, current_healthy=4, desired_healthy=3)
    try_evict(world, "web-0")
    status = guard(world).status
    assert (status.disruptions_allowed, status.disrupted_pods) == (0, {"web-0": "2000-01-01T00:00:00Z"})
    assert (status.conditions[0].status, status.conditions[0].reason) == ("False", "InsufficientPods")
    pod = world.pod("web-0")
    assert (pod.status.conditions[0].type, pod.status.conditions[0].reason) == (
        "DisruptionTarget",
        "EvictionByEvictionAPI",
    )
    assert pod.deleted == START + 30 * SECOND
    with pytest.raises(EvictionRefusedError, match="it would violate the pod's disruption budget"):
        try_evict(world, "web-1")


def test_a_refusal_says_how_many_healthy_pods_are_wanted() -> None:
    """And suggests no time to wait; nothing has changed."""
    world = four_pods()
    add_budget(world, disruptions_allowed=0, current_healthy=3, desired_healthy=3)
    version = world.server.version
    with pytest.raises(EvictionRefusedError) as refused:
        try_evict(world, "web-0")
    assert refused.value.cause == "The disruption budget guard needs 3 healthy pods and has 3 currently"
    assert refused.value.retry_after == 0
    assert world.server.version == version


def test_a_budget_that_is_not_up_to_date_refuses_for_10_s() -> None:
    """Its controller has not seen its latest spec."""
    world = four_pods(ready=4)
    add_budget(world, observed_generation=0, disruptions_allowed=1)
    with pytest.raises(EvictionRefusedError) as refused:
        try_evict(world, "web-0")
    assert refused.value.retry_after == 10


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
def test_pods_that_disrupt_nothing_are_deleted_whatever_budgets_say(phase: str) -> None:
    """Not even two budgets over one pod, which is otherwise an error, keep it."""
    world = four_pods()
    add_budget(world, disruptions_allowed=0)
    add_budget(world, "second", disruptions_allowed=0)
    world.change("web-0", status=replace(world.pod("web-0").status, phase=phase))
    try_evict(world, "web-0")
    found = world.server.find("Pod", "default/web-0")
    assert found is None or found.deleted is not None


def test_two_budgets_over_one_pod_are_an_error() -> None:
    """The API server answers 500; no budget is charged."""
    world = four_pods()
    add_budget(world, disruptions_allowed=1)
    add_budget(world, "second", disruptions_allowed=1)
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
        try_evict(world, "web-0")
    assert guard(world).status.disruptions_allowed == 1


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "refused"),
    [
        (None, 3, 3, False),
        ("IfHealthyBudget", 3, 3, False),
        (None, 2, 3, True),
        (None, 0, 0, True),
        ("AlwaysAllow", 2, 3, False),
    ],
)
def test_an_unhealthy_pod_goes_if_the_budget_does_not_need_it(
    policy: str | None, healthy: int, desired: int, refused: bool
) -> None:
    """It costs the budget nothing, and needs healthy >= desired > 0 unless the policy is AlwaysAllow."""
    world = four_pods()
    add_budget(world, policy=policy, disruptions_allowed=0, current_healthy=healthy, desired_healthy=desired)
    if refused:
        with pytest.raises(EvictionRefusedError):
            try_evict(world, "web-3")
    else:
        try_evict(world, "web-3")
        assert world.pod("web-3").deleted is not None
    assert guard(world).status.disrupted_pods is None


def test_more_than_2000_unconfirmed_evictions_are_forbidden() -> None:
    """2001 entries in disruptedPods: 403, not 429."""
    world = four_pods(ready=4)
    add_budget(world, disruptions_allowed=1)
    status = replace(guard(world).status, disrupted_pods={f"p{n}": "2000-01-01T00:00:00Z" for n in range(2001)})
    world.server.update_status("PodDisruptionBudget", replace(guard(world), status=status))
    with pytest.raises(ForbiddenError, match="DisruptedPods map too big"):
        try_evict(world, "web-0")


def test_a_dry_run_checks_and_changes_nothing() -> None:
    """Neither the budget nor the pod; a pod that does not exist is still not found."""
    world = four_pods(ready=4)
    add_budget(world, disruptions_allowed=1)
    version = world.server.version
    evict(world.server, "default/web-0", world.kernel.now, dry_run=True)
    assert world.server.version == version
    with pytest.raises(NotFoundError):
        try_evict(world, "nobody")


def test_a_drain_waits_for_the_budget() -> None:
    """4 pods, one may be missing. The pods need 2 s to end, and the test's ReplicaSet brings a ready one 7 s later.

    web-0 is evicted at 0 s and gone at 2 s; the new pod is ready at 9 s, so at 10 s the next one may go, and so on:
    evictions at 0, 10, 20, 30 s; the last pod is gone at 32 s and looked for every second.
    """
    world = World()
    owner = world.replica_set(4)
    world.server.create("Node", make_node("n1"))
    world.pods(4, owner=owner, ready=4)
    agent = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", uid="agent", controller=True)
    world.server.create("Pod", make_pod("agent", owner=agent, node="n1"))
    DisruptionController(world.kernel, world.informers, world.client())
    add_budget(world)

    def replaced(name: str) -> None:
        world.server.create("Pod", make_pod(name, labels={"app": "web"}, owner=owner, node="n2"))
        world.make_ready(name)

    def gone(name: str) -> None:
        world.server.remove("Pod", f"default/{name}")
        world.kernel.later(world.kernel.now + 7 * SECOND, lambda: replaced(f"{name}-again"))

    def watch(kind: str, old: object, new: object) -> None:
        if kind == "Pod" and new is not None and getattr(old, "deleted", 1) is None and getattr(new, "deleted", None):
            name: str = new.metadata.name  # type: ignore[attr-defined]
            world.kernel.later(world.kernel.now + 2 * SECOND, lambda: gone(name))

    world.server.observers.append(watch)
    world.start()
    ended: list[Drain] = []
    drain = Drain(world.kernel, world.server, "n1", on_done=ended.append)
    drain.start()
    assert world.server.get("Node", "n1").spec.unschedulable
    world.run(29)
    assert drain.evicted == ["default/web-0", "default/web-1", "default/web-2"]
    world.run(60)
    assert drain.evicted[3:] == ["default/web-3"]
    assert drain.finished is not None
    assert (drain.finished - START) / SECOND == pytest.approx(32, abs=1.1)
    assert ended == [drain]
    assert drain.failures == {}
    assert world.server.find("Pod", "default/agent") is not None
    # 3 pods are refused at 0 and 5 s, 2 at 10 (after web-1) and 15 s, 1 at 20 and 25 s.
    assert drain.refusals == 12


def test_a_drain_gives_up_on_pods_that_can_never_be_evicted() -> None:
    """Two budgets over one pod: kubectl reports the error and goes on with the others."""
    world = four_pods(ready=4)
    world.server.create("Node", make_node("n1"))
    add_budget(world, disruptions_allowed=9)
    add_budget(world, "second", disruptions_allowed=9)
    drain = Drain(world.kernel, world.server, "n1")
    drain.start()
    assert sorted(drain.failures) == [f"default/web-{number}" for number in range(4)]
    assert drain.finished == START
