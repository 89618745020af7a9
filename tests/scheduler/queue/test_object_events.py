"""Which events the update of a pod or a node is reported as."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from stowplan_scheduler.framework.cluster_event import Resource
from stowplan_scheduler.objects import (
    Container,
    ContainerStatus,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceMap,
    ResourceRequirements,
    Taint,
    Toleration,
)
from stowplan_scheduler.queue import node_update_events, pod_update_events


def asking(**requests: str) -> PodSpec:
    resources = ResourceRequirements(requests={name.replace("_", "-"): amount for name, amount in requests.items()})
    return PodSpec(containers=(Container(name="c", resources=resources),))


def allocated(amounts: ResourceMap) -> PodStatus:
    return PodStatus(container_statuses=(ContainerStatus(name="c", allocated_resources=amounts),))


@dataclass(frozen=True)
class PodCase:
    id: str
    old: Pod
    new: Pod
    labels: list[str]


POD_CASES = [
    PodCase("nothing changed", Pod(), Pod(), ["Update"]),
    PodCase(
        "a condition only",
        Pod(spec=asking(cpu="1")),
        Pod(spec=asking(cpu="1"), status=PodStatus(conditions=(PodCondition(type="PodScheduled", status="False"),))),
        ["Update"],
    ),
    PodCase("labels", Pod(), Pod(metadata=ObjectMeta(labels={"a": "b"})), ["UpdatePodLabel"]),
    PodCase("less", Pod(spec=asking(cpu="2")), Pod(spec=asking(cpu="1500m")), ["UpdatePodScaleDown"]),
    PodCase("a request gone", Pod(spec=asking(cpu="2")), Pod(spec=asking()), ["UpdatePodScaleDown"]),
    PodCase("more", Pod(spec=asking(cpu="1")), Pod(spec=asking(cpu="1001m")), ["UpdatePodScaleUp"]),
    PodCase("a request of zero appeared", Pod(spec=asking()), Pod(spec=asking(cpu="0")), ["UpdatePodScaleUp"]),
    PodCase("the same amount in other words", Pod(spec=asking(cpu="1")), Pod(spec=asking(cpu="1000m")), ["Update"]),
    PodCase(
        "less of one, more of another",
        Pod(spec=asking(cpu="1", memory="2Gi")),
        Pod(spec=asking(cpu="2", memory="1Gi")),
        ["UpdatePodScaleDown", "UpdatePodScaleUp"],
    ),
    PodCase(
        "the kubelet still holds the old amount",
        Pod(spec=asking(cpu="2"), status=allocated({"cpu": "2"})),
        Pod(spec=asking(cpu="1"), status=allocated({"cpu": "2"})),
        ["Update"],
    ),
    PodCase(
        "the kubelet let go",
        Pod(spec=asking(cpu="1"), status=allocated({"cpu": "2"})),
        Pod(spec=asking(cpu="1"), status=allocated({"cpu": "1"})),
        ["UpdatePodScaleDown"],
    ),
    PodCase(
        "the last gate went",
        Pod(spec=PodSpec(scheduling_gates=(PodSchedulingGate(name="g"),))),
        Pod(),
        ["UpdatePodSchedulingGatesEliminated"],
    ),
    PodCase(
        "one of two gates went",
        Pod(spec=PodSpec(scheduling_gates=(PodSchedulingGate(name="g"), PodSchedulingGate(name="h")))),
        Pod(spec=PodSpec(scheduling_gates=(PodSchedulingGate(name="h"),))),
        ["Update"],
    ),
    PodCase("tolerations", Pod(), Pod(spec=PodSpec(tolerations=(Toleration(key="k"),))), ["UpdatePodToleration"]),
    PodCase(
        "a toleration was replaced, which the API forbids",
        Pod(spec=PodSpec(tolerations=(Toleration(key="k"),))),
        Pod(spec=PodSpec(tolerations=(Toleration(key="l"),))),
        ["Update"],
    ),
    PodCase(
        "a generated claim",
        Pod(),
        Pod(status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="c", resource_claim_name="x"),))),
        ["UpdatePodGeneratedResourceClaim"],
    ),
    PodCase(
        "everything at once, in upstream's order",
        Pod(spec=msgspec.structs.replace(asking(cpu="2"), scheduling_gates=(PodSchedulingGate(name="g"),))),
        Pod(
            metadata=ObjectMeta(labels={"a": "b"}),
            spec=msgspec.structs.replace(asking(cpu="1", memory="1"), tolerations=(Toleration(key="k"),)),
            status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="c"),)),
        ),
        [
            "UpdatePodLabel",
            "UpdatePodScaleDown",
            "UpdatePodScaleUp",
            "UpdatePodSchedulingGatesEliminated",
            "UpdatePodToleration",
            "UpdatePodGeneratedResourceClaim",
        ],
    ),
]


@pytest.mark.parametrize("case", POD_CASES, ids=lambda case: case.id)
def test_a_pod_update_is_reported_by_what_changed(case: PodCase) -> None:
    """One event per aspect; the waiting pod itself is the target."""
    events = pod_update_events(case.old, case.new, Resource.TARGET_POD)
    assert [event.label for event in events] == [f"TargetPod{label}" for label in case.labels]


def test_a_pod_with_a_node_is_an_assigned_pod_whatever_the_caller_says() -> None:
    """Upstream looks at the new object first."""
    bound = Pod(spec=PodSpec(node_name="n"))
    assert [event.label for event in pod_update_events(Pod(), bound, Resource.TARGET_POD)] == ["AssignedPodUpdate"]
    assert [e.label for e in pod_update_events(Pod(), Pod(), Resource.UNSCHEDULED_POD)] == ["UnscheduledPodUpdate"]


def conditions(**statuses: str) -> NodeStatus:
    return NodeStatus(conditions=tuple(NodeCondition(type=name, status=value) for name, value in statuses.items()))


@dataclass(frozen=True)
class NodeCase:
    id: str
    old: Node
    new: Node
    labels: list[str]


NODE_CASES = [
    NodeCase("heartbeat", Node(), Node(metadata=ObjectMeta(resource_version="2")), []),
    NodeCase("uncordoned", Node(spec=NodeSpec(unschedulable=True)), Node(), ["NodeUpdateNodeTaint"]),
    NodeCase("cordoned", Node(), Node(spec=NodeSpec(unschedulable=True)), []),
    NodeCase(
        "allocatable",
        Node(status=NodeStatus(allocatable={"cpu": "1"})),
        Node(status=NodeStatus(allocatable={"cpu": "2"})),
        ["NodeUpdateNodeAllocatable"],
    ),
    NodeCase(
        "allocatable in other words",
        Node(status=NodeStatus(allocatable={"cpu": "1"})),
        Node(status=NodeStatus(allocatable={"cpu": "1000m"})),
        [],
    ),
    NodeCase("labels", Node(), Node(metadata=ObjectMeta(labels={"a": "b"})), ["NodeUpdateNodeLabel"]),
    NodeCase("taints", Node(), Node(spec=NodeSpec(taints=(Taint(key="k"),))), ["NodeUpdateNodeTaint"]),
    NodeCase(
        "condition",
        Node(status=conditions(Ready="False")),
        Node(status=conditions(Ready="True")),
        ["NodeUpdateNodeCondition"],
    ),
    NodeCase(
        "conditions in another order",
        Node(status=conditions(Ready="True", DiskPressure="False")),
        Node(status=conditions(DiskPressure="False", Ready="True")),
        [],
    ),
    NodeCase(
        "another reason of a condition",
        Node(status=conditions(Ready="True")),
        Node(status=NodeStatus(conditions=(NodeCondition(type="Ready", status="True", reason="KubeletReady"),))),
        [],
    ),
    NodeCase("annotations", Node(), Node(metadata=ObjectMeta(annotations={"a": "b"})), ["NodeUpdateNodeAnnotation"]),
    NodeCase(
        "declared features",
        Node(),
        Node(status=NodeStatus(declared_features=("F",))),
        ["NodeUpdateNodeDeclaredFeature"],
    ),
    NodeCase(
        "uncordoned and untainted, in upstream's order",
        Node(spec=NodeSpec(unschedulable=True, taints=(Taint(key="k"),))),
        Node(metadata=ObjectMeta(labels={"a": "b"}), status=NodeStatus(allocatable={"cpu": "1"})),
        ["NodeUpdateNodeTaint", "NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
    ),
]


@pytest.mark.parametrize("case", NODE_CASES, ids=lambda case: case.id)
def test_a_node_update_is_reported_by_what_changed(case: NodeCase) -> None:
    """One event per aspect, none for a heartbeat."""
    assert [event.label for event in node_update_events(case.old, case.new)] == case.labels
