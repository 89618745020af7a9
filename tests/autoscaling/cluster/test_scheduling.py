"""The scheduler as a process of the virtual cluster: cycles that take time, and effects on the API server."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_node, make_pod
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import RUNNING, ClusterPod
from stowplan_autoscaling.cluster.scheduling import SchedulerProcess
from stowplan_autoscaling.kernel import MILLISECOND
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.defaulting import default_pod
from stowplan_scheduler.effects import AttemptFailed, Effect, Observe
from stowplan_scheduler.objects import Namespace, NodeStatus, ObjectMeta, PodStatus
from stowplan_scheduler.scheduler import Scheduler


class Scheduled:
    """A world with a scheduler whose cycles take 2 ms; `bound` has (milliseconds, pod, node)."""

    def __init__(self, *objects: Node | ClusterPod, cycle: int = 2 * MILLISECOND, latency: int = 0) -> None:
        self.world = World()
        self.effects: list[Effect] = []
        self.decisions: list[tuple[str, str | None]] = []
        self.bound: list[tuple[float, str, str]] = []
        self.world.server.observers.append(self._note)
        self.add(Namespace(metadata=ObjectMeta(name="default")), *objects)
        self.process = SchedulerProcess(
            self.world.kernel,
            self.world.server,
            Scheduler(load_configuration(None), First(), start=START, metrics=False),
            cycle=cycle,
            on_effect=self.effects.append,
            on_decision=lambda pod, decision: self.decisions.append(
                (pod.info.pod.metadata.name, None if decision is None else decision.node_name)
            ),
        )
        self.process.start(self.world.feed, latency)

    def _note(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Pod" and old is not None and new is not None and new.spec.node_name and not old.spec.node_name:
            milliseconds = round(self.world.kernel.elapsed * 1000, 2)
            self.bound.append((milliseconds, new.metadata.name, new.spec.node_name))

    def add(self, *objects: Any) -> None:
        for obj in objects:
            kind = "Pod" if isinstance(obj, ClusterPod) else type(obj).__name__
            self.world.server.create(kind, obj)


def node(name: str, cpu: str = "4", **labels: str) -> Node:
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return replace(make_node(name, labels=labels), status=NodeStatus(capacity=amounts, allocatable=amounts))


def pod(name: str, cpu: str = "1", *, priority: int = 0, at: str = "") -> ClusterPod:
    made = make_pod(name, requests={"cpu": cpu}, node=at)
    made = replace(made, spec=replace(made.spec, priority=priority))
    found = default_pod(made)
    assert isinstance(found, ClusterPod)
    return replace(found, status=PodStatus(phase=RUNNING)) if at else found


def test_one_pod_is_tried_at_a_time_and_each_cycle_takes_its_time() -> None:
    """Three pods at 0 s: bound at 2, 4 and 6 ms; nothing is tried in between."""
    one = Scheduled(node("n1"))
    one.add(pod("a"), pod("b"), pod("c"))
    moments = []
    for millisecond in (3, 5, 7):
        one.world.run(millisecond / 1000)
        trying = one.process.trying
        moments.append(None if trying is None else trying.info.pod.metadata.name)
    assert moments == ["b", "c", None]
    assert one.bound == [(2, "a", "n1"), (4, "b", "n1"), (6, "c", "n1")]
    assert one.decisions == [("a", "n1"), ("b", "n1"), ("c", "n1")]


def test_what_is_there_at_the_start_is_known() -> None:
    """Nodes and pods of a cluster that runs already: n1 is full, so the new pod goes to n2."""
    one = Scheduled(node("n1"), node("n2"), pod("old", "4", at="n1"), pod("new", "2"))
    one.world.run(1)
    assert one.bound == [(2, "new", "n2")]


def test_a_decision_sees_what_has_changed_since_the_pod_was_taken() -> None:
    """The only node goes 1 ms after the pop and another one comes: the decision at 2 ms finds that one."""
    one = Scheduled(node("n1"))
    one.add(pod("a"))
    one.world.run(0.001)
    one.world.server.remove("Node", "n1")
    one.add(node("n2"))
    one.world.run(1)
    assert one.bound == [(2, "a", "n2")]


def test_a_pod_that_fits_nowhere_is_marked_and_tried_when_a_node_comes() -> None:
    """PodScheduled=False with reason and message; after its back-off the new node brings it in."""
    one = Scheduled(node("n1", "1"))
    one.add(pod("big", "2"))
    one.world.run(5)
    held = one.world.pod("big")
    assert held.unschedulable
    assert [(c.type, c.status, c.reason) for c in held.status.conditions] == [
        ("PodScheduled", "False", "Unschedulable")
    ]
    assert held.status.conditions[0].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    failed = [effect for effect in one.effects if isinstance(effect, AttemptFailed)]
    assert [effect.pod.metadata.name for effect in failed] == ["big"]
    one.add(node("n2", "4"))
    one.world.run(30)
    assert [(name, where) for _, name, where in one.bound] == [("big", "n2")]
    assert not one.world.pod("big").unschedulable
    assert one.world.pod("big").status.conditions == ()


def test_a_more_important_pod_drives_out_a_less_important_one() -> None:
    """The victim gets its condition and its grace; the pod is nominated, and bound when the victim is gone."""
    one = Scheduled(node("n1", "2"), pod("low", "2", at="n1"))
    one.add(pod("high", "2", priority=100))
    one.world.run(5)
    victim = one.world.pod("low")
    assert victim.deleted is not None
    assert [(c.type, c.reason) for c in victim.status.conditions] == [("DisruptionTarget", "PreemptionByScheduler")]
    assert one.world.pod("high").status.nominated_node_name == "n1"
    one.world.server.remove("Pod", "default/low")
    one.world.run(30)
    assert [(name, where) for _, name, where in one.bound] == [("high", "n1")]
    assert one.world.pod("high").status.nominated_node_name == ""


def test_a_pod_that_is_deleted_while_it_is_tried_is_not_bound() -> None:
    """Nor is one of the same name that comes in its place before the decision: that one has a cycle of its own."""
    one = Scheduled(node("n1"))
    one.add(pod("a"))
    one.world.run(0.001)
    one.world.server.remove("Pod", "default/a")
    second = pod("a")
    one.add(replace(second, metadata=replace(second.metadata, uid="second")))
    one.world.run(10)
    assert [name for _, name, _ in one.bound] == ["a"]
    assert one.world.pod("a").metadata.uid == "second"


def test_a_pod_of_the_same_name_is_not_bound_in_its_place() -> None:
    """The watch is 50 ms late: at 52 ms the scheduler decides about the pod that it knows, whose uid is gone. The one
    in its place is seen at 101 ms and has a cycle of its own.
    """
    one = Scheduled(node("n1"), latency=50 * MILLISECOND)
    one.add(pod("a"))
    one.world.run(0.051)
    one.world.server.remove("Pod", "default/a")
    second = pod("a")
    one.add(replace(second, metadata=replace(second.metadata, uid="second")))
    one.world.run(10)
    assert [(name, moment > 101) for moment, name, _ in one.bound] == [("a", True)]


def test_a_binding_that_the_server_refuses_is_tried_again() -> None:
    """Another scheduler was quicker: the pod has a node already; ours hears of that and lets it be."""
    one = Scheduled(node("n1"), node("n2"), latency=50 * MILLISECOND)
    one.add(pod("a"))
    one.world.run(0.051)
    one.world.server.bind("default/a", "n2")
    one.world.run(60)
    assert [(name, where) for _, name, where in one.bound] == [("a", "n2")]
    assert one.world.pod("a").spec.node_name == "n2"


def test_readiness_and_restarts_are_no_news_for_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing of them; the phase and the labels it does read."""
    one = Scheduled(node("n1"), pod("a", at="n1"))
    one.world.run(1)
    told: list[Any] = []
    monkeypatch.setattr(one.process, "_tell", told.append)
    one.world.change("a", ready="True", ready_since=5)
    one.world.change("a", restarts=3)
    one.world.run(2)
    assert told == []
    held = one.world.pod("a")
    one.world.change("a", metadata=replace(held.metadata, labels={"new": "label"}))
    one.world.change("a", status=PodStatus(phase="Succeeded"))
    one.world.run(3)
    assert len(told) == 2


def test_statuses_of_workloads_are_no_news_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a ReplicaSet the scheduler reads the selector only."""
    one = Scheduled(node("n1"))
    one.world.replica_set(3, "rs")
    one.world.run(1)
    told: list[Any] = []
    monkeypatch.setattr(one.process, "_tell", told.append)
    one.world.server.scale("ReplicaSet", "default/rs", 5)
    one.world.run(2)
    assert told == []
    one.world.server.remove("ReplicaSet", "default/rs")
    one.world.run(3)
    assert len(told) == 1


def test_without_metrics_no_effect_is_a_sample() -> None:
    """A simulation has no use for them."""
    one = Scheduled(node("n1"))
    one.add(pod("a"), pod("b", "9"))
    one.world.run(5)
    assert one.effects
    assert not [effect for effect in one.effects if isinstance(effect, Observe)]


def test_pods_that_fail_are_flushed_out_of_the_unschedulable_pods_after_five_minutes() -> None:
    """The scheduler's own timers are kept by the virtual clock: attempts at 0 s and, at the flush that finds the pod
    five minutes old, between 300 and 331 s.
    """
    one = Scheduled(node("n1", "1"))
    one.add(pod("big", "2"))
    moments: list[float] = []
    one.process._on_decision = lambda pod, decision: moments.append(one.world.kernel.elapsed)
    one.world.run(400)
    assert len(moments) == 2
    assert 300 <= moments[1] <= 331
