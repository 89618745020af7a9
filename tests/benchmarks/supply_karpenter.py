"""The rounds of Karpenter that `supply_rate.py` times: one pool of kwok's catalogue, machines below 33 cores.

`provision`: so many nodes with six pods each, so many pending pods of 30 sizes. `diverse`: a fifth each of the pods is
plain, spreads over zones, over hosts, has affinity within its zone, shuns its like on one host. `again`: the next round
of the same engine after a few new pods. `disrupt`: nodes with two small pods each, up to the first command. `idle`: the
same once more when nothing has changed and nothing can be done.

The workloads of `provision`, `diverse` and `disrupt` are those for which the recorded program printed its times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.karpenter import (
    Budget,
    Catalogue,
    ClusterState,
    Disruption,
    Engine,
    NodeClaim,
    NodePool,
    Options,
    Requirement,
    schedule,
)
from stowplan_autoscaling.supply.karpenter.disruption import DisruptionController, DisruptionQueue, Start, Wait
from stowplan_autoscaling.supply.karpenter.disruption.simulation import Scene
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import CPU_LABEL, KWOK_WELL_KNOWN, kwok_instance_types
from stowplan_autoscaling.supply.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODE_POOL,
    ON_DEMAND,
    OS,
    REGISTERED,
    TRUE,
    ZONE,
)
from stowplan_scheduler.objects import (
    Affinity,
    Container,
    LabelSelector,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from stowplan_scheduler.quantity import quantity_text
from stowplan_scheduler.timestamps import format_time

START = 1_800_000_000 * SECOND
CPU = ("100m", "250m", "500m", "1", "1500m")
MEMORY = ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
TYPES = ("c-4x-amd64-linux", "s-8x-amd64-linux", "m-8x-amd64-linux")
OWNER = (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True),)

Line = tuple[str, float, str]
"""What was timed, seconds of the processor, and what came of it."""


class Cluster:
    """So many nodes, with so many pods on each of them."""

    def __init__(self, nodes: int, pods_per_node: int) -> None:
        options = Options(well_known=KWOK_WELL_KNOWN)
        self.engine = Engine(options)
        types = kwok_instance_types()
        pool = NodePool(
            name="default",
            requirements=(
                Requirement.of(OS, "In", ["linux"]),
                Requirement.of(ARCH, "In", ["amd64"]),
                Requirement.of(CAPACITY_TYPE, "In", [ON_DEMAND]),
                Requirement.of(CPU_LABEL, "Lt", ["33"]),
            ),
            disruption=Disruption(budgets=(Budget(nodes="100%"),)),
        )
        self.catalogue = Catalogue([pool], {"default": self.engine.table(types)}, (), options, self.engine.axis)
        self.state = ClusterState(self.engine.shapes)
        by_name = {item.name: item for item in types}
        for number in range(nodes):
            name, item = f"n{number:04d}", by_name[TYPES[number % 3]]
            labels = {r.key: r.single for r in item.requirements if r.single is not None}
            labels |= {ZONE: f"test-zone-{'abcd'[number % 4]}", CAPACITY_TYPE: ON_DEMAND, HOSTNAME: name}
            labels |= {NODE_POOL: "default", REGISTERED: TRUE, INITIALIZED: TRUE, INSTANCE_TYPE: item.name}
            claim = NodeClaim(
                name=f"nc-{name}", provider_id=f"kwok://{name}", created=START, labels=labels, capacity=item.capacity,
                allocatable=item.allocatable, initialized=START, consolidatable=START,
            )  # fmt: skip
            self.state.update_claim(claim, START)
            self.state.update_node(
                Node(
                    metadata=ObjectMeta(name=name, labels=labels),
                    spec=NodeSpec(provider_id=claim.provider_id),
                    status=NodeStatus(
                        capacity={n: quantity_text(v) for n, v in item.capacity.items()},
                        allocatable={n: quantity_text(v) for n, v in item.allocatable.items()},
                        conditions=(NodeCondition(type="Ready", status="True"),),
                    ),
                ),
                START,
            )
            for index in range(pods_per_node):
                self.state.update_pod(_pod(f"w{number:04d}{index}", "600m", "512Mi", {}, {}, name), START)


def _pod(name: str, cpu: str, memory: str, labels: dict[str, str], spec: dict[str, Any], node: str = "") -> Pod:
    only = Container(name="c", image="pause", resources=ResourceRequirements(requests={"cpu": cpu, "memory": memory}))
    waits = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    status = PodStatus(phase="Running") if node else PodStatus(phase="Pending", conditions=(waits,))
    meta = ObjectMeta(
        name=name, namespace="default", uid=name, labels=labels, creation_timestamp=format_time(START),
        owner_references=OWNER,
    )  # fmt: skip
    return Pod(metadata=meta, spec=PodSpec(containers=(only,), node_name=node, **spec), status=status)


def _pending(count: int, *, diverse: bool, first: int = 0) -> list[Pod]:
    drawn = np.random.default_rng(42 + first)
    pods = []
    for number in range(first, first + count):
        cpu, memory = CPU[drawn.integers(len(CPU))], MEMORY[drawn.integers(len(MEMORY))]
        app = f"app{drawn.integers(7)}"
        labels, spec = {"app": app}, _constraint(number % 5 if diverse else 0, app)
        if diverse and number % 5 == 4:
            labels = {"app": "lonely"}
        pods.append(_pod(f"p{number:05d}", cpu, memory, labels, spec))
    return pods


def _constraint(kind: int, app: str) -> dict[str, Any]:
    def term(name: str, key: str) -> PodAffinity:
        wanted = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": name}), topology_key=key)
        return PodAffinity(required_during_scheduling_ignored_during_execution=(wanted,))

    if kind in {1, 2}:
        spread = TopologySpreadConstraint(
            max_skew=1, topology_key=ZONE if kind == 1 else HOSTNAME, when_unsatisfiable="DoNotSchedule",
            label_selector=LabelSelector(match_labels={"app": app}),
        )  # fmt: skip
        return {"topology_spread_constraints": (spread,)}
    if kind == 3:
        return {"affinity": Affinity(pod_affinity=term(app, ZONE))}
    return {"affinity": Affinity(pod_anti_affinity=term("lonely", HOSTNAME))} if kind == 4 else {}


def _provision(nodes: int, pods: int, *, diverse: bool) -> Iterator[Line]:
    cluster = Cluster(nodes, 6)
    name = f"{'diverse' if diverse else 'provision'}, {nodes} nodes, {pods} pods"
    yield _round(name, cluster, _pending(pods, diverse=diverse))
    if diverse:
        return
    for key in list(cluster.state.pending):
        cluster.state.delete_pod(key, START)
    yield _round(f"again, {nodes} nodes, 20 pods", cluster, _pending(20, diverse=False, first=pods))


def _round(name: str, cluster: Cluster, waiting: list[Pod]) -> Line:
    """The round for some pods, from the moment at which they are known."""
    began = time.process_time()
    for pod in waiting:
        cluster.state.update_pod(pod, START)
    results = schedule(cluster.engine, cluster.catalogue, cluster.state, START)
    seconds = time.process_time() - began
    placed = sum(len(pods) for _, pods in results.existing)
    return name, seconds, f"{len(results.claims)} claims, {placed} pods on nodes, {len(results.errors)} failed"


def _disrupt(nodes: int) -> Iterator[Line]:
    cluster = Cluster(nodes, 2)
    scene = Scene(cluster.engine, cluster.catalogue, cluster.state)
    controller = DisruptionController(DisruptionQueue(cluster.state))
    now = START
    began = time.process_time()
    outcome = controller.advance(scene, now)
    while isinstance(outcome, Wait):
        now = outcome.until
        outcome = controller.advance(scene, now)
    seconds = time.process_time() - began
    gone = len(outcome.command.candidates) if isinstance(outcome, Start) else 0
    yield f"disrupt, {nodes} nodes", seconds, f"{gone} nodes in the command"


def _idle(nodes: int) -> Iterator[Line]:
    """Every node is full, so no method finds anything."""
    cluster = Cluster(nodes, 6)
    scene = Scene(cluster.engine, cluster.catalogue, cluster.state)
    controller = DisruptionController(DisruptionQueue(cluster.state))
    for state in list(cluster.state.nodes.values()):
        left = state.available()
        filler = _pod(f"f{state.name}", quantity_text(left["cpu"]), quantity_text(left["memory"]), {}, {}, state.name)
        cluster.state.update_pod(filler, START)
    for name in ("nothing to gain", "idle"):
        began = time.process_time()
        outcome = controller.advance(scene, START)
        yield f"{name}, {nodes} nodes", time.process_time() - began, type(outcome).__name__


def lines() -> Iterator[Line]:
    """All cases, the small ones first."""
    for nodes, pods in ((0, 1000), (100, 1000), (100, 5000), (1000, 5000)):
        yield from _provision(nodes, pods, diverse=False)
    for nodes, pods in ((100, 1000), (100, 5000), (1000, 5000)):
        yield from _provision(nodes, pods, diverse=True)
    for nodes in (100, 1000):
        yield from _disrupt(nodes)
    for nodes in (100, 500):
        yield from _idle(nodes)
