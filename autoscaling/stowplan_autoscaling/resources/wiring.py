"""From the kind to the settings of the parts that are simulated: kubelets, metrics, service models, ceilings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from stowplan_autoscaling.cluster.controllers.node_lifecycle.zones import EvictionRates
from stowplan_autoscaling.cluster.kubelet.config import ImageCatalog, KubeletConfig
from stowplan_autoscaling.cluster.kubelet.delays import Delay, fixed, log_normal, uniform
from stowplan_autoscaling.demand.batch import BatchModel
from stowplan_autoscaling.demand.ceilings import ApiQuota, Ceiling, Connections, Partitions
from stowplan_autoscaling.demand.pods import Startup
from stowplan_autoscaling.demand.service import ServiceModel
from stowplan_autoscaling.demand.worker import WorkerModel
from stowplan_autoscaling.hpa.controller import HPAFlags
from stowplan_autoscaling.metrics import (
    AdapterConfig,
    Housekeeping,
    MetricsServerConfig,
    Outage,
    PrometheusConfig,
    ScrapeFaults,
)

from .base import ObjectRef
from .demand import Downstream, JobArrivals, PodCosts, WebService, WorkerService
from .metrics import ChanceFaults, MetricsSpec
from .settings import ControllersSpec, KubeletSpec, StartUp
from .simulation import SimulationSpec

_NANO = 10**9
_HOUR = 3600
_EFFECTS: Mapping[str, Literal["error", "empty", "pods"]] = {"Error": "error", "Empty": "empty", "Pods": "pods"}


def _seconds(nanos: int) -> float:
    return nanos / _NANO


# ---- kubelets ------------------------------------------------------------------------------------------------------


def kubelet_config(spec: SimulationSpec) -> KubeletConfig:
    """The settings of all kubelets."""
    kubelet = spec.kubelet
    return KubeletConfig(
        watch_latency=_seconds(spec.controllers.watch_latency),
        sandbox=uniform(_seconds(kubelet.sandbox_min), _seconds(kubelet.sandbox_max)),
        container_start=fixed(_seconds(kubelet.container_start)),
        pull_rate=kubelet.pull_rate,
        pull_spread=log_normal(1.0, kubelet.pull_sigma),
        serialize_image_pulls=kubelet.serialize_image_pulls,
        max_parallel_image_pulls=kubelet.max_parallel_image_pulls,
        registry_pull_qps=kubelet.registry_pull_qps,
        registry_burst=kubelet.registry_burst,
        pleg_relist=_seconds(kubelet.pleg_relist),
    )


def image_catalog(kubelet: KubeletSpec) -> ImageCatalog:
    """What the registry holds."""
    return ImageCatalog(
        sizes={image.name: image.size for image in kubelet.images},
        default_size=kubelet.default_image_size,
        failing=frozenset(image.name for image in kubelet.images if image.missing),
    )


def start_up(kubelet: KubeletSpec, target: ObjectRef | None) -> StartUp | None:
    """What is said about a workload's start; None for nothing."""
    return next((startup for startup in kubelet.startups if startup.target == target), None)


def start_delay(startup: StartUp | None) -> Delay:
    """How long an application takes to answer."""
    return fixed(0.0) if startup is None else log_normal(_seconds(startup.median), startup.sigma)


# ---- controllers ---------------------------------------------------------------------------------------------------


def hpa_flags(controllers: ControllersSpec) -> HPAFlags:
    """The flags of the HPA controller.

    A sync has no flag for what it takes: it waits for a worker and for the client's turns, and is over at once
    otherwise (docs/architecture/cosim.md, "When loops look").
    """
    hpa = controllers.hpa
    return HPAFlags(
        sync_period=hpa.sync_period,
        tolerance=hpa.tolerance,
        downscale_stabilization=hpa.downscale_stabilization,
        cpu_initialization_period=hpa.cpu_initialization_period,
        initial_readiness_delay=hpa.initial_readiness_delay,
    )


def eviction_rates(controllers: ControllersSpec) -> EvictionRates:
    """How fast pods of silent nodes are evicted."""
    nodes = controllers.node_lifecycle
    return EvictionRates(
        normal=nodes.eviction_rate,
        secondary=nodes.secondary_eviction_rate,
        large_cluster=nodes.large_cluster_threshold,
        unhealthy=nodes.unhealthy_zone_threshold,
    )


# ---- demand --------------------------------------------------------------------------------------------------------


def service_model(web: WebService, startup: StartUp | None) -> ServiceModel:
    """What a request costs. `startup` of the target says for how long start-up use lasts."""
    return ServiceModel(
        cpu_per_request=web.cpu_per_request,
        wait_per_request=_seconds(web.wait_per_request),
        memory_per_request=web.memory_per_request,
        threads=web.threads,
        waiting=web.waiting,
        timeout=_seconds(web.timeout),
        idle_cpu=web.idle_cpu,
        memory=web.memory,
        memory_growth=web.memory_growth_per_hour / _HOUR,
        startup=_startup(web, startup),
        warmup=_seconds(web.warmup.duration),
        warmup_factor=web.warmup.factor,
    )


def worker_model(worker: WorkerService, startup: StartUp | None) -> WorkerModel:
    """What a message costs."""
    return WorkerModel(
        cpu_per_message=worker.cpu_per_message,
        wait_per_message=_seconds(worker.wait_per_message),
        memory_per_message=worker.memory_per_message,
        concurrency=worker.concurrency,
        idle_cpu=worker.idle_cpu,
        memory=worker.memory,
        memory_growth=worker.memory_growth_per_hour / _HOUR,
        startup=_startup(worker, startup),
        warmup=_seconds(worker.warmup.duration),
        warmup_factor=worker.warmup.factor,
    )


def _startup(costs: PodCosts, startup: StartUp | None) -> Startup:
    seconds = 0.0 if startup is None else _seconds(startup.median)
    return Startup(seconds=seconds, cpu=costs.startup.cpu, memory=costs.startup.memory)


def batch_model(jobs: JobArrivals, u: float, *, cpu: float, memory: float) -> BatchModel:
    """One run of a Job's pod. `u` in [0, 1) draws its duration; `cpu` (cores) and `memory`: what the pod requests."""
    run = jobs.run_time
    seconds = log_normal(_seconds(run.median), run.sigma).seconds(u)
    seconds = max(seconds, _seconds(run.minimum))
    if run.maximum is not None:
        seconds = min(seconds, _seconds(run.maximum))
    return BatchModel(
        duration=seconds,
        cpu=cpu if jobs.cpu is None else jobs.cpu,
        wait=seconds * jobs.wait,
        memory=memory if jobs.memory is None else jobs.memory,
    )


def ceilings(downstreams: Iterable[Downstream], names: Iterable[str]) -> tuple[Ceiling, ...]:
    """Those that a service names, in its order."""
    known = {downstream.name: downstream for downstream in downstreams}
    return tuple(_ceiling(known[name]) for name in names)


def _ceiling(downstream: Downstream) -> Ceiling:
    if downstream.connections is not None:
        pool = downstream.connections
        return Connections(name=downstream.name, pool=pool.pool, per_pod=pool.per_pod, held=_seconds(pool.held))
    if downstream.quota is not None:
        quota = downstream.quota
        return ApiQuota(name=downstream.name, rate_limit=quota.limit / _seconds(quota.per), calls=quota.calls)
    if downstream.partitions is not None:
        return Partitions(name=downstream.name, partitions=downstream.partitions.count)
    raise ValueError(f"{downstream.name}: nothing is set")


# ---- metrics -------------------------------------------------------------------------------------------------------


def metrics_server_config(metrics: MetricsSpec, start: int) -> MetricsServerConfig:
    """metrics-server. `start`: of the run, nanoseconds since 1970."""
    server = metrics.server
    return MetricsServerConfig(
        resolution=server.resolution,
        request_timeout=server.request_timeout,
        phase=server.phase,
        housekeeping=Housekeeping(interval=metrics.housekeeping.interval, jitter=metrics.housekeeping.jitter),
        faults=_scrape_faults(server.chance),
        outages=_outages(metrics, "Resource", start),
    )


def prometheus_config(metrics: MetricsSpec) -> PrometheusConfig:
    """Prometheus: it keeps what the longest window, the look-back and the adapter need."""
    prometheus, adapter = metrics.prometheus, metrics.adapter
    longest = max((source.window for source in metrics.sources), default=0)
    return PrometheusConfig(
        interval=prometheus.scrape_interval,
        lookback=prometheus.lookback,
        retention=2 * max(longest, prometheus.lookback, adapter.max_age or adapter.relist_interval),
        faults=_scrape_faults(prometheus.chance),
    )


def adapter_config(metrics: MetricsSpec, start: int) -> AdapterConfig:
    """prometheus-adapter."""
    adapter = metrics.adapter
    return AdapterConfig(
        relist_interval=adapter.relist_interval, max_age=adapter.max_age, outages=_outages(metrics, "Custom", start)
    )


def _scrape_faults(chance: ChanceFaults) -> ScrapeFaults:
    return ScrapeFaults(missing=chance.missing, late=chance.late, late_by=chance.late_by)


def _outages(metrics: MetricsSpec, api: str, start: int) -> tuple[Outage, ...]:
    return tuple(
        Outage(
            start=start + outage.at,
            end=start + outage.at + outage.duration,
            kind=_EFFECTS[outage.effect],
            pods=frozenset(outage.pods),
        )
        for outage in metrics.outages
        if outage.api == api
    )
