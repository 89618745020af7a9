"""What a run reports, as data: typed, in a fixed order, the same bytes for the same input.

Times are seconds, cpu is cores, memory is bytes, shares are from 0 to 1. JSON and YAML carry the names in camelCase.
"""

from __future__ import annotations

from typing import Final

import msgspec

SCHEMA: Final = "stowplan.io/run/v1"
"""Changes when a field changes its meaning or goes; new fields may come at any time."""

CURVE_BINS: Final = 60


class ReportPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all parts."""


class InputsReport(ReportPart, frozen=True, kw_only=True):
    """What was simulated, and by which version. `digest`: SHA-256 of the specification and all files it names."""

    name: str
    digest: str
    seed: int
    start: str
    version: str
    kubernetes: str


class Distribution(ReportPart, frozen=True, kw_only=True):
    """Of `count` values; percentiles by nearest rank. All zero where there are none."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    maximum: float = 0.0


class WaitingReport(ReportPart, frozen=True, kw_only=True):
    """How long pods waited until they were ready, from the change of demand where an autoscaler made them.

    `ready`: those that became ready. `split`: the mean of each part, over the same pods. `never_ready`: the others.
    """

    ready: Distribution
    split: dict[str, float]
    never_ready: int


class Level(ReportPart, frozen=True, kw_only=True):
    """A number over time; the mean is weighted by time."""

    minimum: float = 0.0
    mean: float = 0.0
    maximum: float = 0.0
    final: float = 0.0


class WorkloadReport(ReportPart, frozen=True, kw_only=True):
    """One workload. `curve`: ready pods, the mean of each sixtieth of the run; shorter if it was stopped."""

    workload: str
    replicas: Level
    ready: Level
    pending: Level
    cpu_used: Level
    pods_created: int
    throttled_core_seconds: float
    oom_kills: int
    evictions: int
    waiting: WaitingReport
    curve: tuple[float, ...]


class ServiceReport(ReportPart, frozen=True, kw_only=True):
    """One entry of spec.demand. Amounts are totals over the run; latency is the mean over served requests."""

    demand: str
    offered: float
    served: float
    failed: float
    latency: float | None
    worst_latency: float | None
    queue_length: Level
    worst_queue_age: float
    curve: tuple[float, ...]


class ObjectiveReport(ReportPart, frozen=True, kw_only=True):
    """One objective of spec.slo: the share that must hold and the one that did, and for how long it was missed."""

    name: str
    wanted: float
    share: float
    met: bool
    total: float
    missed: float
    missed_seconds: float


class AutoscalerReport(ReportPart, frozen=True, kw_only=True):
    """One HPA or scaled object. `stopped_by`: how often a sync ended with each reason."""

    autoscaler: str
    syncs: int
    scale_ups: int
    scale_downs: int
    desired: Level
    stopped_by: dict[str, int]


class WorkCounts(ReportPart, frozen=True, kw_only=True):
    """A number of nodes per attempt."""

    total: int = 0
    mean: float = 0.0
    maximum: int = 0


class SchedulingReport(ReportPart, frozen=True, kw_only=True):
    """Attempts, and how much work they were.

    `evaluated` (M): nodes whose filters ran. `feasible` (K): nodes that were scored, of attempts that placed their pod.
    """

    attempts: int = 0
    scheduled: int = 0
    unschedulable: int = 0
    errors: int = 0
    preemptions: int = 0
    evaluated: WorkCounts = WorkCounts()
    feasible: WorkCounts = WorkCounts()


class NodeReport(ReportPart, frozen=True, kw_only=True):
    """One node: how full it was by requests, as shares of what is allocatable, while it was there."""

    node: str
    cpu: Level
    memory: Level
    pods: Level


class ClusterReport(ReportPart, frozen=True, kw_only=True):
    """All nodes together: how many, and cpu and memory requested and used as shares of what is allocatable."""

    nodes: Level
    in_use: Level
    pods: Level
    pending: Level
    cpu_requested: Level
    cpu_used: Level
    memory_requested: Level
    memory_used: Level
    packing: tuple[NodeReport, ...]


class PoolReport(ReportPart, frozen=True, kw_only=True):
    """One node pool; "" is that of the nodes that belong to none.

    nodes: ready ones. Utilisation and what is stranded are shares of what is allocatable. started and ended: nodes that
    came and went; failed: that were asked for and never came; interrupted: spot nodes that the provider took back.
    """

    pool: str
    nodes: Level
    starting: Level
    node_hours: float
    cost: float
    cpu_requested: Level
    cpu_used: Level
    cpu_stranded: Level
    memory_requested: Level
    memory_used: Level
    memory_stranded: Level
    started: int
    ended: int
    failed: int
    interrupted: int
    curve: tuple[float, ...]


class CostReport(ReportPart, frozen=True, kw_only=True):
    """What the nodes cost, from launch to the end of the machine. hourly: the rate over time.

    by_pool and so on: each node at its own price. commitments: what commitments add to that or, negative, save.
    """

    currency: str
    total: float
    hourly: Level
    node_hours: float
    by_pool: dict[str, float]
    by_instance_type: dict[str, float]
    by_capacity_type: dict[str, float]
    commitments: float
    curve: tuple[float, ...]


class LoopReport(ReportPart, frozen=True, kw_only=True):
    """A control loop: what it looks at, what it aims at, how often and how late, its bounds, and what stopped it.

    Texts, with units; `runs`: how often it looked; `decisions`: how often it acted; `stopped_by`: what it wanted to do
    and could not, and why.
    """

    loop: str
    metric: str
    target: str
    interval: str
    delay: str
    minimum: str
    maximum: str
    runs: int = 0
    decisions: int = 0
    stopped_by: dict[str, int] = {}


class ContentionReport(ReportPart, frozen=True, kw_only=True):
    """What requests hide."""

    throttled_core_seconds: float = 0.0
    oom_kills: int = 0
    evictions: int = 0
    preempted: int = 0
    nodes_lost: int = 0


class RunReport(ReportPart, frozen=True, kw_only=True):
    """A run. `complete` is false, and `stopped` says why, if it did not reach its end; all else is up to `reached`.

    `cost` is None where no node has a price. `findings`: what a person should know, such as nodes that come and go for
    ever, or pods that no pool can take.
    """

    schema: str
    complete: bool
    stopped: str
    reached: float
    duration: float
    inputs: InputsReport
    warnings: tuple[str, ...]
    cluster: ClusterReport
    workloads: tuple[WorkloadReport, ...]
    services: tuple[ServiceReport, ...]
    objectives: tuple[ObjectiveReport, ...]
    autoscalers: tuple[AutoscalerReport, ...]
    waiting: WaitingReport
    scheduling: SchedulingReport
    contention: ContentionReport
    pools: tuple[PoolReport, ...] = ()
    cost: CostReport | None = None
    loops: tuple[LoopReport, ...] = ()
    findings: tuple[str, ...] = ()
    events: dict[str, int]


def report_bytes(report: ReportPart) -> bytes:
    """The report as indented JSON with sorted keys, the same bytes each time."""
    return msgspec.json.format(msgspec.json.encode(report, order="sorted"), indent=1) + b"\n"
