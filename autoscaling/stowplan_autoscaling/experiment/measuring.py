"""What a finished run is compared by: numbers and curves from its report and its tables, kept beside them.

Measuring is part of a run and happens where it ran, so that a comparison need not read its tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stowplan_autoscaling.resources import autoscaler_of, scaled_object_of
from stowplan_autoscaling.results.folder import replace_file
from stowplan_autoscaling.results.levels import rounded
from stowplan_autoscaling.results.records import MEASURES_FILE
from stowplan_autoscaling.results.report import ReportPart, RunReport, report_bytes

from .elasticity import elasticity_of_run, node_flapping, node_lives, replica_flapping
from .pending import pending_quantile, pending_times
from .run_tables import Held, number, read_rows
from .statistics import quantile

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation

SCHEMA: Final = "stowplan.io/measures/v2"

MOST_DEMANDS: Final = 8
"""So many entries of spec.demand get a curve."""

_POOLS: Final = "series/pools.csv"
_HOUR: Final = 3600.0
_MONTH: Final = 730 * _HOUR
_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ENDLESS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")


class RunCurve(ReportPart, frozen=True, kw_only=True):
    """A number over the run: the means of equal parts of it."""

    name: str
    title: str
    unit: str
    values: tuple[float, ...]


class Measures(ReportPart, frozen=True, kw_only=True):
    """A run in numbers. `values`: by the names of measures (resources/measures.py); what it has no number for is left
    out.
    """

    schema: str
    version: str
    kubernetes: str
    digest: str
    seed: int
    currency: str
    values: dict[str, float]
    curves: tuple[RunCurve, ...]
    findings: tuple[str, ...]
    warnings: tuple[str, ...]


def measure(folder: str, report: RunReport, loaded: LoadedSimulation) -> Measures:
    """Of a complete run in a folder."""
    targets = scaled_by(loaded)
    values = {name: rounded(value) for name, value in _values(folder, report, targets) if value is not None}
    return Measures(
        schema=SCHEMA,
        version=report.inputs.version,
        kubernetes=report.inputs.kubernetes,
        digest=report.inputs.digest,
        seed=report.inputs.seed,
        currency="" if report.cost is None else report.cost.currency,
        values=values,
        curves=tuple(_curves(folder, report, targets)),
        findings=report.findings,
        warnings=report.warnings,
    )


def write_measures(folder: str, measures: Measures) -> None:
    """Beside the results of the run, in one step, the same bytes each time."""
    replace_file(Path(folder, MEASURES_FILE), report_bytes(measures))


def read_measures(folder: str) -> Measures | None:
    """Those of a folder; None if there are none, or if they are of another kind."""
    try:
        found = msgspec.json.decode(Path(folder, MEASURES_FILE).read_bytes(), type=Measures)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.schema == SCHEMA else None


def scaled_by(loaded: LoadedSimulation) -> dict[str, str]:
    """The workload that each autoscaler scales, "Deployment shop/web" by "shop/web-hpa", as the tables name them."""
    found: dict[str, str] = {}
    for manifest in loaded.of("HorizontalPodAutoscaler"):
        hpa = autoscaler_of(manifest).spec.scale_target_ref
        found[manifest.key] = f"{hpa.kind} {manifest.namespace}/{hpa.name}"
    for manifest in loaded.of("ScaledObject"):
        scaled = scaled_object_of(manifest)
        target = scaled.spec.scale_target_ref
        found[f"{manifest.namespace}/{scaled.hpa_name}"] = f"{target.kind} {manifest.namespace}/{target.name}"
    return found


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _values(folder: str, report: RunReport, targets: Mapping[str, str]) -> Iterator[tuple[str, float | None]]:
    """(name, number) of all measures."""
    yield from _costs(report)
    yield from _nodes(report)
    if report.pools:
        yield from stranded(folder, report.reached)
    yield from _waiting(folder, report)
    yield from _service(report)
    contention = report.contention
    yield "evictions", contention.evictions
    yield "preempted", contention.preempted
    yield "oomKills", contention.oom_kills
    yield "throttled", contention.throttled_core_seconds
    yield "nodesLost", contention.nodes_lost
    if report.pools:
        yield "interrupted", sum(pool.interrupted for pool in report.pools)
        yield "nodesStarted", sum(pool.started for pool in report.pools)
        yield "nodesEnded", sum(pool.ended for pool in report.pools)
        yield "nodesFailed", sum(pool.failed for pool in report.pools)
        yield "flapping.nodes", node_flapping(node_lives(folder))
    yield "flapping.replicas", replica_flapping(folder, report.reached)
    found = elasticity_of_run(folder, targets, report.reached)
    if found is not None:
        yield "underProvisioned", found.under
        yield "overProvisioned", found.over
        yield "underProvisionedTime", found.under_time
        yield "overProvisionedTime", found.over_time
        yield "instability", found.instability
    yield from _scheduling(report)


def _costs(report: RunReport) -> Iterator[tuple[str, float | None]]:
    if report.cost is None:
        return
    yield "cost", report.cost.total
    yield "costPerMonth", report.cost.total * _MONTH / report.reached if report.reached else None
    if report.cost.total:
        yield "spotShare", report.cost.by_capacity_type.get("spot", 0.0) / report.cost.total
    for service in report.services:
        if service.served:
            yield f"costPerThousand.{service.demand}", 1000 * report.cost.total / service.served


def _nodes(report: RunReport) -> Iterator[tuple[str, float | None]]:
    cluster = report.cluster
    hours = sum(pool.node_hours for pool in report.pools)
    yield "nodeHours", hours or cluster.nodes.mean * report.reached / _HOUR
    for pool in report.pools:
        if pool.pool:
            yield f"nodeHours.{pool.pool}", pool.node_hours
    yield "nodes.mean", cluster.nodes.mean
    yield "nodes.peak", cluster.nodes.maximum
    yield "requested.cpu", cluster.cpu_requested.mean
    yield "requested.memory", cluster.memory_requested.mean
    yield "used.cpu", cluster.cpu_used.mean
    yield "used.memory", cluster.memory_used.mean


def stranded(folder: str, end: float) -> Iterator[tuple[str, float | None]]:
    """stranded.*: of all pools together, the mean over the time in which they had nodes; nothing without any."""
    resources = ("cpu", "memory")
    columns = [f"{resource}_{what}" for resource in resources for what in ("stranded", "allocatable")]
    rows = [[number(cell) for cell in row] for row in read_rows(folder, _POOLS, "seconds", *columns)]
    for position, resource in enumerate(resources):
        times, lost = _sums((row[0], row[2 * position + 1]) for row in rows)
        whole = _sums((row[0], row[2 * position + 2]) for row in rows).values
        has_nodes = whole > 0
        time = Held(times, has_nodes.astype(np.float64)).mean(0.0, end)
        if time:
            shares = np.divide(lost, whole, out=np.zeros(len(whole)), where=has_nodes)
            yield f"stranded.{resource}", Held(times, shares).mean(0.0, end) / time


def _waiting(folder: str, report: RunReport) -> Iterator[tuple[str, float | None]]:
    ready = _ready_times(folder)
    if ready:
        for name, share in _QUANTILES.items():
            yield f"waiting.{name}", quantile(ready, share)
        for part, seconds in report.waiting.split.items():
            yield f"waiting.{part}", seconds
    waits = pending_times(folder, report.reached)
    for name, share in _QUANTILES.items():
        yield f"pending.{name}", pending_quantile(waits, share)
    yield "neverScheduled", sum(not wait.is_over for wait in waits)
    yield "neverReady", report.waiting.never_ready


def _ready_times(folder: str) -> list[float]:
    """Seconds from the change of demand until each pod was ready, of those that were."""
    before = ("waiting_metric", "waiting_autoscaler", "waiting_controller")
    return [
        float(ready) - float(created) + sum(map(number, parts))
        for created, ready, *parts in read_rows(folder, "pods.csv", "created", "ready", *before)
        if ready
    ]


def _service(report: RunReport) -> Iterator[tuple[str, float | None]]:
    if report.objectives:
        yield "sloMisses", sum(not objective.met for objective in report.objectives)
        yield "sloMissedTime", sum(objective.missed_seconds for objective in report.objectives)
    for objective in report.objectives:
        yield f"slo.{objective.name}", objective.share
    for service in report.services:
        if service.offered:
            yield f"unserved.{service.demand}", max(0.0, 1 - service.served / service.offered)
        yield f"latency.{service.demand}", service.latency


def _scheduling(report: RunReport) -> Iterator[tuple[str, float | None]]:
    scheduling = report.scheduling
    yield "attempts", scheduling.attempts
    yield "unschedulable", scheduling.unschedulable
    yield "preemptions", scheduling.preemptions
    yield "evaluated.mean", scheduling.evaluated.mean
    yield "evaluated.total", scheduling.evaluated.total
    yield "scored.mean", scheduling.feasible.mean
    yield "scored.total", scheduling.feasible.total


# ---- curves ----------------------------------------------------------------------------------------------------------


def _curves(folder: str, report: RunReport, targets: Mapping[str, str]) -> Iterator[RunCurve]:
    yield from _demands(folder, report)
    yield from _replicas(folder, report, targets)
    yield from _cluster(folder, report)
    if report.cost is not None:
        rate = _sums((float(at), number(cost)) for at, cost in read_rows(folder, _POOLS, "seconds", "cost"))
        yield _curve("cost", "cost per hour", f"{report.cost.currency}/h", rate, report.duration)


def _curve(name: str, title: str, unit: str, held: Held, duration: float) -> RunCurve:
    return RunCurve(name=name, title=title, unit=unit, values=held.curve(duration))


def _sums(points: Iterator[tuple[float, float]]) -> Held:
    """The sum of the values of each moment."""
    sums: dict[float, float] = {}
    for moment, value in points:
        sums[moment] = sums.get(moment, 0.0) + value
    return Held.of(sums.items())


def _demands(folder: str, report: RunReport) -> Iterator[RunCurve]:
    shown = [service.demand for service in report.services[:MOST_DEMANDS]]
    points: dict[str, list[tuple[float, float, float]]] = {name: [] for name in shown}
    rows = read_rows(folder, "series/services.csv", "seconds", "demand", "offered", "served")
    for seconds, demand, offered, served in rows:
        if demand in points:
            points[demand].append((float(seconds), number(offered), number(served)))
    for name in shown:
        asked = Held.since_before((at, value) for at, value, _ in points[name])
        given = Held.since_before((at, value) for at, _, value in points[name])
        yield _curve(f"demand.{name}", f"{name} offered", "/s", asked, report.duration)
        yield _curve(f"served.{name}", f"{name} served", "/s", given, report.duration)


def _replicas(folder: str, report: RunReport, targets: Mapping[str, str]) -> Iterator[RunCurve]:
    """Of workloads that an autoscaler scales; without any, of all that run for ever."""
    scaled = set(targets.values())

    def counts(workload: str) -> bool:
        return workload in scaled if scaled else workload.partition(" ")[0] in _ENDLESS

    wanted: dict[float, float] = {}
    ready: dict[float, float] = {}
    rows = read_rows(folder, "series/workloads.csv", "seconds", "workload", "replicas", "ready")
    for seconds, workload, replicas, is_ready in rows:
        if counts(workload):
            moment = float(seconds)
            wanted[moment] = wanted.get(moment, 0.0) + number(replicas)
            ready[moment] = ready.get(moment, 0.0) + number(is_ready)
    yield _curve("replicas", "replicas wanted", "pods", Held.of(wanted.items()), report.duration)
    yield _curve("ready", "replicas ready", "pods", Held.of(ready.items()), report.duration)


def _cluster(folder: str, report: RunReport) -> Iterator[RunCurve]:
    columns = ("seconds", "pending", "nodes", "cpu_requested", "cpu_used", "cpu_allocatable")
    rows = [[number(cell) for cell in row] for row in read_rows(folder, "series/cluster.csv", *columns)]
    yield _curve("pending", "pods without a node", "pods", Held.of((row[0], row[1]) for row in rows), report.duration)
    yield _curve("nodes", "nodes", "nodes", Held.of((row[0], row[2]) for row in rows), report.duration)
    for name, title, index in (("cpuRequested", "cpu requested", 3), ("cpuUsed", "cpu used", 4)):
        share = Held.of((row[0], row[index] / row[5] if row[5] else 0.0) for row in rows)
        yield _curve(name, title, "share", share, report.duration)
