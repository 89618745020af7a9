"""The quota controller: the first count, what is given back and when, and full counts; scenario W2 of the catalogue."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_pod
from stowplan_autoscaling.cluster.admission import Admission
from stowplan_autoscaling.cluster.controllers.deployment import DeploymentController
from stowplan_autoscaling.cluster.controllers.replica_set import ReplicaSetController
from stowplan_autoscaling.cluster.controllers.resource_quota import ResourceQuotaController
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.apps import Deployment, DeploymentSpec
from stowplan_autoscaling.cluster.objects.quota import ResourceQuota, ResourceQuotaSpec
from stowplan_autoscaling.kernel import MILLISECOND
from stowplan_scheduler.objects import (
    Container,
    LabelSelector,
    ObjectMeta,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
)

Map = dict[str, str | int | float]


class Quotas(World):
    """A world with admission and the quota controller."""

    def __init__(self, *, latency: int = 0) -> None:
        admission = Admission()
        super().__init__(latency=latency, admit=admission.admit)
        admission.connect(self.server)
        self.controller = ResourceQuotaController(self.kernel, self.informers, self.client(), usages=admission.usages)

    def add_quota(self, hard: Map, name: str = "quota", **spec: object) -> None:
        meta = ObjectMeta(name=name, namespace="default")
        quota = ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard=hard, **spec))  # type: ignore[arg-type]
        self.server.create("ResourceQuota", quota)

    def quota(self, name: str = "quota") -> ResourceQuota:
        found: ResourceQuota = self.server.get("ResourceQuota", f"default/{name}")
        return found

    def used(self, name: str = "quota") -> Map | None:
        return self.quota(name).status.used


def test_a_new_quota_is_counted_at_once_and_then_enforced() -> None:
    """Two pods are there already; they count, and the third does not fit."""
    world = Quotas()
    for name in ("a", "b"):
        world.server.create("Pod", make_pod(name, requests={"cpu": "500m"}))
    world.add_quota({"requests.cpu": "1", "pods": "10", "count/deployments.apps": "5", "services": "3"})
    world.start(world.controller.start)
    assert world.quota().status.hard == {
        "requests.cpu": "1",
        "pods": "10",
        "count/deployments.apps": "5",
        "services": "3",
    }
    assert world.used() == {"requests.cpu": "1", "pods": "2", "count/deployments.apps": "0", "services": "0"}
    with pytest.raises(ForbiddenError, match="exceeded quota: quota"):
        world.server.create("Pod", make_pod("c", requests={"cpu": "1m"}))


def test_what_a_pod_used_is_given_back_when_it_ends_or_goes() -> None:
    """A finished pod counts in count/pods only; a deleted one nowhere."""
    world = Quotas()
    world.add_quota({"requests.cpu": "2", "pods": "10", "count/pods": "10"})
    world.start(world.controller.start)
    for name in ("a", "b"):
        world.server.create("Pod", make_pod(name, requests={"cpu": "1"}, node="n"))
    world.run(1)
    assert world.used() == {"requests.cpu": "2", "pods": "2", "count/pods": "2"}
    world.change("a", status=replace(world.pod("a").status, phase="Succeeded"))
    world.run(2)
    assert world.used() == {"requests.cpu": "1", "pods": "1", "count/pods": "2"}
    world.server.remove("Pod", "default/a")
    world.server.remove("Pod", "default/b")
    world.run(3)
    assert world.used() == {"requests.cpu": "0", "pods": "0", "count/pods": "0"}


def test_a_quota_counts_pods_that_came_changed_and_went_before_it() -> None:
    """Nobody counted them by then."""
    world = Quotas()
    world.start(world.controller.start)
    for name in ("a", "b", "c"):
        world.server.create("Pod", make_pod(name, requests={"cpu": "1"}, node="n"))
    world.run(1)
    world.change("a", status=replace(world.pod("a").status, phase="Succeeded"))
    world.server.remove("Pod", "default/b")
    world.run(2)
    world.add_quota({"requests.cpu": "2", "pods": "10", "count/pods": "10"})
    world.run(3)
    assert world.used() == {"requests.cpu": "1", "pods": "1", "count/pods": "2"}
    world.server.remove("Pod", "default/c")
    world.run(4)
    assert world.used() == {"requests.cpu": "0", "pods": "0", "count/pods": "1"}


def test_a_pod_that_hangs_in_termination_stops_counting_at_the_next_full_count() -> None:
    """Deleted at 10 s with 30 s of grace: it counts until 70 s, and the count after that is the one of 300 s."""
    world = Quotas()
    world.add_quota({"pods": "1"})
    world.start(world.controller.start)
    world.server.create("Pod", make_pod("a", node="n"))
    world.run(10)
    world.server.delete("Pod", "default/a")
    world.run(299)
    assert world.used() == {"pods": "1"}
    world.run(301)
    assert world.used() == {"pods": "0"}
    world.server.create("Pod", make_pod("b", node="n"))


def test_a_changed_quota_is_counted_anew_and_a_changed_status_is_not() -> None:
    """Admission writes the status all the time; that alone must not make the controller count."""
    world = Quotas()
    world.add_quota({"pods": "5"})
    world.start(world.controller.start)
    world.run(0.5)
    syncs = world.controller.queue.syncs + world.controller.missing_usage.syncs
    for number in range(4):
        world.server.create("Pod", make_pod(f"p{number}"))
    world.run(1)
    assert world.controller.queue.syncs + world.controller.missing_usage.syncs == syncs
    quota = world.quota()
    world.server.update("ResourceQuota", replace(quota, spec=ResourceQuotaSpec(hard={"count/pods": "9"})))
    world.run(2)
    assert world.controller.missing_usage.syncs > 0
    assert (world.quota().status.hard, world.used()) == ({"count/pods": "9"}, {"count/pods": "4"})


def test_scoped_quotas_count_their_pods_only() -> None:
    """Two pods without requests, one with."""
    world = Quotas()
    world.add_quota({"pods": "9"}, "loose", scopes=("BestEffort",))
    world.add_quota({"pods": "9", "count/deployments.apps": "9"}, "tight", scopes=("NotBestEffort",))
    for name, requests in (("a", None), ("b", None), ("c", {"cpu": "1"})):
        world.server.create("Pod", make_pod(name, requests=requests))  # type: ignore[arg-type]
    world.server.create("Deployment", Deployment(metadata=ObjectMeta(name="d", namespace="default")))
    world.start(world.controller.start)
    assert (world.used("loose"), world.used("tight")) == ({"pods": "2"}, {"pods": "1", "count/deployments.apps": "0"})


def test_a_count_on_old_knowledge_is_refused_and_done_again() -> None:
    """A pod ends and another one is made before the controller hears of either: its write is a conflict, then right."""
    world = Quotas(latency=20 * MILLISECOND)
    world.add_quota({"pods": "5"})
    world.start(world.controller.start)
    world.server.create("Pod", make_pod("a"))
    world.run(1)
    world.server.remove("Pod", "default/a")
    world.run(1.01)
    world.server.create("Pod", make_pod("b"))
    world.run(2)
    assert world.used() == {"pods": "1"}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["make", "finish", "delete", "remove"]), st.integers(0, 9), st.integers(1, 3)),
        max_size=40,
    )
)
def test_the_kept_counts_are_those_of_a_full_count(history: list[tuple[str, int, int]]) -> None:
    """Whatever happened: what the controller keeps as it hears of changes equals a count of what is there."""
    world = Quotas()
    world.add_quota({"requests.cpu": "1000", "pods": "1000", "count/pods": "1000"})
    world.start(world.controller.start)
    for step, (action, number, cpu) in enumerate(history):
        key = f"default/p{number}"
        there = world.server.find("Pod", key)
        if action == "make" and there is None:
            world.server.create("Pod", make_pod(f"p{number}", requests={"cpu": cpu}, node="n"))
        elif there is not None and action == "finish":
            world.change(f"p{number}", status=replace(there.status, phase="Failed"))
        elif there is not None and action == "delete":
            world.server.delete("Pod", key)
        elif there is not None and action == "remove":
            world.server.remove("Pod", key)
        world.run(1 + step)
    pods = list(world.server.all("Pod").values())
    live = [pod for pod in pods if pod.status.phase != "Failed"]
    cores = sum(pod.spec.containers[0].resources.requests["cpu"] for pod in live)
    # Deletions wait for the next full count, but those of this history take effect at once or never.
    assert world.used() == {"requests.cpu": str(cores), "pods": str(len(live)), "count/pods": str(len(pods))}


# ---- W2: a quota leaves room for 3 of 10 new pods --------------------------------------------------------------------


def test_w2_a_quota_that_is_used_up_stops_a_replica_set_in_its_third_batch() -> None:
    """10 pods are wanted, 3 fit. Batches of 1 and 2 pass; all 4 of the third fail, and so no further one is tried.

    The ReplicaSet says so, its Deployment repeats it. Every further attempt ends with its first pod; what wakes it are
    the pods that it has made, and then its back-off, which doubles each time. No pod is pending, so nothing asks for a
    node. When the quota is raised, the next attempt fills up.
    """
    world = Quotas()
    DeploymentController(world.kernel, world.informers, world.client())
    replica_sets = ReplicaSetController(world.kernel, world.informers, world.client())
    world.add_quota({"requests.cpu": "3"})
    world.start(world.controller.start)
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "1"}))
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web"}), spec=PodSpec(containers=(container,)))
    world.server.create(
        "Deployment",
        Deployment(
            metadata=ObjectMeta(name="web", namespace="default"),
            spec=DeploymentSpec(replicas=10, selector=LabelSelector(match_labels={"app": "web"}), template=template),
        ),
    )
    world.run(0.002)
    assert world.reasons("ReplicaSet")[:7] == ["SuccessfulCreate"] * 3 + ["FailedCreate"] * 4
    assert world.reasons("ReplicaSet").count("SuccessfulCreate") == 3
    (replica_set,) = world.server.all("ReplicaSet").values()
    (condition,) = replica_set.status.conditions
    assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")
    assert "exceeded quota: quota, requested: requests.cpu=1, used: requests.cpu=3, limited: requests.cpu=3" in (
        condition.message
    )
    world.run(60)
    deployment = world.server.get("Deployment", "default/web")
    assert (deployment.spec.replicas, deployment.status.replicas) == (10, 3)
    assert "ReplicaFailure" in {each.type for each in deployment.status.conditions}
    assert len(world.server.all("Pod")) == 3
    assert world.used() == {"requests.cpu": "3"}
    attempts = [event[0] for event in world.events if event[3] == "FailedCreate" and event[0] > 0.1]
    gaps = [after - before for before, after in pairwise(attempts)]
    assert gaps == pytest.approx([gaps[0] * 2**number for number in range(len(gaps))])
    assert len(gaps) >= 5
    assert replica_sets.queue.syncs < 40
    quota = world.quota()
    world.server.update("ResourceQuota", replace(quota, spec=ResourceQuotaSpec(hard={"requests.cpu": "20"})))
    world.run(200)
    assert len(world.server.all("Pod")) == 10
    assert world.kernel.now > START
