"""The kind Simulation: one cluster, what is asked of it, and for how long."""

from __future__ import annotations

from typing import Annotated, Literal

from .base import NAME_PATTERN, FromList, Labels, Part, needed, option, parts
from .candidates import Candidates, Goals, PricesSpec
from .cluster import ClusterSpec, SchedulerSpec, WorkloadsSpec
from .demand import Demand, Downstream
from .faults import Faults, Objectives
from .metrics import MetricsSpec
from .node_pools import InstanceType, NodePool, ProviderSpec
from .settings import ControllersSpec, KubeletSpec
from .supply import SupplySpec
from .values import Duration, PositiveDuration, Time

API_VERSION = "stowplan.io/v1alpha1"
KIND = "Simulation"
MAX_SEED = 2**63 - 1


class Metadata(Part):
    """Name and labels."""

    name: str = needed("Name of the simulation.", pattern=NAME_PATTERN, max_length=253)
    labels: Labels = option({}, "Labels; they mean nothing here.", max_length=64)
    annotations: dict[str, str] = option({}, "Annotations; they mean nothing here.", max_length=256)


class Sampling(Part):
    """How often the series of the results have a row."""

    period: PositiveDuration = option("15s", "Time between two rows.")


class Bounds(Part):
    """Where a run that does not end by itself is stopped."""

    events_per_instant: int = option(
        20_000_000, "Things that may happen within one millisecond of virtual time.", ge=1, le=10**12
    )
    pods: int = option(1_000_000, "Pods that may exist at once.", ge=1, le=10_000_000)


class SimulationSpec(Part):
    """What is simulated."""

    duration: PositiveDuration = needed("How much virtual time passes.")
    seed: int = option(
        0,
        "For everything that is drawn by chance. The same seed gives the same results, byte by byte.",
        ge=0,
        le=MAX_SEED,
    )
    start: Time = option(
        "2026-01-05T00:00:00Z",
        "The virtual clock at the start, for CronJobs and times of day. The default is a Monday.",
    )
    settle: Duration = option(
        "0s",
        "Time before the start in which the workloads come up, without demand, without autoscalers, and without being "
        "recorded. 0s: the run begins with their creation.",
    )
    cluster: ClusterSpec = needed("Nodes, and objects that are there.")
    instance_types: Annotated[tuple[InstanceType, ...], FromList] = parts(
        "Kinds of machines that node pools are made of.", max_length=2000
    )
    instance_types_file: str = option(
        "",
        "A file with more of them, relative to this file: JSON as Karpenter's kwok provider has it, with prices.",
        max_length=4096,
    )
    node_pools: Annotated[tuple[NodePool, ...], FromList] = parts(
        "Nodes that come and go, as spec.supply decides.", max_length=256
    )
    supply: SupplySpec = option({"none": {}}, "Who decides about the nodes of the pools.")
    provider: ProviderSpec = option({}, "Whoever rents out the machines of the pools.")
    scheduler_profiles: SchedulerSpec = option({}, "Scheduler profiles. Without any: kube-scheduler's default profile.")
    workloads: WorkloadsSpec = option({}, "What runs, autoscalers included.")
    demand: Annotated[tuple[Demand, ...], FromList] = parts("What is asked of the workloads.", max_length=1000)
    downstreams: Annotated[tuple[Downstream, ...], FromList] = parts(
        "What caps the workloads from behind.", max_length=256
    )
    metrics: MetricsSpec = option({}, "The way of the metrics.")
    kubelet: KubeletSpec = option({}, "How pods start.")
    controllers: ControllersSpec = option({}, "Settings of the controllers.")
    faults: Faults = parts("What goes wrong.", max_length=1000)
    slo: Objectives = parts("What must hold.", max_length=256)
    prices: PricesSpec = option({}, "Prices of nodes.")
    candidates: Candidates = parts("What `stowplan compare` compares; nothing else looks at them.", max_length=100)
    baseline: str = option("", "Candidate that the others are compared with. Empty: the first one.", max_length=63)
    seeds: int = option(5, "Runs of each candidate, with spec.seed, spec.seed + 1 and so on.", ge=1, le=1000)
    goals: Goals = parts(
        "What candidates are judged by, the most important first. None: cost, waiting.p95, sloMisses.", max_length=50
    )
    sampling: Sampling = option({}, "Rows of the results.")
    bounds: Bounds = option({}, "Where a run that never settles is stopped.")


class Simulation(Part):
    """One cluster in virtual time: what happens to these workloads on these nodes under this demand."""

    api_version: Literal["stowplan.io/v1alpha1"] = needed("stowplan.io/v1alpha1.")
    kind: Literal["Simulation"] = needed("Simulation.")
    metadata: Metadata = needed("Name and labels.")
    spec: SimulationSpec = needed("What is simulated.")
