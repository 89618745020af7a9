"""What a person writes reaches the parts that are simulated, in their units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.cluster import client
from stowplan_autoscaling.cluster.controllers import pod_gc
from stowplan_autoscaling.cluster.controllers.node_lifecycle import controller
from stowplan_autoscaling.cluster.controllers.node_lifecycle.zones import EvictionRates
from stowplan_autoscaling.cluster.kubelet.config import KubeletConfig
from stowplan_autoscaling.demand.ceilings import ApiQuota, Connections, Partitions
from stowplan_autoscaling.hpa.controller import HPAFlags
from stowplan_autoscaling.metrics import AdapterConfig, MetricsServerConfig, Outage, PrometheusConfig
from stowplan_autoscaling.resources import LoadedSimulation, load_simulation, wiring
from support.simulations import small, write

SECOND = 10**9


def loaded(folder: Path, **spec: Any) -> LoadedSimulation:
    simulation = small()
    simulation["spec"].update(spec)
    return load_simulation(write(folder, simulation))


def test_without_settings_every_part_has_upstreams_defaults(tmp_path: Path) -> None:
    """Two places state each default; here they are held equal."""
    spec = loaded(tmp_path).spec
    assert wiring.kubelet_config(spec) == KubeletConfig()
    assert wiring.metrics_server_config(spec.metrics, 0) == MetricsServerConfig()
    assert wiring.prometheus_config(spec.metrics) == PrometheusConfig()
    assert wiring.adapter_config(spec.metrics, 0) == AdapterConfig()
    assert wiring.hpa_flags(spec.controllers) == HPAFlags()
    assert wiring.eviction_rates(spec.controllers) == EvictionRates()
    nodes, garbage = spec.controllers.node_lifecycle, spec.controllers.pod_garbage
    assert (nodes.monitor_period, nodes.monitor_grace_period, nodes.startup_grace_period) == (
        controller.MONITOR_PERIOD,
        controller.GRACE,
        controller.STARTUP_GRACE,
    )
    assert (garbage.quarantine, garbage.terminated_pod_threshold) == (
        pod_gc.QUARANTINE,
        pod_gc.TERMINATED_POD_THRESHOLD,
    )
    assert (spec.controllers.client_qps, spec.controllers.client_burst) == (client.DEFAULT_QPS, client.DEFAULT_BURST)


def test_a_request_costs_what_was_written(tmp_path: Path) -> None:
    """12m are 0.012 core seconds; start-up use lasts as long as the target's application takes."""
    simulation = small()
    web = {
        "cpuPerRequest": "12m",
        "waitPerRequest": "20ms",
        "memoryPerRequest": "2Mi",
        "idleCPU": "10m",
        "memory": "180Mi",
        "memoryGrowthPerHour": 3600,
        "threads": 32,
        "timeout": "10s",
        "startup": {"cpu": 1},
        "warmup": {"duration": "30s", "factor": 2},
    }
    startups = [{"target": {"namespace": "shop", "name": "web"}, "median": "12s", "sigma": "0.3"}]
    simulation["spec"]["demand"][0]["web"] = web
    simulation["spec"]["kubelet"] = {"startups": startups}
    spec = load_simulation(write(tmp_path, simulation)).spec
    entry = spec.demand[0]
    assert entry.web is not None
    startup = wiring.start_up(spec.kubelet, entry.target)
    model = wiring.service_model(entry.web, startup)
    assert (model.cpu_per_request, model.wait_per_request, model.memory_per_request) == (0.012, 0.02, 2 * 2**20)
    assert (model.idle_cpu, model.memory, model.memory_growth) == (0.01, 180 * 2**20, 1)
    assert (model.threads, model.timeout, model.waiting) == (32, 10, None)
    assert (model.startup.seconds, model.startup.cpu) == (12, 1)
    assert (model.warmup, model.warmup_factor) == (30, 2)
    assert wiring.start_delay(startup).seconds(0.5) == pytest.approx(12)


def test_a_message_costs_what_was_written(tmp_path: Path) -> None:
    """Of a worker."""
    simulation = small()
    entry = simulation["spec"]["demand"][0]
    del entry["web"]
    entry["worker"] = {"cpuPerMessage": "1500m", "waitPerMessage": "2s", "concurrency": 4}
    worker = load_simulation(write(tmp_path, simulation)).spec.demand[0].worker
    assert worker is not None
    model = wiring.worker_model(worker, None)
    assert (model.cpu_per_message, model.wait_per_message, model.concurrency) == (1.5, 2, 4)


def test_ceilings_come_in_the_order_of_the_service(tmp_path: Path) -> None:
    """600 calls a minute are ten a second."""
    downstreams = [
        {"name": "api", "quota": {"limit": 600, "per": "1m", "calls": 2}},
        {"name": "db", "connections": {"pool": 120, "perPod": 4, "held": "100ms"}},
        {"name": "topic", "partitions": {"count": 12}},
    ]
    spec = loaded(tmp_path, downstreams=downstreams).spec
    assert wiring.ceilings(spec.downstreams, ["topic", "db", "api"]) == (
        Partitions(name="topic", partitions=12),
        Connections(name="db", pool=120, per_pod=4, held=0.1),
        ApiQuota(name="api", rate_limit=10, calls=2),
    )


@pytest.mark.parametrize(("u", "seconds"), [(0.5, 180), (0.000001, 60), (0.999999, 1200)])
def test_a_job_runs_within_its_bounds(u: float, seconds: float, tmp_path: Path) -> None:
    """Median three minutes, at least one, at most twenty; it uses what it requests unless it says otherwise."""
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}}
    run_time = {"median": "3m", "sigma": 1, "minimum": "1m", "maximum": "20m"}
    demand = {
        "name": "resize",
        "series": {"constant": {"value": 1}},
        "jobs": {"template": template, "runTime": run_time, "wait": "0.25", "memory": "1Gi"},
    }
    jobs = loaded(tmp_path, demand=[demand]).spec.demand[0].jobs
    assert jobs is not None
    model = wiring.batch_model(jobs, u, cpu=0.5, memory=7)
    assert model.duration == pytest.approx(seconds)
    assert model.wait == pytest.approx(seconds / 4)
    assert (model.cpu, model.memory) == (0.5, 2**30)


def test_outages_are_at_times_of_the_clock(tmp_path: Path) -> None:
    """A minute after a start at second 1,000."""
    outages = [{"at": "1m", "duration": "30s", "api": "Resource", "effect": "Empty"}]
    metrics = loaded(tmp_path, metrics={"outages": outages}).spec.metrics
    expected = Outage(start=1060 * SECOND, end=1090 * SECOND, kind="empty")
    assert wiring.metrics_server_config(metrics, 1000 * SECOND).outages == (expected,)
    assert wiring.adapter_config(metrics, 1000 * SECOND).outages == ()


def test_images_have_their_sizes(tmp_path: Path) -> None:
    """Those that are not named are on every node already."""
    images = [{"name": "a:1", "size": "200Mi"}, {"name": "b:1", "size": 1, "missing": True}]
    catalog = wiring.image_catalog(loaded(tmp_path, kubelet={"images": images}).spec.kubelet)
    assert (catalog.size("a:1"), catalog.size("c:1"), sorted(catalog.failing)) == (200 * 2**20, 0, ["b:1"])
