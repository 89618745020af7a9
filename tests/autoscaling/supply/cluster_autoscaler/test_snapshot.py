"""Forks of the snapshot: what is taken back is gone without a trace, and a blank row is no node."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from stowplan_autoscaling.supply.cluster_autoscaler.filters import ProfileCountError, filter_profile
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot, NodeFilter
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.objects import Node

from .builders import HOST, ZONE, make_node, make_pod

INTERNER = PodInterner()


def new_snapshot(nodes: Iterable[Node] = ()) -> ClusterSnapshot:
    stores = Stores()
    snapshot = ClusterSnapshot(filter_profile(None, stores), stores)
    for node in nodes:
        snapshot.add(node_info(node))
    return snapshot


def node_info(node: Node, pods: Iterable[PodInfo] = ()) -> NodeInfo:
    info = NodeInfo()
    info.set_node(node)
    for pod in pods:
        info.add_pod(pod)
    return info


def contents(snapshot: ClusterSnapshot) -> list[tuple[str, list[str], int]]:
    """Names with their pods and requested milli cores."""
    return [(info.name, [pod.key for pod in info.pods], info.requested.milli_cpu) for info in snapshot.infos()]


def test_a_profile_runs_no_scores_and_there_must_be_one() -> None:
    assert filter_profile(None, Stores()).scores == ()
    several = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}],
    }
    with pytest.raises(ProfileCountError, match="got 2"):
        filter_profile(load_configuration(several), Stores())


def test_nodes_stand_in_order_of_name_as_text() -> None:
    snapshot = new_snapshot([make_node("n10"), make_node("n2"), make_node("n1")])
    assert [info.name for info in snapshot.infos()] == ["n1", "n10", "n2"]


def test_a_search_begins_behind_the_last_match() -> None:
    """The first one begins at the second node, as upstream's position starts at the first."""
    snapshot = new_snapshot([make_node("a"), make_node("b"), make_node("c")])
    names = [snapshot.schedule_anywhere(INTERNER.info(make_pod(f"p{n}", "100m"))) for n in range(4)]
    assert names == ["b", "c", "a", "b"]


def test_a_search_passes_over_cordoned_and_unwanted_nodes() -> None:
    snapshot = new_snapshot([make_node("a"), make_node("b", unschedulable=True), make_node("c")])
    pod = INTERNER.info(make_pod("p"))
    assert snapshot.schedule_anywhere(pod, NodeFilter(lambda name: name != "c")) == "a"
    assert snapshot.schedule_anywhere(pod, NodeFilter(lambda name: name == "b")) is None


def test_the_objection_is_the_first_plugins() -> None:
    snapshot = new_snapshot([make_node("a", "1")])
    status = snapshot.check(INTERNER.info(make_pod("p", "2", "32Gi")), "a")
    assert (status.plugin, status.reasons) == ("NodeResourcesFit", ("Insufficient cpu", "Insufficient memory"))


def test_reverting_takes_everything_back() -> None:
    pods = [INTERNER.info(make_pod(f"p{n}", "500m", spread=ZONE)) for n in range(4)]
    snapshot = new_snapshot()
    snapshot.add(node_info(make_node("a", labels={ZONE: "z1"}), pods[:2]))
    snapshot.add(node_info(make_node("b", labels={ZONE: "z2"}), pods[2:3]))
    before = contents(snapshot)
    generation = snapshot.infos()[0].generation
    snapshot.fork()
    snapshot.remove("a")
    snapshot.fork()
    snapshot.add(node_info(make_node("c", labels={ZONE: "z3"})))
    snapshot.add_pod(pods[3], "b")
    assert contents(snapshot) == [("b", ["default/p2", "default/p3"], 1000), ("c", [], 0)]
    assert "a" not in snapshot
    assert len(snapshot) == 2
    snapshot.commit()
    snapshot.revert()
    assert contents(snapshot) == before
    assert snapshot.infos()[0].generation == generation
    assert snapshot.check(pods[3], "a").reasons == ("node(s) didn't match pod topology spread constraints",)
    assert snapshot.check(pods[3], "b").is_success


def test_what_is_committed_outlives_the_fork_inside() -> None:
    snapshot = new_snapshot([make_node("a"), make_node("b")])
    pod = INTERNER.info(make_pod("p"))
    snapshot.fork()
    snapshot.fork()
    snapshot.add_pod(pod, "a")
    snapshot.commit()
    snapshot.fork()
    snapshot.remove_pod(pod, "a")
    snapshot.revert()
    assert contents(snapshot)[0] == ("a", ["default/p"], 1000)
    snapshot.revert()
    assert contents(snapshot)[0] == ("a", [], 0)


def test_a_node_cannot_be_added_twice() -> None:
    snapshot = new_snapshot([make_node("a")])
    with pytest.raises(ValueError, match="node a already in snapshot"):
        snapshot.add(node_info(make_node("a")))


def test_a_removed_node_counts_no_longer_as_a_domain() -> None:
    """With three zones a pod may only go where there is none; without the empty zone, anywhere."""
    pods = [INTERNER.info(make_pod(f"p{n}", "100m", spread=ZONE)) for n in range(3)]
    snapshot = new_snapshot()
    for index, name in enumerate("abc"):
        snapshot.add(node_info(make_node(name, labels={ZONE: name}), pods[index : index + 1] if index < 2 else ()))
    assert not snapshot.check(pods[2], "a").is_success
    snapshot.fork()
    snapshot.remove("c")
    assert snapshot.check(pods[2], "a").is_success
    snapshot.revert()
    assert not snapshot.check(pods[2], "a").is_success


def test_reserved_rows_are_no_nodes_until_they_are_added() -> None:
    snapshot = new_snapshot([make_node("a"), make_node("d")])
    pod = INTERNER.info(make_pod("p", spread=HOST))
    snapshot.fork()
    snapshot.reserve(["b", "c"])
    assert [info.name for info in snapshot.infos()] == ["a", "d"]
    assert snapshot.schedule_anywhere(pod) == "d"
    snapshot.add(node_info(make_node("c")))
    assert [info.name for info in snapshot.infos()] == ["a", "c", "d"]
    assert [snapshot.schedule_anywhere(pod) for _ in range(2)] == ["a", "c"]
    snapshot.revert()
    assert [info.name for info in snapshot.infos()] == ["a", "d"]


def test_a_pod_that_breaks_a_rule_fits_nowhere() -> None:
    snapshot = new_snapshot([make_node("a")])
    pod = INTERNER.info(make_pod("p", app="not a label value", spread=ZONE))
    assert "PodTopologySpread" in snapshot.check(pod, "a").message
    assert snapshot.schedule_anywhere(pod) is None


SHAPES = (("500m", "1Gi", "", 0), ("1", "2Gi", HOST, 0), ("200m", "1Gi", ZONE, 0), ("100m", "1Gi", "", 80))


def shaped(name: str, number: int) -> PodInfo:
    cpu, memory, spread, port = SHAPES[number]
    return INTERNER.info(make_pod(name, cpu, memory, app=f"app{number}", spread=spread, host_port=port))


def test_any_mixture_of_changes_is_as_good_as_a_snapshot_made_of_the_result() -> None:
    """Verdicts and the position of searches are those of a new snapshot with the same nodes and pods."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        snapshot = new_snapshot([make_node(f"n{n}", labels={ZONE: f"z{n % 3}"}) for n in range(6)])
        snapshot.fork()
        snapshot.reserve(["x1", "x2"])
        for number in range(40):
            luck = int(rng.integers(8))
            names = [info.name for info in snapshot.infos()]
            if luck == 0 and len(names) > 2:
                snapshot.remove(str(rng.choice(names)))
            elif luck == 1 and "x1" not in snapshot:
                snapshot.add(node_info(make_node("x1", labels={ZONE: "z9"})))
            elif luck == 2:
                snapshot.fork()
                snapshot.remove(names[0])
                snapshot.revert()
            else:
                snapshot.schedule_anywhere(shaped(f"p{number}", int(rng.integers(len(SHAPES)))))
        twin = new_snapshot()
        for info in snapshot.infos():
            assert info.node is not None
            twin.add(node_info(info.node, info.pods))
        twin.last_match = snapshot.last_match
        for number in range(len(SHAPES)):
            pod = shaped(f"q{number}", number)
            for name in [info.name for info in twin.infos()]:
                assert snapshot.check(pod, name) == twin.check(pod, name)
            assert snapshot.schedule_anywhere(pod) == twin.schedule_anywhere(pod)
            assert snapshot.last_match == twin.last_match
