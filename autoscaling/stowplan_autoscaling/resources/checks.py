"""What one field of a simulation says about another: names that must be there, times that must lie within the run.

Each finding is a FieldError with the path in the YAML, or an InputError about the manifest that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.timestamps import format_time, parse_time

from .autoscaler_checks import check_autoscaler, check_scaled_object_of, rivals
from .demand import Demand, RunTime
from .fault_checks import check_faults
from .findings import near
from .known import SCALABLE, Known, at_least, unique, within
from .manifests import Manifest
from .simulation import SimulationSpec
from .supply_checks import check_supply
from .values import format_duration

_LATEST: Final = parse_time("2261-01-01T00:00:00Z")
"""The end of a run: more than a year before the last moment that 64 bits hold, since controllers look ahead."""
_MOST_OFTEN: Final = 10_000_000


def check(spec: SimulationSpec, objects: Sequence[Manifest]) -> Iterator[str]:
    """Yields warnings. Raises FieldError or InputError."""
    known = Known(spec, objects)
    if not known.nodes and not spec.node_pools:
        message = "has no nodes: give nodeGroups, or Nodes as objects, files or snapshot; or spec.nodePools"
        raise FieldError("spec.cluster", message)
    _check_clock(spec)
    _check_demand(spec, known)
    _check_metrics(spec, known)
    check_faults(spec, known)
    _check_objectives(spec, known)
    unique([goal.metric for goal in spec.goals], "spec.goals", "metric")
    yield from check_supply(spec)
    for index, startup in enumerate(spec.kubelet.startups):
        known.need(startup.target, (*SCALABLE, "DaemonSet", "Job", "CronJob"), f"spec.kubelet.startups[{index}].target")
    yield from _check_tasks(spec, objects, known)
    if spec.kubelet.sandbox_max < spec.kubelet.sandbox_min:
        raise FieldError("spec.kubelet.sandboxMax", "must be at least sandboxMin")
    for manifest in known.scaled_objects:
        check_scaled_object_of(manifest, spec, known)
    for manifest in known.autoscalers:
        yield from check_autoscaler(manifest, spec, known)
    yield from rivals(known)


def _check_clock(spec: SimulationSpec) -> None:
    """Moments must be numbers of 64 bits, and what is repeated must not be repeated without end."""
    if not spec.settle <= spec.start <= _LATEST - spec.duration:
        message = f"{shown(format_time(spec.start))}: the run must lie between 1970 and {format_time(_LATEST)}"
        raise FieldError("spec.start", message)
    _check_often(spec.sampling.period, spec, "spec.sampling.period", "rows")
    for name, shape in (
        ("spec.metrics.housekeeping.interval", spec.metrics.housekeeping.interval),
        ("spec.metrics.prometheus.scrapeInterval", spec.metrics.prometheus.scrape_interval),
        ("spec.controllers.hpa.syncPeriod", spec.controllers.hpa.sync_period),
        ("spec.controllers.nodeLifecycle.monitorPeriod", spec.controllers.node_lifecycle.monitor_period),
    ):
        _check_often(shape, spec, name, "times")


def _check_often(period: int, spec: SimulationSpec, field: str, what: str) -> None:
    length = spec.settle + spec.duration
    if length > period * _MOST_OFTEN:
        count = length // period
        raise FieldError(
            field, f"{shown(format_duration(period))}: {count:,} {what} in the run: at most {_MOST_OFTEN:,}"
        )


def _check_tasks(spec: SimulationSpec, objects: Sequence[Manifest], known: Known) -> Iterator[str]:
    for index, task in enumerate(spec.workloads.tasks):
        known.need(task.target, ("Job", "CronJob"), f"spec.workloads.tasks[{index}].target")
        _check_run_time(task.run_time, f"spec.workloads.tasks[{index}].runTime")
    said = {str(task.target) for task in spec.workloads.tasks}
    for manifest in objects:
        if manifest.kind in {"Job", "CronJob"} and not manifest.dumped and manifest.described not in said:
            yield f"{manifest.described}: spec.workloads.tasks does not say how long its pods run: a minute is assumed"


def _check_run_time(run: RunTime, field: str) -> None:
    if run.maximum is not None:
        at_least(run.maximum, run.minimum, f"{field}.maximum", "minimum")


# ---- demand --------------------------------------------------------------------------------------------------------


def _check_demand(spec: SimulationSpec, known: Known) -> None:
    unique([entry.name for entry in spec.demand], "spec.demand")
    unique([entry.name for entry in spec.downstreams], "spec.downstreams")
    for index, entry in enumerate(spec.demand):
        field = f"spec.demand[{index}]"
        _check_target(entry, known, field)
        if (entry.series is None) != (entry.trace is not None):
            raise FieldError(f"{field}.series", "must not be set with trace" if entry.trace else "must be set")
        downstreams = [downstream.name for downstream in spec.downstreams]
        for service, name in ((entry.web, "web"), (entry.worker, "worker")):
            for number, wanted in enumerate(service.downstreams if service is not None else ()):
                if wanted not in downstreams:
                    path = f"{field}.{name}.downstreams[{number}]"
                    raise FieldError(path, f"no {shown(wanted)} in spec.downstreams{near(wanted, downstreams)}")
        if entry.worker is not None and not (entry.worker.cpu_per_message or entry.worker.wait_per_message):
            raise FieldError(f"{field}.worker", "a message must take some time: set cpuPerMessage or waitPerMessage")
        for service, name in ((entry.web, "web"), (entry.worker, "worker")):
            if service is not None and service.warmup.factor < 1:
                raise FieldError(f"{field}.{name}.warmup.factor", f"{service.warmup.factor:g}: must be at least 1")
        if entry.jobs is not None:
            _check_run_time(entry.jobs.run_time, f"{field}.jobs.runTime")
        for number, spike in enumerate(entry.series.spikes if entry.series else ()):
            within(spike.at, spec, f"{field}.series.spikes[{number}].at")


def _check_target(entry: Demand, known: Known, field: str) -> None:
    if entry.web is None and entry.worker is None:
        if entry.target is not None:
            raise FieldError(f"{field}.target", "must only be set with web and worker")
        return
    if entry.target is None:
        raise FieldError(f"{field}.target", "must be set")
    known.need(entry.target, (*SCALABLE, "DaemonSet"), f"{field}.target")


# ---- metrics -------------------------------------------------------------------------------------------------------

_OF_WEB: Final = ("Rate", "Latency", "InFlight")
_OF_WORKER: Final = ("Rate", "QueueLength", "QueueAge")


def _check_metrics(spec: SimulationSpec, known: Known) -> None:
    demands = {entry.name: entry for entry in spec.demand}
    unique([f"{source.type}/{source.name}" for source in spec.metrics.sources], "spec.metrics.sources")
    for index, source in enumerate(spec.metrics.sources):
        field = f"spec.metrics.sources[{index}]"
        entry = demands.get(source.demand)
        if entry is None:
            raise FieldError(
                f"{field}.demand", f"no {shown(source.demand)} in spec.demand{near(source.demand, list(demands))}"
            )
        allowed = _OF_WEB if entry.web is not None else _OF_WORKER if entry.worker is not None else ()
        if source.value not in allowed:
            kind = (
                "web" if entry.web is not None else "worker" if entry.worker is not None else "neither web nor worker"
            )
            ending = f"one of {', '.join(allowed)}" if allowed else "of an entry with web or worker"
            raise FieldError(f"{field}.value", f"{shown(source.value)}: {entry.name} is {kind}: must be {ending}")
        if (source.type == "Object") != bool(source.object):
            raise FieldError(f"{field}.object", "must be set with type Object, and only then")
    if spec.metrics.server.resolution < 10 * SECOND:
        raise FieldError("spec.metrics.server.resolution", "must be at least 10s, as metrics-server wants it")
    if spec.metrics.server.request_timeout >= spec.metrics.server.resolution:
        raise FieldError("spec.metrics.server.requestTimeout", "must be less than resolution")
    adapter = spec.metrics.adapter
    if adapter.max_age is not None and adapter.max_age < adapter.relist_interval:
        raise FieldError("spec.metrics.adapter.maxAge", "must be at least relistInterval")
    for index, outage in enumerate(spec.metrics.outages):
        field = f"spec.metrics.outages[{index}]"
        within(outage.at, spec, f"{field}.at")
        if (outage.effect == "Pods") != bool(outage.pods):
            raise FieldError(f"{field}.pods", "must be set with effect Pods, and only then")


# ---- objectives -----------------------------------------------------------------------------------------


def _check_objectives(spec: SimulationSpec, known: Known) -> None:
    unique([objective.name for objective in spec.slo], "spec.slo")
    demands = {entry.name: entry for entry in spec.demand}
    for index, objective in enumerate(spec.slo):
        field = f"spec.slo[{index}]"
        if objective.target is not None:
            known.need(objective.target, (*SCALABLE, "DaemonSet", "Job", "CronJob"), f"{field}.target")
        if not objective.demand:
            continue
        entry = demands.get(objective.demand)
        if entry is None:
            raise FieldError(
                f"{field}.demand", f"no {shown(objective.demand)} in spec.demand{near(objective.demand, list(demands))}"
            )
        if objective.latency is not None and entry.web is None:
            raise FieldError(f"{field}.demand", f"{entry.name} is no web service: it has no latency")
        if objective.queue_age is not None and entry.worker is None:
            raise FieldError(f"{field}.demand", f"{entry.name} is no worker: it has no queue")
