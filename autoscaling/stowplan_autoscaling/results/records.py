"""The rows of the results. Each kind is a table with a file of its own; the names of the fields are its header.

Times are seconds since the start of the run. Pods, workloads and nodes are named as in Kubernetes: "namespace/name",
"Deployment namespace/name", "node-1". A time that has not come is None, an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple


class WorkloadSample(NamedTuple):
    """One workload at one moment, every spec.sampling.period.

    replicas: spec.replicas. pods: those that exist and are not being deleted, of which pending have no node, starting
    have one and are not ready, ready are. cpu and memory: used and requested by them, in cores and bytes. throttled:
    cores that they wanted and did not get.
    """

    seconds: float
    workload: str
    replicas: int
    pods: int
    pending: int
    starting: int
    ready: int
    terminating: int
    cpu_used: float
    cpu_requested: float
    memory_used: int
    memory_requested: int
    throttled: float


class ServiceSample(NamedTuple):
    """One entry of spec.demand at one moment: units (requests, items, Jobs) per second, seconds, and counts.

    offered, served, failed: means since the row before, so that they add up to what happened; the others: at the
    moment.

    within: share of the requests that meets the latency objective (1 without one). queue_length and queue_age are those
    of waiting items; of a web service, of requests that wait for a place.
    """

    seconds: float
    demand: str
    offered: float
    served: float
    failed: float
    in_flight: float
    latency: float | None
    within: float
    queue_length: float
    queue_age: float


class AutoscalerSample(NamedTuple):
    """One sync of an HPA (or of KEDA): what it saw and what it did.

    value and target: of the metric that decided, in its unit (percent for utilisation). age: seconds since the samples
    it used were taken. reason: of the rescale, or of the condition that stopped it.
    """

    seconds: float
    autoscaler: str
    current: int
    proposed: int | None
    desired: int
    metric: str
    value: float | None
    target: float | None
    age: float | None
    reason: str


class NodeSample(NamedTuple):
    """A node after something about it has changed; it stays so until its next row.

    state: Ready, Cordoned, NotReady, or Gone. Amounts are cores and bytes, requested by its pods.
    """

    seconds: float
    node: str
    state: Literal["Ready", "Cordoned", "NotReady", "Gone"]
    pods: int
    cpu_requested: float
    cpu_allocatable: float
    memory_requested: int
    memory_allocatable: int


class ClusterSample(NamedTuple):
    """The whole cluster at one moment. in_use: nodes with a pod that does not belong to its node.

    Requested: by pods that have a node and have not ended, as the scheduler counts; pending pods request nothing yet.
    """

    seconds: float
    nodes: int
    ready: int
    in_use: int
    pods: int
    pending: int
    cpu_used: float
    cpu_requested: float
    cpu_allocatable: float
    memory_used: int
    memory_requested: int
    memory_allocatable: int


class PoolSample(NamedTuple):
    """One node pool at one moment, every spec.sampling.period. Nodes that belong to no pool are the pool "".

    ready, starting, leaving: nodes that take pods, that were asked for and take none yet, that are being emptied or
    are gone but paid for. cost: per hour, in the currency of the prices. Amounts are those of the ready and leaving
    nodes; stranded: free on nodes that no typical pod fits because another resource is short.
    """

    seconds: float
    pool: str
    ready: int
    starting: int
    leaving: int
    cost: float
    pods: int
    cpu_used: float
    cpu_requested: float
    cpu_allocatable: float
    cpu_stranded: float
    memory_used: int
    memory_requested: int
    memory_allocatable: int
    memory_stranded: int


class NodeRecord(NamedTuple):
    """The life of one node of a pool; written when it is gone, or at the end of the run.

    price: per hour. requested: the decision. launched: the machine runs, from here on it is paid for. registered: the
    Node exists. ready: it takes pods. disrupted: somebody began to empty it. ended: the machine is gone. began, end:
    why: for which loop it was made ("Initial", "ScaleUp", "Provisioning", "Replacement") and what ended it ("Running",
    "Unneeded", "Empty", "Underutilized", "Drifted", "Expired", "Interrupted", "Failed", "OutOfStock").
    """

    node: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float
    requested: float
    launched: float | None
    registered: float | None
    ready: float | None
    disrupted: float | None
    ended: float | None
    began: str
    end: str


class SupplyRecord(NamedTuple):
    """A decision of the node-supply loop, or that it wanted to and could not.

    loop: "ScaleUp", "ScaleDown" (Cluster Autoscaler), "Provisioning", "Consolidation", "Drift",
    "Expiration" (Karpenter), "Interruption" (the provider). pool: the one concerned, "" for none. nodes: how many more
    (or, negative, fewer) are wanted. pods: how many asked for it, or have to move. reason: of the decision, or what
    stopped it, in one word; message: the rest.
    """

    seconds: float
    loop: str
    pool: str
    nodes: int
    pods: int
    reason: str
    is_stopped: bool
    message: str


class AttemptRecord(NamedTuple):
    """One attempt to place a pod. evaluated (M): nodes whose filters ran. feasible (K): nodes that were scored.

    score: of the node that was chosen. nominated: the node that preemption makes room on.
    """

    seconds: float
    pod: str
    profile: str
    result: Literal["Scheduled", "Unschedulable", "Error"]
    node: str
    evaluated: int
    feasible: int
    nominated: str
    message: str


class Waiting(NamedTuple):
    """Where the time went until a pod was ready, in seconds.

    metric: from the change of demand to the sample that showed it (pods that an HPA wanted). autoscaler: from there to
    the decision (sync period, stabilisation, limits). controller: from the decision to the pod (client limits, quota).
    queue: waiting for its turn at the scheduler, with the attempts. supply: after a failed attempt, until the node that
    it got was asked for. node: until that node took pods. backoff: all other time after a failed attempt. image:
    pulling, and waiting for the turn to pull. start: sandbox, init containers,
    start of the containers. readiness: start of the application, probes.
    """

    metric: float = 0.0
    autoscaler: float = 0.0
    controller: float = 0.0
    queue: float = 0.0
    supply: float = 0.0
    node: float = 0.0
    backoff: float = 0.0
    image: float = 0.0
    start: float = 0.0
    readiness: float = 0.0


class PodRecord(NamedTuple):
    """The life of one pod; written when it has ended, or at the end of the run.

    end: Running, Pending, Succeeded, Failed, Deleted, Evicted, Preempted, OOMKilled or NodeLost. waiting covers the
    time up to ready, or up to the end of a pod that never was.
    """

    pod: str
    workload: str
    node: str
    created: float
    scheduled: float | None
    started: float | None
    ready: float | None
    ended: float | None
    end: str
    attempts: int
    restarts: int
    waiting: Waiting


class EventRecord(NamedTuple):
    """An event as the API shows it, or one of the simulation itself (source stowplan)."""

    seconds: float
    source: str
    type: Literal["Normal", "Warning"]
    reason: str
    object: str
    message: str


Row = (
    WorkloadSample
    | ServiceSample
    | AutoscalerSample
    | NodeSample
    | ClusterSample
    | PoolSample
    | AttemptRecord
    | PodRecord
    | NodeRecord
    | SupplyRecord
)

TABLES: Final[dict[type[Row], str]] = {
    WorkloadSample: "series/workloads.csv",
    ServiceSample: "series/services.csv",
    AutoscalerSample: "series/autoscalers.csv",
    NodeSample: "series/nodes.csv",
    ClusterSample: "series/cluster.csv",
    PoolSample: "series/pools.csv",
    AttemptRecord: "attempts.csv",
    PodRecord: "pods.csv",
    NodeRecord: "nodes.csv",
    SupplyRecord: "supply.csv",
}
"""The file of each table in a results folder."""

EVENTS_FILE: Final = "events.jsonl"
SUMMARY_FILE: Final = "summary.json"
MEASURES_FILE: Final = "measures.json"
"""What a comparison adds to the folder of a run."""


def header(table: type[Row]) -> list[str]:
    """The names of the columns; the parts of waiting stand by themselves, as waiting_queue."""
    names: list[str] = []
    for name in table._fields:
        names.extend(f"waiting_{part}" for part in Waiting._fields) if name == "waiting" else names.append(name)
    return names


def shown(values: Iterable[float]) -> list[float]:
    """Numbers as cells show them: whole ones without a point, others to the microsecond or millionth."""
    return [int(cut) if (cut := round(value, 6)).is_integer() else cut for value in values]
