"""Scenarios W3 and W4 of the catalogue: a node dies under workloads, and a node is drained during a rollout."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_node
from stowplan_autoscaling.cluster.admission import Admission
from stowplan_autoscaling.cluster.controllers.deployment import DeploymentController
from stowplan_autoscaling.cluster.controllers.disruption import DisruptionController
from stowplan_autoscaling.cluster.controllers.node_lifecycle import NodeLifecycleController
from stowplan_autoscaling.cluster.controllers.pod_gc import PodGarbageCollector
from stowplan_autoscaling.cluster.controllers.replica_set import ReplicaSetController
from stowplan_autoscaling.cluster.controllers.stateful_set import StatefulSetController
from stowplan_autoscaling.cluster.controllers.taint_eviction import TaintEvictionController
from stowplan_autoscaling.cluster.drain import Drain
from stowplan_autoscaling.cluster.node_faults import NodeFaults
from stowplan_autoscaling.cluster.objects.apps import Deployment, DeploymentSpec
from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet, StatefulSetSpec
from stowplan_autoscaling.cluster.pods import RUNNING, ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.streams import Streams
from stowplan_scheduler.objects import Container, LabelSelector, NodeCondition, ObjectMeta, PodSpec, PodTemplateSpec

READY = (NodeCondition(type="Ready", status="True"),)
STARTUP, TERMINATION = 5, 2


class Cluster(World):
    """Three nodes, all controllers of pods and nodes, and a test that binds, starts and ends pods.

    A pod is bound at once to the node with the fewest pods that has no taint, the first by name; it is ready 5 s later.
    A deleted pod on a node that is heard ends 2 s later.
    """

    def __init__(self) -> None:
        self.admission = Admission()
        super().__init__(admit=self.admission.admit)
        self.admission.connect(self.server)
        self.faults = NodeFaults(self.kernel, self.server, Streams(1))
        kernel, informers = self.kernel, self.informers
        for controller in (DeploymentController, ReplicaSetController, StatefulSetController, DisruptionController):
            controller(kernel, informers, self.client())
        collector = PodGarbageCollector(kernel, informers, self.client())
        lifecycle = NodeLifecycleController(kernel, informers, self.client(), self.faults)
        TaintEvictionController(kernel, informers, self.client())
        for name in ("n1", "n2", "n3"):
            node = make_node(name)
            self.server.create("Node", replace(node, status=replace(node.status, conditions=READY)))
        self.server.observers.append(self._play)
        self.start(lifecycle.start, collector.start)

    def _play(self, kind: str, old: Any, new: Any) -> None:
        if kind != "Pod" or new is None:
            return
        key, now = new.key, self.kernel.now
        if not new.spec.node_name:
            self.kernel.later(now, lambda: self._bind(key))
        elif new.deleted is not None and old is not None and old.deleted is None:
            self.kernel.later(now + TERMINATION * SECOND, lambda: self._end(key))
        elif old is not None and not old.spec.node_name:
            self.kernel.later(now + STARTUP * SECOND, lambda: self._begin(key))

    def _bind(self, key: str) -> None:
        pod: ClusterPod | None = self.server.find("Pod", key)
        if pod is None or pod.spec.node_name:
            return
        loads = {name: 0 for name, node in sorted(self.server.all("Node").items()) if not node.spec.taints}
        for each in self.server.all("Pod").values():
            if each.spec.node_name in loads:
                loads[each.spec.node_name] += 1
        if loads:
            self.server.bind(key, min(loads, key=lambda name: loads[name]))

    def _begin(self, key: str) -> None:
        pod: ClusterPod | None = self.server.find("Pod", key)
        if pod is not None and pod.deleted is None and self.faults.is_alive(pod.spec.node_name):
            status = replace(pod.status, phase=RUNNING)
            self.server.put("Pod", replace(pod, status=status, ready="True", ready_since=self.kernel.now))

    def _end(self, key: str) -> None:
        pod: ClusterPod | None = self.server.find("Pod", key)
        if pod is not None and self.faults.is_alive(pod.spec.node_name):
            self.server.remove("Pod", key)

    def names(self, prefix: str) -> dict[str, str]:
        """Pods whose names begin so, and their nodes."""
        pods = self.server.all("Pod").values()
        return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.metadata.name.startswith(prefix)}


def template(app: str, image: str = "v1") -> PodTemplateSpec:
    return PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": app}), spec=PodSpec(containers=(Container(name="main", image=image),))
    )


def selector(app: str) -> LabelSelector:
    return LabelSelector(match_labels={"app": app})


def test_w3_a_deployment_is_whole_again_when_its_pods_are_deleted_and_a_stateful_set_when_they_are_gone() -> None:
    """A node dies at 60 s with one pod of each.

    Both pods are deleted 340 to 360 s later. The Deployment has a new pod at once; that of the StatefulSet, whose name
    is taken, comes only when the node object has been removed (at 1000 s) and pod garbage collection has found that
    out: a check within 20 s, 40 s of quarantine, and the check after that.
    """
    world = Cluster()
    meta = ObjectMeta(name="web", namespace="default")
    world.server.create(
        "Deployment",
        Deployment(metadata=meta, spec=DeploymentSpec(replicas=3, selector=selector("web"), template=template("web"))),
    )
    world.run(20)
    world.server.create(
        "StatefulSet",
        StatefulSet(
            metadata=ObjectMeta(name="db", namespace="default"),
            spec=StatefulSetSpec(replicas=3, selector=selector("db"), template=template("db")),
        ),
    )
    world.run(60)
    assert world.names("db") == {"db-0": "n1", "db-1": "n2", "db-2": "n3"}
    assert sorted(world.names("web").values()) == ["n1", "n2", "n3"]
    world.faults.fail_node("n2")
    world.run(60 + 338)
    assert world.pod("db-1").deleted is None
    assert len(world.names("web")) == 3
    world.run(60 + 361)
    assert world.pod("db-1").deleted is not None
    assert len(world.names("web")) == 4
    world.run(1000)
    assert world.names("db") == {"db-0": "n1", "db-1": "n2", "db-2": "n3"}
    assert [pod.is_ready for pod in world.server.all("Pod").values() if pod.deleted is None] == [True] * 5
    world.server.remove("Node", "n2")
    world.run(1039)
    assert "n2" in world.names("db").values()
    world.run(1080)
    assert sorted(world.names("db")) == ["db-0", "db-1", "db-2"]
    assert "n2" not in {*world.names("db").values(), *world.names("web").values()}
    assert len(world.names("web")) == 3


def test_w4_a_drain_during_a_rollout_waits_for_the_new_pods() -> None:
    """6 replicas, maxSurge 2, maxUnavailable 0, and a budget that allows one pod to be missing.

    During the rollout old and new pods together count as healthy, against a scale of 6. Each eviction counts from its
    call; while fewer than 6 - 1 would be left, the answer is 429. So never are fewer than 5 pods ready.
    """
    world = Cluster()
    meta = ObjectMeta(name="web", namespace="default")
    spec = DeploymentSpec(replicas=6, selector=selector("web"), template=template("web"))
    spec = replace(
        spec,
        strategy=replace(
            spec.strategy, rolling_update=replace(spec.strategy.rolling_update, max_surge=2, max_unavailable=0)
        ),
    )
    world.server.create("Deployment", Deployment(metadata=meta, spec=spec))
    world.server.create(
        "PodDisruptionBudget",
        PodDisruptionBudget(
            metadata=ObjectMeta(name="guard", namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=selector("web"), max_unavailable=1),
        ),
    )
    world.run(30)
    least: list[int] = []

    def count(kind: str, old: object, new: object) -> None:
        if kind == "Pod":
            pods = world.server.all("Pod").values()
            least.append(sum(pod.is_ready and pod.deleted is None for pod in pods))

    world.server.observers.append(count)
    stored = world.server.get("Deployment", "default/web")
    changed = world.admission.default(replace(stored, spec=replace(spec, template=template("web", "v2"))))
    world.server.update("Deployment", changed)
    world.run(31)
    drain = Drain(world.kernel, world.server, "n1")
    drain.start()
    world.run(300)
    assert drain.finished is not None
    assert drain.refusals > 0
    assert min(least) == 5
    assert drain.finished > START + 36 * SECOND
    pods = world.server.all("Pod").values()
    assert [pod.spec.containers[0].image for pod in pods] == ["v2"] * 6
    assert "n1" not in world.names("web").values()
    status = world.server.get("PodDisruptionBudget", "default/guard").status
    assert (status.disruptions_allowed, status.disrupted_pods) == (1, None)
