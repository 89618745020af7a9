"""The DaemonSet controller: where daemons run, how they are replaced, and that a sync costs what has changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.controllers.lab import Lab
from stowplan_autoscaling.cluster.controllers.daemon_set import DaemonSetController
from stowplan_autoscaling.cluster.controllers.daemon_set.backoff import FailureBackoff
from stowplan_autoscaling.cluster.controllers.daemon_set.ledger import Ledger
from stowplan_autoscaling.cluster.controllers.daemon_set.placement import Placement, target_node
from stowplan_autoscaling.cluster.objects.daemon_set import (
    DaemonSet,
    DaemonSetSpec,
    DaemonSetStatus,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import (
    Container,
    LabelSelector,
    NodeSpec,
    ObjectMeta,
    PodSpec,
    PodTemplateSpec,
    Taint,
    Toleration,
)

LABELS = {"app": "agent"}


class DaemonLab(Lab):
    """Its kubelet puts each pod on the node that it is meant for."""

    def _start(self, key: str, uid: str, version: int) -> None:
        pod = self.server.find("Pod", key)
        if pod is not None and pod.version == version and pod.deleted is None and not pod.spec.node_name:
            pod = self.server.put("Pod", replace(pod, spec=replace(pod.spec, node_name=target_node(pod))))
            version = pod.version
        super()._start(key, uid, version)


def template(image: str = "one", **spec: Any) -> PodTemplateSpec:
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=LABELS), spec=PodSpec(containers=(Container(name="agent", image=image),), **spec)
    )


def make_set(**spec: Any) -> DaemonSet:
    spec.setdefault("template", template())
    return DaemonSet(
        metadata=ObjectMeta(name="agent", namespace="default", uid="ds"),
        spec=DaemonSetSpec(selector=LabelSelector(match_labels=LABELS), **spec),
    )


def lab_with(nodes: int, *, startup: float = 5, terminate: float = 2, **spec: Any) -> DaemonLab:
    lab = DaemonLab(startup=startup, terminate=terminate)
    DaemonSetController(lab.kernel, lab.informers, lab.client)
    for number in range(nodes):
        lab.add_node(f"node-{number}", {"disk": "ssd" if number % 2 else "hdd"})
    lab.server.create("DaemonSet", make_set(**spec))
    lab.begin()
    return lab


def status(lab: Lab) -> DaemonSetStatus:
    found: DaemonSetStatus = lab.stored("DaemonSet", "agent").status
    return found


def where(lab: Lab) -> list[str]:
    return sorted(target_node(pod) for pod in lab.pods() if pod.deleted is None)


def change(lab: Lab, **fields: Any) -> None:
    found = lab.stored("DaemonSet", "agent")
    lab.server.update("DaemonSet", replace(found, spec=replace(found.spec, **fields)))


def change_node(lab: Lab, name: str, *taints: Taint, **labels: str) -> None:
    node = lab.server.get("Node", name)
    metadata = replace(node.metadata, labels={**node.metadata.labels, **labels})
    lab.server.put("Node", replace(node, metadata=metadata, spec=replace(node.spec, taints=taints)))


def rolling(**fields: Any) -> DaemonSetUpdateStrategy:
    return DaemonSetUpdateStrategy(rolling_update=RollingUpdateDaemonSet(**fields))


def images(lab: Lab) -> dict[str, str]:
    return {pod.spec.node_name: pod.spec.containers[0].image for pod in lab.pods() if pod.deleted is None}


def test_each_node_gets_one_pod_that_is_meant_for_it() -> None:
    """By a required affinity to the node's name; the pods go through the scheduler."""
    lab = lab_with(3)
    lab.run(20)
    assert where(lab) == ["node-0", "node-1", "node-2"]
    found = status(lab)
    assert (found.desired_number_scheduled, found.number_ready, found.updated_number_scheduled) == (3, 3, 3)
    assert found.number_unavailable == 0


def test_nodes_are_chosen_by_selector_and_taints() -> None:
    """A node selector, a taint that nobody tolerates, and one that every daemon tolerates."""
    lab = lab_with(4, template=template(node_selector={"disk": "ssd"}))
    lab.add_node("tainted", {"disk": "ssd"}, (Taint(key="dedicated", effect="NoSchedule"),))
    lab.add_node("pressed", {"disk": "ssd"}, (Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule"),))
    lab.run(20)
    assert where(lab) == ["node-1", "node-3", "pressed"]


def test_new_node_and_new_label_bring_a_pod() -> None:
    """A node is looked at when it comes and when its labels change."""
    lab = lab_with(1, template=template(node_selector={"disk": "ssd"}))
    lab.run(10)
    assert where(lab) == []
    lab.add_node("late", {"disk": "ssd"})
    change_node(lab, "node-0", disk="ssd")
    lab.run(20)
    assert where(lab) == ["late", "node-0"]


def test_no_schedule_taint_keeps_the_pod_and_no_execute_deletes_it() -> None:
    """A pod may stay where no new one would be made; it then counts as misscheduled."""
    lab = lab_with(2)
    lab.run(20)
    change_node(lab, "node-0", Taint(key="dedicated", effect="NoSchedule"))
    lab.run(21)
    assert where(lab) == ["node-0", "node-1"]
    change_node(lab, "node-1", Taint(key="dedicated", effect="NoExecute"))
    lab.run(30)
    assert where(lab) == ["node-0"]
    assert (status(lab).desired_number_scheduled, status(lab).number_misscheduled) == (0, 1)


def test_at_most_250_pods_are_made_before_they_are_seen() -> None:
    """Burst 250: the rest follows when the first ones have come back through the watch."""
    lab = Lab(startup=5)
    DaemonSetController(lab.kernel, lab.informers, lab.client)
    counts: list[int] = []
    lab.feed.watch("probe", frozenset({"Pod"}), lambda change: counts.append(len(lab.server.all("Pod"))))
    for number in range(300):
        lab.add_node(f"node-{number:03d}")
    lab.server.create("DaemonSet", make_set())
    lab.begin()
    lab.run(1)
    assert counts[0] == 250
    assert len(lab.pods()) == 300


def test_failed_pod_is_deleted_and_its_successors_back_off() -> None:
    """At once, then 1, 2, 4, ... s after the deletion before."""
    lab = lab_with(1, startup=0.5)
    lab.run(1)
    deleted: list[float] = []
    for number in range(1, 5):
        lab.run(20 * number)
        lab.end(lab.pods()[0].key, code=1)
        lab.run(20 * number + 0.1)
    deleted = [at for at, _, reason, _ in lab.events if reason == "FailedDaemonPod"]
    assert deleted == [20, 40, 60, 80]
    backoff = FailureBackoff()
    waits = []
    for _ in range(4):
        backoff.advance("key", 0)
        waits.append(backoff.delay("key") // SECOND)
    assert waits == [1, 2, 4, 8]
    assert backoff.is_waiting("key", 7 * SECOND)
    assert not backoff.is_waiting("key", 8 * SECOND)
    backoff.advance("key", 40 * 60 * SECOND)
    assert backoff.delay("key") == SECOND


def test_pod_that_fails_within_its_back_off_stays_until_it_is_over() -> None:
    """Second failure 0.6 s after the first deletion: deleted when the delay of 1 s has passed again."""
    lab = lab_with(1, startup=0.5, terminate=0.1)
    lab.run(10)
    lab.end(lab.pods()[0].key, code=1)
    lab.run(10.6)
    lab.end(lab.pods()[0].key, code=1)
    lab.run(30)
    assert [at for at, _, reason, _ in lab.events if reason == "FailedDaemonPod"] == [10, 11.6]


def test_rolling_update_replaces_one_node_after_the_other() -> None:
    """maxUnavailable 1, by node name: 2 s to stop and 5 s to start each."""
    lab = lab_with(3)
    lab.run(20)
    change(lab, template=template("two"))
    lab.run(80)
    assert [at for at, _ in lab.created[3:]] == [22, 29, 36]
    assert images(lab) == dict.fromkeys(["node-0", "node-1", "node-2"], "two")


def test_max_unavailable_in_percent_is_rounded_up() -> None:
    """30 % of 4 nodes are 2."""
    lab = lab_with(4, update_strategy=rolling(max_unavailable="30%"))
    lab.run(20)
    change(lab, template=template("two"))
    lab.run(21)
    assert len([pod for pod in lab.pods() if pod.deleted is not None]) == 2


def test_surge_makes_the_new_pod_before_it_deletes_the_old_one() -> None:
    """maxSurge 1, maxUnavailable 0: every node always has a ready pod."""
    lab = lab_with(2, update_strategy=rolling(max_unavailable=0, max_surge=1))
    lab.run(20)
    change(lab, template=template("two"))
    for second in range(21, 60):
        lab.run(second)
        assert {pod.spec.node_name for pod in lab.pods() if pod.is_ready} >= {"node-0", "node-1"}
    assert images(lab) == {"node-0": "two", "node-1": "two"}


def test_on_delete_waits_for_somebody_to_delete() -> None:
    """Then the new pod is of the new revision."""
    lab = lab_with(2, update_strategy=DaemonSetUpdateStrategy(type="OnDelete"))
    lab.run(20)
    change(lab, template=template("two"))
    lab.run(40)
    assert set(images(lab).values()) == {"one"}
    lab.server.delete("Pod", next(pod.key for pod in lab.pods() if pod.spec.node_name == "node-1"))
    lab.run(60)
    assert images(lab) == {"node-0": "one", "node-1": "two"}


def test_pod_waiting_for_a_node_that_is_gone_is_deleted() -> None:
    """The scheduler will never place it and pod garbage collection looks at bound pods only."""
    lab = DaemonLab(binds=False)
    DaemonSetController(lab.kernel, lab.informers, lab.client)
    lab.add_node("node-0")
    lab.add_node("node-1")
    lab.server.create("DaemonSet", make_set())
    lab.begin()
    lab.run(1)
    lab.server.remove("Node", "node-1")
    change(lab, min_ready_seconds=1)
    lab.run(2)
    assert where(lab) == ["node-0"]


def test_min_ready_seconds_delay_availability() -> None:
    """Ready at 5 s, available 10 s later."""
    lab = lab_with(1, min_ready_seconds=10)
    lab.run(12)
    assert (status(lab).number_ready, status(lab).number_available) == (1, 0)
    lab.run(17)
    assert status(lab).number_available == 1


def test_tolerations_of_daemons_replace_limited_ones_of_the_template() -> None:
    """A template that tolerates not-ready for 60 s tolerates it for ever as a daemon."""
    limited = Toleration(
        key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=60
    )
    placement = Placement(make_set(template=template(tolerations=(limited,), host_network=True)))
    keys = [(each.key.rpartition("/")[2], each.toleration_seconds) for each in placement.spec.tolerations]
    assert keys == [
        ("not-ready", None),
        ("unreachable", None),
        ("disk-pressure", None),
        ("memory-pressure", None),
        ("pid-pressure", None),
        ("unschedulable", None),
        ("network-unavailable", None),
    ]


def test_sync_looks_at_changed_nodes_only() -> None:
    """One of 200 pods changes: one node is evaluated, not 200."""
    lab = lab_with(200)
    lab.run(30)
    seen: list[str] = []
    evaluate = Ledger._evaluate

    def counting(self: Ledger, name: str, now: int) -> Any:
        seen.append(name)
        return evaluate(self, name, now)

    Ledger._evaluate = counting  # type: ignore[method-assign]
    try:
        pod = lab.pods()[7]
        lab.server.put("Pod", replace(pod, ready="False", ready_since=lab.kernel.now))
        lab.run(31)
    finally:
        Ledger._evaluate = evaluate  # type: ignore[method-assign]
    assert set(seen) == {pod.spec.node_name}
    assert status(lab).number_ready == 199


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("taint untaint fail delete add rollout run".split()), st.integers(0, 4))
)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS, st.sampled_from([{}, {"max_surge": 1, "max_unavailable": 0}, {"max_unavailable": 2}]))
def test_sums_kept_by_changes_equal_sums_over_all_nodes(
    operations: list[tuple[str, int]], limits: dict[str, int]
) -> None:
    """Whatever happens, the ledger says what one that is built anew says."""
    lab = DaemonLab(startup=5, terminate=2)
    controller = DaemonSetController(lab.kernel, lab.informers, lab.client)
    for number in range(3):
        lab.add_node(f"node-{number}")
    lab.server.create("DaemonSet", make_set(update_strategy=rolling(**limits)))
    lab.begin()
    second = 0.0
    for step, (operation, number) in enumerate(operations):
        name, pods = f"node-{number}", lab.pods()
        if operation == "taint" and lab.server.find("Node", name):
            change_node(lab, name, Taint(key="x", effect="NoExecute" if number % 2 else "NoSchedule"))
        elif operation == "untaint" and lab.server.find("Node", name):
            change_node(lab, name)
        elif operation == "fail" and pods:
            lab.end(pods[number % len(pods)].key, code=1)
        elif operation == "delete" and pods:
            lab.server.delete("Pod", pods[number % len(pods)].key)
        elif operation == "add" and not lab.server.find("Node", name):
            lab.add_node(name)
        elif operation == "rollout":
            change(lab, template=template(str(step)))
        second += 3 if operation == "run" else 0.5
        lab.run(second)
    lab.run(second + 1)
    found = lab.stored("DaemonSet", "agent")
    for ledger in controller._ledgers.values():
        fresh = Ledger(found, lab.informers.all("Node"), lab.informers.group("ds").pods.values())
        fresh.refresh(ledger.digest, lab.kernel.now)
        ledger.refresh(ledger.digest, lab.kernel.now)
        assert (ledger.sums, ledger.candidates, ledger.outdated) == (fresh.sums, fresh.candidates, fresh.outdated)


def test_template_with_a_node_name_runs_there_only() -> None:
    """Such pods are bound from the start."""
    placement = Placement(make_set(template=template(node_name="node-1")))
    nodes = [Node(metadata=ObjectMeta(name=f"node-{number}"), spec=NodeSpec()) for number in range(2)]
    assert [placement.judge(node).run for node in nodes] == [False, True]
