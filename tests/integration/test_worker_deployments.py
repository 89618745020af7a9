"""Workers that are Deployments, from a profile to pods that they place: the whole way, with pods that run.

The manifests are those of deploy/kustomize/separate-workers, as shipped; the operators are pods as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.kube_api import Manifest, sure
from integration.operator_process import NAMESPACE
from integration.pod_cluster import IMAGE, PodCluster, is_ready, pod_cluster

pytestmark = [pytest.mark.rig, pytest.mark.slow]

OPERATORS = "app.kubernetes.io/name=stowplan-operator"
NEXT_IMAGE = "stowplan:0.1.1"


@pytest.fixture(scope="module")
def cluster(rig: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    manifests = repository / "deploy" / "kustomize" / "separate-workers"
    with pod_cluster(rig, manifests, tmp_path_factory.mktemp("cluster")) as made:
        made.wait_ready(OPERATORS, 2)
        yield made


@pytest.fixture(scope="module")
def shop(cluster: PodCluster) -> str:
    """A profile with two workers, for all tests; each leaves it Ready."""
    cluster.profiles.create("shop", workers={"group": "shop", "replicas": 2})
    return "shop"


@pytest.fixture(autouse=True)
def _ready(cluster: PodCluster, shop: str) -> None:
    wait_well(cluster, shop)


def wait_well(cluster: PodCluster, group: str) -> dict[str, dict[str, Any]]:
    """Until all is well with the profile of that name, and its status speaks of the pods that are there.

    Returns the rows of its status by name of the pod.
    """

    def is_so() -> bool:
        pods = cluster.workers(group)
        return (
            cluster.profiles.shows(group, Ready="True", Programmed="True", Degraded="False")
            and {row["name"] for row in cluster.status(group)["workers"]} == pods.keys()
            and len(pods) == cluster.owned(group)["Deployment"]["spec"]["replicas"]
            and all(map(is_ready, pods.values()))
        )

    cluster.until(is_so, f"the workers of {group} are well")
    return {row["name"]: row for row in cluster.status(group)["workers"]}


def leader_of(cluster: PodCluster, group: str) -> str:
    """The pod that leads, by the status of the profile."""
    (name,) = (row["name"] for row in cluster.status(group)["workers"] if row["leading"])
    return str(name)


def budget(cluster: PodCluster, group: str) -> tuple[int, int, int]:
    """Pods that are expected, that are healthy, and that may be disrupted."""
    status = cluster.owned(group)["PodDisruptionBudget"].get("status", {})
    return status.get("expectedPods"), status.get("currentHealthy"), status.get("disruptionsAllowed")


def test_each_pod_of_a_profile_is_in_its_status_and_one_of_them_places_pods(cluster: PodCluster, shop: str) -> None:
    """They are on different nodes, and one of them may be away."""
    pods, rows = cluster.workers(shop), wait_well(cluster, shop)
    assert {row["generation"] for row in rows.values()} == {1}
    assert cluster.profiles.conditions(shop)["Programmed"]["message"] == "2 workers with generation 1"
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == set(cluster.kubelet.nodes)
    cluster.until(lambda: budget(cluster, shop) == (2, 2, 1), "the budget counts both")
    cluster.wait_bound_once(cluster.create_pods(shop, "first", 10))
    acting = leader_of(cluster, shop)
    assert acting in cluster.profiles.conditions(shop)["Ready"]["message"]
    # The API server shows a bind before the worker has heard of it.
    cluster.until(lambda: '"msg":"bound"' in cluster.kubelet.log_of(acting), "the one that leads has bound them")


def test_new_weights_reach_all_pods_without_a_new_pod_or_a_restart(cluster: PodCluster, shop: str) -> None:
    """By the ConfigMap alone: pods are packed instead of spread from then on."""
    before = cluster.workers(shop)
    generation = cluster.profiles.edit(shop, scoringStrategy={"type": "MostAllocated"})
    cluster.until(
        lambda: {row["generation"] for row in cluster.status(shop)["workers"]} == {generation}, "both have it"
    )
    rows = wait_well(cluster, shop)
    assert len({row["hash"] for row in rows.values()}) == 1
    after = cluster.workers(shop)
    assert {name: pod["metadata"]["uid"] for name, pod in before.items()} == {
        name: pod["metadata"]["uid"] for name, pod in after.items()
    }
    assert [each["restartCount"] for pod in after.values() for each in pod["status"]["containerStatuses"]] == [0, 0]
    nodes = cluster.wait_bound_once(cluster.create_pods(shop, "packed", 6))
    assert len(set(nodes.values())) == 1


def test_a_leader_that_is_evicted_hands_over_and_the_budget_keeps_the_other(cluster: PodCluster, shop: str) -> None:
    """As a drain of its node does. No pod is lost or bound twice, and nothing speaks of the old pod afterwards."""
    leader = leader_of(cluster, shop)
    (other,) = cluster.workers(shop).keys() - {leader}
    names = cluster.create_pods(shop, "drain", 30)
    assert cluster.evict(leader)[0] == 201
    code, message = cluster.evict(other)
    assert code == 429, message
    cluster.wait_bound_once(names)
    cluster.wait_bound_once(cluster.create_pods(shop, "drained", 5))
    rows = wait_well(cluster, shop)
    assert leader not in rows
    # The one that was left, or the new one, if that asks for the Lease first.
    assert [row["leading"] for row in rows.values()].count(True) == 1
    assert cluster.kubelet.exits[leader] == [0]
    cluster.until(lambda: budget(cluster, shop) == (2, 2, 1), "the budget counts both again")


def test_a_pod_that_has_failed_is_no_worker_any_more(cluster: PodCluster, shop: str) -> None:
    """A kubelet that is short of memory leaves such pods behind; nothing removes them for a long time."""
    (name,) = cluster.workers(shop).keys() - {leader_of(cluster, shop)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}}
    evicted = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    sure(cluster.api.patch(pod, {"status": evicted}, subresource="status"))
    assert name not in wait_well(cluster, shop)
    assert sure(cluster.api.read(pod))["status"]["phase"] == "Failed"
    sure(cluster.api.delete(pod))


def test_an_operator_that_takes_over_goes_on_with_the_workers_there_are(cluster: PodCluster, shop: str) -> None:
    """They do not notice; what they say is in the profile as before."""
    pods = cluster.workers(shop).keys()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    named = {**lease, "metadata": {"name": "stowplan-operator", "namespace": NAMESPACE}}

    def holder() -> str:
        identity: str = sure(cluster.api.read(named))["spec"]["holderIdentity"] or ""
        return identity

    was = holder()
    leading = leading_operator(cluster)
    assert cluster.evict(leading)[0] == 201
    cluster.until(lambda: holder() not in {was, ""}, "another operator acts")
    cluster.wait_ready(OPERATORS, 2)
    generation = cluster.profiles.edit(shop, scoringStrategy={"type": "LeastAllocated"})
    cluster.until(
        lambda: {row["generation"] for row in cluster.status(shop)["workers"]} == {generation}, "both have it"
    )
    wait_well(cluster, shop)
    assert cluster.workers(shop).keys() == pods
    assert cluster.kubelet.exits[leading] == [0]


def leading_operator(cluster: PodCluster) -> str:
    """The operator that got the Lease last, by what it wrote."""
    got: dict[str, str] = {}
    for name in cluster.pods(OPERATORS):
        lines = cluster.kubelet.log_of(name).splitlines()
        got[name] = max((json.loads(line)["ts"] for line in lines if '"msg":"leading"' in line), default="")
    return max(got, key=lambda name: got[name])


def test_why_a_pod_does_not_run_is_in_the_profile(cluster: PodCluster) -> None:
    """In its kubelet's words."""
    cluster.kubelet.images.remove(IMAGE)
    cluster.profiles.create("late", workers={"group": "late", "replicas": 1})
    cluster.wait(
        "late", Ready="False WorkersStarting", Programmed="False WorkersStarting", Degraded="True WorkerSilent"
    )

    def says() -> bool:
        message: str = cluster.profiles.conditions("late")["Degraded"]["message"]
        return f'ImagePullBackOff: Back-off pulling image "{IMAGE}"' in message

    cluster.until(says, "the profile says why")
    cluster.kubelet.images.add(IMAGE)
    wait_well(cluster, "late")
    assert "PodDisruptionBudget" not in cluster.owned("late")
    cluster.profiles.delete("late")
    cluster.until(lambda: not cluster.workers("late"), "its pods end")


def test_a_scheduler_name_that_comes_to_another_group_is_never_in_two_hands(cluster: PodCluster) -> None:
    """The pods of the new group ask for no binding before those of the old one have asked for their last."""
    cluster.profiles.create("older", "handed", workers={"group": "here"})
    cluster.wait("older", Ready="True")
    cluster.profiles.create("younger", "handed", workers={"group": "there"})
    cluster.wait("younger", Accepted="False Conflict")
    names = cluster.create_pods("handed", "before", 20)
    here = cluster.workers("here").keys()
    cluster.profiles.delete("older")
    names += cluster.create_pods("handed", "after", 20)
    cluster.wait("younger", Ready="True", Degraded="False")
    cluster.wait_bound_once([*names, *cluster.create_pods("handed", "then", 5)])
    assert cluster.owned("here") == {}
    there = cluster.workers("there").keys()
    assert max(asked_at(cluster, here)) < min(asked_at(cluster, there))
    cluster.profiles.delete("younger")
    cluster.until(lambda: cluster.owned("there") == {}, "nothing is left")


def asked_at(cluster: PodCluster, pods: Iterable[str]) -> list[str]:
    """When these workers asked for bindings, as their logs have it."""
    lines = [line for pod in pods for line in cluster.kubelet.log_of(pod).splitlines() if '"msg":"asked"' in line]
    return [json.loads(line)["ts"] for line in lines]


def test_another_image_replaces_the_pods_one_after_the_other(cluster: PodCluster, shop: str) -> None:
    """As an upgrade of the operator does."""
    before = cluster.workers(shop).keys()
    cluster.kubelet.images.add(NEXT_IMAGE)
    names = cluster.create_pods(shop, "upgrade", 20)
    cluster.kubectl(
        *("--namespace", NAMESPACE, "set", "env", "deployment/stowplan-operator"),
        f"STOWPLAN_WORKER_IMAGE={NEXT_IMAGE}",
    )

    def is_replaced() -> bool:
        images = {each["spec"]["containers"][0]["image"] for each in cluster.workers(shop).values()}
        return images == {NEXT_IMAGE}

    cluster.until(is_replaced, "all workers have the new image")
    wait_well(cluster, shop)
    assert not before & cluster.workers(shop).keys()
    assert [cluster.kubelet.exits[name] for name in before] == [[0], [0]]
    cluster.wait_bound_once(names + cluster.create_pods(shop, "upgraded", 5))


def test_a_profile_that_is_deleted_leaves_nothing(cluster: PodCluster) -> None:
    """Its pods give back their Lease, so that a profile of the same group acts at once."""
    cluster.profiles.create("brief", workers={"group": "brief", "replicas": 2})
    pods = wait_well(cluster, "brief").keys()
    cluster.profiles.delete("brief")
    cluster.until(lambda: cluster.owned("brief") == {} and not cluster.workers("brief"), "nothing is left")

    def are_gone() -> bool:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        listed: list[Manifest] = sure(cluster.api.request("GET", path))["items"]
        return not pods & {each["metadata"]["name"] for each in listed}

    cluster.until(are_gone, "its pods are gone")
    assert [cluster.kubelet.exits[name] for name in pods] == [[0], [0]]
