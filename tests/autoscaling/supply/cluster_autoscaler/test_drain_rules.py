"""Which pods hold their node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.options import HOUR
from stowplan_autoscaling.supply.cluster_autoscaler.pods import MIRROR, SAFE_TO_EVICT, SAFE_TO_EVICT_LOCAL_VOLUMES
from stowplan_autoscaling.supply.cluster_autoscaler.scale_down.disruption import RemainingBudgets
from stowplan_autoscaling.supply.cluster_autoscaler.scale_down.drain_rules import PodsToMove
from stowplan_scheduler.objects import Pod

from .builders import T0, Cluster, make_budget, make_node, make_pod

NO_OWNER_CHECK = {"skip-nodes-with-custom-controller-pods": "false"}


def moves(
    *pods: Pod,
    flags: Mapping[str, str] | None = None,
    allowed: int | None = None,
    age: int = MINUTE,
    local: tuple[str, ...] = (),
    deleted: int | None = None,
    orphan: bool = False,
) -> PodsToMove:
    """What becomes of pods on a node. `allowed`: disruptions that a budget for the app "web" allows."""
    cluster = Cluster(flags=flags)
    cluster.add_node(make_node("n"))
    cluster.add_pods(*pods, age=age, local=local, deleted=deleted)
    if orphan:
        cluster.observation.owners.clear()
    budgets = RemainingBudgets([] if allowed is None else [make_budget("b", "web", allowed)])
    infos = [seen.info for seen in cluster.observation.pods_on("n")]
    return cluster.autoscaler.scale_down.rules.pods_to_move(infos, budgets, T0)


def on_node(name: str = "p", **changes: object) -> Pod:
    return make_pod(name, node="n", **changes)  # type: ignore[arg-type]


def test_pods_of_replica_sets_move_and_those_of_daemon_sets_are_listed_apart() -> None:
    found = moves(on_node("a"), on_node("d", kind="DaemonSet", app="ds"), on_node("j", kind="Job", app="job"))
    assert [pod.key for pod in found.pods] == ["default/a", "default/j"]
    assert [pod.key for pod in found.daemons] == ["default/d"]
    assert found.blocking is None


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (on_node(kind=""), "NotReplicated"),
        (on_node(kind="Custom"), "NotReplicated"),
        (on_node(namespace="kube-system"), "UnmovableKubeSystemPod"),
        (on_node(annotations={SAFE_TO_EVICT: "false"}), "NotSafeToEvictAnnotation"),
    ],
)
def test_a_pod_blocks_its_node(pod: Pod, reason: str) -> None:
    found = moves(pod)
    assert (found.blocking and found.blocking.key, found.reason) == (pod.key, reason)


@pytest.mark.parametrize(
    ("pod", "flags"),
    [
        (on_node(kind="Custom"), NO_OWNER_CHECK),
        (on_node(namespace="kube-system"), {"skip-nodes-with-system-pods": "false"}),
        (on_node(kind="", annotations={SAFE_TO_EVICT: "true"}), {}),
        (on_node(kind="", phase="Failed"), {}),
    ],
)
def test_a_flag_or_an_annotation_lets_it_go(pod: Pod, flags: Mapping[str, str]) -> None:
    found = moves(pod, flags=flags)
    assert [each.key for each in found.pods] == [pod.key]


def test_a_system_pod_blocks_for_an_hour_unless_it_has_a_budget() -> None:
    pod = on_node(namespace="kube-system")
    assert moves(pod, age=HOUR).reason == "UnmovableKubeSystemPod"
    assert moves(pod, age=HOUR).until == T0
    assert moves(pod, age=HOUR + 1).blocking is None


def test_local_storage_blocks_unless_every_such_volume_is_given_up() -> None:
    assert moves(on_node(), local=("scratch",)).reason == "LocalStorageRequested"
    assert moves(on_node(), local=("scratch",), flags={"skip-nodes-with-local-storage": "false"}).blocking is None
    given_up = on_node(annotations={SAFE_TO_EVICT_LOCAL_VOLUMES: "scratch,other"})
    assert moves(given_up, local=("scratch",)).blocking is None
    assert moves(given_up, local=("scratch", "data")).reason == "LocalStorageRequested"


def test_a_used_up_budget_blocks() -> None:
    assert moves(on_node(), allowed=0).reason == "NotEnoughPdb"
    assert moves(on_node(), allowed=1).blocking is None


def test_a_controller_that_is_gone_or_too_small_blocks() -> None:
    assert moves(on_node(), orphan=True).reason == "ControllerNotFound"
    assert moves(on_node(), orphan=True, flags=NO_OWNER_CHECK).blocking is None
    assert moves(on_node(), flags={"min-replica-count": "11"}).reason == "MinReplicasReached"


def test_mirror_pods_stay_behind_and_pods_to_wait_for_are_listed() -> None:
    found = moves(on_node("m", annotations={MIRROR: "x"}), on_node("w", annotations={SAFE_TO_EVICT: "on-completion"}))
    assert found.pods == []
    assert [pod.key for pod in found.on_completion] == ["default/w"]


def test_a_pod_that_should_be_gone_is_passed_over() -> None:
    """Its grace period of 30 s and another 30 s are over."""
    from msgspec.structs import replace

    pod = on_node(kind="")
    pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2027-01-15T07:58:00Z"))
    assert moves(pod, deleted=T0 - 60 * SECOND).reason == "NotReplicated"
    assert moves(pod, deleted=T0 - 60 * SECOND - 1).blocking is None


def test_budgets_are_used_up_by_imagined_removals() -> None:
    cluster = Cluster()
    cluster.add_pods(*(on_node(f"p{n}") for n in range(3)))
    pods = [seen.info for seen in cluster.observation.pods.values()]
    budgets = RemainingBudgets([make_budget("b", "web", 2)])
    assert budgets.allows_in_parallel(pods[:2])
    assert not budgets.allows_in_parallel(pods)
    budgets.remove(pods[:2])
    assert budgets.forbids(pods[2])
