"""How Karpenter empties a node: in tiers, with tries that grow rarer, and not in less than five seconds."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from autoscaling.cluster.small_world import World, make_node, make_pod
from stowplan_autoscaling.cluster.pods import RUNNING, ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.loops.node_termination import NodeTermination
from stowplan_scheduler.objects import OwnerReference, PodStatus, Toleration


class Emptying:
    """A node whose pods are gone half a second after they were told to go; `kept`: seconds until all may go.

    `asked`: when somebody asked whether a pod must be kept; `told`: the pods that were told to go, and when; `drained`:
    when the machine could go. All in seconds.
    """

    def __init__(self, *, kept: float = 0, grace: int | None = None) -> None:
        self.world = World()
        self.asked: list[float] = []
        self.told: list[tuple[str, float]] = []
        self.drained: list[float] = []
        self._kept = kept
        self._grace = grace
        self.world.server.create("Node", make_node("n1"))
        self.world.server.observers.append(self._observe)

    def add(self, name: str, owner: str = "ReplicaSet", priority_class: str = "", **spec: Any) -> None:
        """A pod that runs on the node."""
        reference = OwnerReference(api_version="apps/v1", kind=owner, name="owner", uid="o", controller=True)
        pod = make_pod(name, owner=reference, node="n1")
        spec_of_pod = replace(pod.spec, priority_class_name=priority_class, **spec)
        self.world.server.create("Pod", replace(pod, spec=spec_of_pod, status=PodStatus(phase=RUNNING), ready="True"))

    def run(self, seconds: float) -> None:
        """Begin to terminate the node, and let time pass."""
        termination = NodeTermination(
            self.world.kernel,
            self.world.server,
            "n1",
            pods_on=lambda _: dict(self.world.server.all("Pod")),
            grace=self._grace,
            is_kept=self._is_kept,
            on_drained=lambda _: self.drained.append(self.world.kernel.elapsed),
        )
        termination.start()
        self.world.run(seconds)

    def _is_kept(self, _: ClusterPod) -> bool:
        self.asked.append(round(self.world.kernel.elapsed, 3))
        return self.world.kernel.elapsed < self._kept

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Pod" and new is not None and old is not None and old.deleted is None and new.deleted is not None:
            self.told.append((new.metadata.name, round(self.world.kernel.elapsed, 3)))
            gone = self.world.kernel.now + SECOND // 2
            self.world.kernel.at(gone, partial(self._remove, new.key))

    def _remove(self, key: str) -> None:
        self.world.server.remove("Pod", key)


def test_an_empty_node_is_drained_for_five_seconds() -> None:
    """It carries the taint from the beginning."""
    node = Emptying()
    node.run(4.9)
    assert [taint.key for taint in node.world.server.get("Node", "n1").spec.taints] == ["karpenter.sh/disrupted"]
    assert node.drained == []
    node.world.run(20)
    assert node.drained == [5.0]


def test_pods_go_in_four_tiers() -> None:
    """Plain pods, their daemons, critical pods, their daemons: each when a look, once a second, finds none before."""
    node = Emptying()
    node.add("proxy", "DaemonSet", "system-node-critical")
    node.add("dns", "ReplicaSet", "system-node-critical")
    node.add("logs", "DaemonSet")
    node.add("web")
    node.run(20)
    assert node.told == [("web", 0), ("logs", 1), ("dns", 2), ("proxy", 3)]
    assert node.drained == [5.0]


def test_system_cluster_critical_is_critical_too() -> None:
    """And another class with a high priority is not."""
    node = Emptying()
    node.add("dns", priority_class="system-cluster-critical")
    node.add("web", priority_class="high")
    node.run(20)
    assert node.told == [("web", 0), ("dns", 1)]


def test_a_pod_that_is_kept_is_tried_again_ever_more_rarely() -> None:
    """After 0.1 s, 0.2 s, 0.4 s ... 6.4 s, then each 10 s; looks do not start it over."""
    node = Emptying(kept=25)
    node.add("web")
    node.run(40)
    assert node.asked == [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 22.7, 32.7]
    assert node.told == [("web", 32.7)]
    assert node.drained == [34.0]


def test_a_pod_that_needs_its_time_before_the_deadline_is_not_kept() -> None:
    """40 s for the node and 30 s for the pod: the first try after 10 s deletes it, with the 27 s that are left."""
    node = Emptying(kept=1000, grace=40 * SECOND)
    node.add("web", termination_grace_period_seconds=30)
    node.run(13)
    assert node.told == [("web", 12.7)]
    assert node.world.pod("web").metadata.deletion_grace_period_seconds == 27


def test_pods_that_tolerate_the_taint_stay() -> None:
    """Nobody waits for them."""
    node = Emptying()
    node.add("agent", "DaemonSet", tolerations=(Toleration(operator="Exists"),))
    node.run(20)
    assert (node.told, node.drained) == ([], [5.0])
