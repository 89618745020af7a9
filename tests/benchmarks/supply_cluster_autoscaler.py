"""The loops of Cluster Autoscaler that `supply_rate.py` times: 3 node groups, 10 workloads.

`up`: so many nodes that are nearly full, so many pending pods. `spread`: the pods spread over host names. `down`: nodes
with two small pods each, at the start and after the time that a node must be unneeded. `idle`: one more loop over a
busy cluster in which nothing has changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupState, Instance, NodeGroup
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.options import HOUR, AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.static_autoscaler import StaticAutoscaler
from stowplan_scheduler.objects import (
    Container,
    LabelSelector,
    Node,
    NodeCondition,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from stowplan_scheduler.objects.pod import ResourceMap

START = 1_800_000_000 * SECOND
SIZES = {"ng1": ("4", "16Gi"), "ng2": ("8", "32Gi"), "ng3": ("16", "32Gi")}
REQUESTS = (
    ("100m", "128Mi"),
    ("250m", "512Mi"),
    ("500m", "256Mi"),
    ("500m", "1500Mi"),
    ("700m", "700Mi"),
    ("1", "2Gi"),
    ("1300m", "1Gi"),
    ("1500m", "3000Mi"),
    ("2", "4Gi"),
    ("2500m", "6000Mi"),
)

Line = tuple[str, float, str]
"""What was timed, seconds of the processor, and what came of it."""


def _node(group: str, name: str) -> Node:
    cpu, memory = SIZES[group]
    amounts: ResourceMap = {"cpu": cpu, "memory": memory, "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "group": group}
    ready = (NodeCondition(type="Ready", status="True"),)
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        status=NodeStatus(capacity=amounts, allocatable=amounts, conditions=ready),
    )


def _pod(workload: str, index: int, requests: tuple[str, str], node: str, *, spread: bool) -> Pod:
    labels = {"app": workload}
    constraints: tuple[TopologySpreadConstraint, ...] = ()
    if spread:
        constraints = (
            TopologySpreadConstraint(
                max_skew=1,
                topology_key="kubernetes.io/hostname",
                when_unsatisfiable="DoNotSchedule",
                label_selector=LabelSelector(match_labels=labels),
            ),
        )
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=workload, uid=workload, controller=True)
    amounts: ResourceMap = {"cpu": requests[0], "memory": requests[1]}
    return Pod(
        metadata=ObjectMeta(
            name=f"{workload}-{index}",
            namespace="default",
            uid=f"{node}/{workload}-{index}",
            labels=labels,
            owner_references=(owner,),
        ),
        spec=PodSpec(
            containers=(Container(name="c", resources=ResourceRequirements(requests=amounts)),),
            node_name=node,
            topology_spread_constraints=constraints,
        ),
    )


def cluster(nodes: int, pending: int, *, spread: bool = False, load: tuple[str, str] = ("1600m", "1Gi")) -> Observation:
    """Nodes of the first group with two pods each, and pending pods of ten workloads in turn of creation."""
    observation = Observation()
    number = 0
    for index in range(nodes):
        name = f"ng1-n{index}"
        observation.set_node(_node("ng1", name), group="ng1", created=START - 2 * HOUR)
        for each in range(2):
            number += 1
            pod = _pod("running", each, load, name, spread=False)
            observation.set_pod(pod, number=number, created=START - HOUR)
    for workload, requests in enumerate(REQUESTS):
        for index in range(pending // len(REQUESTS)):
            number += 1
            pod = _pod(f"w{workload}", index, requests, "", spread=spread)
            observation.set_pod(pod, number=number, created=START - MINUTE, unschedulable=True)
    observation.set_owner("ReplicaSet", "default/running", 2 * nodes)
    instances = tuple(Instance(f"ng1-n{index}") for index in range(nodes))
    observation.set_group("ng1", GroupState(nodes, instances))
    return observation


def autoscaler(observation: Observation) -> StaticAutoscaler:
    """An autoscaler with default flags but for the wait after a taint."""
    groups = [NodeGroup(id=id, min_size=0, max_size=3000, template=_node(id, f"{id}-template")) for id in SIZES]
    return StaticAutoscaler(AutoscalingOptions(), groups, observation, now=START)


def _timed(scaler: StaticAutoscaler, now: int) -> tuple[float, str]:
    begin = time.process_time()
    result = scaler.run_once(now)
    seconds = time.process_time() - begin
    up, down = result.scale_up, result.scale_down
    outcome = f"up={up.result} plan={up.plan} options={len(result.options)} down={down.result}"
    return seconds, f"{outcome} unneeded={len(down.unneeded)} deleted={len(down.deleted)}"


def lines() -> Iterator[Line]:
    """All cases, in order."""
    for nodes in (0, 100, 1000):
        for pending in (1000, 5000):
            yield f"up nodes={nodes} pending={pending}", *_timed(autoscaler(cluster(nodes, pending)), START)
    spread = autoscaler(cluster(100, 1000, spread=True))
    yield "up nodes=100 pending=1000 spread", *_timed(spread, START)
    for nodes in (100, 1000):
        scaler = autoscaler(cluster(nodes, 0, load=("400m", "1Gi")))
        yield f"down nodes={nodes} at 0", *_timed(scaler, START)
        yield f"down nodes={nodes} at 605", *_timed(scaler, START + 605 * SECOND)
    for nodes in (100, 1000):
        scaler = autoscaler(cluster(nodes, 0))
        for loop in range(2):
            _timed(scaler, START + loop * 10 * SECOND)
        yield f"idle nodes={nodes}", *_timed(scaler, START + 20 * SECOND)
