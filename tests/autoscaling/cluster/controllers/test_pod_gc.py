"""Pod garbage collection: pods of nodes that are gone, finished pods beyond a number, and nodes out of service."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import World, make_node, make_pod
from stowplan_autoscaling.cluster.controllers.pod_gc import OUT_OF_SERVICE, PodGarbageCollector
from stowplan_autoscaling.cluster.pods import FAILED, RUNNING, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import NodeCondition, ObjectMeta, PodStatus, Taint


class Collected:
    """A world with a collector; `gone` has (seconds, pod, phase when it went)."""

    def __init__(self, *, threshold: int = 12_500, limited: bool = False, latency: int = 0) -> None:
        self.world = World(latency=latency)
        self.gone: list[tuple[float, str, str]] = []
        self.world.server.observers.append(self._note)
        client = self.world.client(limited=limited)
        collector = PodGarbageCollector(self.world.kernel, self.world.informers, client, threshold=threshold)
        self.start = collector.start

    def _note(self, kind: str, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if kind == "Pod" and new is None and old is not None:
            self.gone.append((round(self.world.kernel.elapsed, 2), old.metadata.name, old.status.phase))

    def pod(self, name: str, node: str, phase: str = RUNNING) -> None:
        pod = make_pod(name, node=node)
        self.world.server.create("Pod", replace(pod, status=PodStatus(phase=phase)))


@pytest.mark.parametrize(("removed", "collected"), [(0.5, 60), (19.9, 60), (20.1, 80), (39.9, 80), (50, 100)])
def test_pods_of_a_node_that_is_gone_go_40_to_60_seconds_later(removed: float, collected: float) -> None:
    """The checks are at 0, 20, 40, ... s: one finds the node missing, the one 40 s later deletes, as failed pods."""
    one = Collected()
    one.world.server.create("Node", make_node("n1"))
    one.world.server.create("Node", make_node("n2"))
    one.pod("a", "n1")
    one.pod("b", "n2")
    one.pod("c", "")
    one.world.start(one.start)
    one.world.run(removed)
    one.world.server.remove("Node", "n1")
    one.world.run(200)
    assert one.gone == [(collected, "a", FAILED)]
    assert 40 <= collected - removed <= 60


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    """Renamed machines and rebuilt API objects: the quarantine is for them. Gone again, it starts again."""
    one = Collected()
    one.world.server.create("Node", make_node("n1"))
    one.pod("a", "n1")
    one.world.start(one.start)
    one.world.run(1)
    one.world.server.remove("Node", "n1")
    one.world.run(50)
    one.world.server.create("Node", make_node("n1"))
    one.world.run(95)
    assert one.gone == []
    one.world.server.remove("Node", "n1")
    one.world.run(300)
    assert one.gone == [(140, "a", FAILED)]


def test_a_node_that_only_the_server_has_is_asked_for() -> None:
    """The watch is 100 s late: before pods are deleted the API server has the last word."""
    one = Collected(latency=100 * SECOND)
    one.pod("a", "n1")
    one.world.start(one.start)
    one.world.run(1)
    one.world.server.create("Node", make_node("n1"))
    one.world.run(90)
    assert one.gone == []


def test_pods_that_come_to_a_missing_node_later_are_found_as_well() -> None:
    """Bound by a scheduler with an old view at 50 s. The check at 40 s that collected the first pod still saw that pod,
    and so put the node into quarantine again: this one goes at 80 s, after 30 s.
    """
    one = Collected()
    one.pod("a", "n1")
    one.world.start(one.start)
    one.world.run(50)
    assert [name for _, name, _ in one.gone] == ["a"]
    one.pod("b", "n1")
    one.world.run(200)
    assert one.gone[1:] == [(80, "b", FAILED)]


def test_the_oldest_finished_pods_beyond_the_threshold_go() -> None:
    """12,500 by default; here 2 may stay. They keep their phase; running pods do not count."""
    one = Collected(threshold=2)
    one.world.start(one.start)
    for number, phase in enumerate([SUCCEEDED, RUNNING, FAILED, SUCCEEDED, FAILED]):
        one.world.run(number + 1)
        one.pod(f"p{number}", "", phase)
    one.world.run(50)
    assert one.gone == [(20, "p0", SUCCEEDED), (20, "p2", FAILED)]
    assert set(one.world.server.all("Pod")) == {"default/p1", "default/p3", "default/p4"}


def test_of_equally_old_pods_the_first_by_name_goes() -> None:
    """Creation times have whole seconds."""
    one = Collected(threshold=1)
    for name in ("c", "a", "b"):
        one.pod(name, "", SUCCEEDED)
    one.world.start(one.start)
    one.world.run(1)
    assert [name for _, name, _ in one.gone] == ["a", "b"]


def test_a_finished_pod_that_somebody_else_deleted_is_no_trouble() -> None:
    """The copy is 10 s old: what is not found any more is passed over."""
    one = Collected(threshold=0, latency=10 * SECOND)
    one.pod("a", "", SUCCEEDED)
    one.pod("b", "", SUCCEEDED)
    one.world.informers.start(one.world.server, one.world.feed)
    one.world.server.remove("Pod", "default/a")
    one.start()
    one.world.run(60)
    assert [name for _, name, _ in one.gone] == ["a", "b"]


@pytest.mark.parametrize(
    ("tainted", "ready", "deleted", "collected"),
    [(True, False, True, True), (True, True, True, False), (True, False, False, False), (False, False, True, False)],
)
def test_terminating_pods_of_a_node_out_of_service_go_at_the_next_check(
    tainted: bool, ready: bool, deleted: bool, collected: bool
) -> None:
    """All three must hold: an administrator's taint, a node that is not ready, a pod that is being deleted."""
    one = Collected()
    taints = [Taint(key=OUT_OF_SERVICE, effect="NoExecute")] if tainted else []
    node = make_node("n1", taints=taints)
    conditions = (NodeCondition(type="Ready", status="True" if ready else "Unknown"),)
    one.world.server.create("Node", replace(node, status=replace(node.status, conditions=conditions)))
    one.pod("a", "n1")
    one.world.start(one.start)
    one.world.run(5)
    if deleted:
        one.world.server.delete("Pod", "default/a", grace=600)
    one.world.run(100)
    assert one.gone == ([(20, "a", FAILED)] if collected else [])


def test_collecting_takes_requests_and_the_next_check_waits_for_its_end() -> None:
    """100 pods of a lost node take 200 requests: 30 at once, the rest at 20 a second. Found at 0 s, due at 40 s, they
    are gone at 48.5 s; a second node, found missing at 40 s before that, is due at 80 s and the checks are at 68.5 and
    88.5 s.
    """
    one = Collected(limited=True)
    for number in range(100):
        one.pod(f"p{number:03d}", "n1")
    one.world.server.create("Node", make_node("n2"))
    one.pod("last", "n2")
    one.world.start(one.start)
    one.world.run(30)
    one.world.server.remove("Node", "n2")
    one.world.run(200)
    assert len(one.gone) == 101
    assert one.gone[0][0] == 40
    assert one.gone[99][0] == pytest.approx(48.5, abs=0.01)
    assert one.gone[100][0] == pytest.approx(88.5, abs=0.01)
    assert one.gone[100][1] == "last"


def test_a_pod_of_a_lost_node_keeps_no_other_namespace_out() -> None:
    """Keys have namespaces: two pods of one name on one node are two pods."""
    one = Collected()
    for namespace in ("one", "two"):
        pod = replace(make_pod("a", node="n1"), metadata=ObjectMeta(name="a", namespace=namespace))
        one.world.server.create("Pod", pod)
    one.world.start(one.start)
    one.world.run(100)
    assert [name for _, name, _ in one.gone] == ["a", "a"]
