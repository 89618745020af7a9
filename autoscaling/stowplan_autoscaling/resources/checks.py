"""What one field of a simulation says about another: names that must be there, times that must lie within the run.

Each finding is a FieldError with the path in the YAML, or an InputError about the manifest that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan_autoscaling.hpa.defaults import default_hpa
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, MetricSpec
from stowplan_autoscaling.hpa.validation import validate_hpa
from stowplan_autoscaling.inputs.decode import explain, without_nulls
from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown
from stowplan_autoscaling.keda import ExternalTrigger, ScaledObject, check_scaled_object, decode_scaled_object
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.pools import ZONE_LABEL
from stowplan_scheduler.timestamps import format_time, parse_time

from .base import ObjectRef, duplicate
from .demand import Demand, RunTime
from .faults import Fault, Nodes
from .findings import near
from .manifests import Manifest
from .node_groups import node_names
from .node_pools import NodePool
from .simulation import SimulationSpec
from .values import format_duration

SCALABLE: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_LATEST: Final = parse_time("2261-01-01T00:00:00Z")
"""The end of a run: more than a year before the last moment that 64 bits hold, since controllers look ahead."""
_MOST_OFTEN: Final = 10_000_000
RESOURCES: Final = ("cpu", "memory")
"""What is measured of pods."""


class Known:
    """The objects of a simulation by what refers to them."""

    def __init__(self, spec: SimulationSpec, objects: Sequence[Manifest]) -> None:
        self._keys = {(manifest.kind, manifest.key) for manifest in objects}
        self.nodes = [manifest.name for manifest in objects if manifest.kind == "Node"]
        zones = {labels[ZONE_LABEL] for labels in map(_labels, objects) if ZONE_LABEL in labels}
        self.zones = sorted(zones | {zone for pool in spec.node_pools for zone in zones_of(pool)})
        self.scaled_objects = [manifest for manifest in objects if manifest.kind == "ScaledObject"]
        self.autoscalers = [manifest for manifest in objects if manifest.kind == "HorizontalPodAutoscaler"]

    def has(self, kind: str, key: str) -> bool:
        """Whether there is such an object."""
        return (kind, key) in self._keys

    def of(self, kinds: Iterable[str]) -> list[str]:
        """The keys of all objects of some kinds."""
        wanted = set(kinds)
        return sorted(key for kind, key in self._keys if kind in wanted)

    def need(self, ref: ObjectRef, kinds: Sequence[str], field: str) -> None:
        """Raises FieldError for what is not there, or is of a kind that cannot stand here."""
        if ref.kind not in kinds:
            raise FieldError(f"{field}.kind", f"{shown(ref.kind)}: must be one of {', '.join(kinds)}")
        if not self.has(ref.kind, ref.key):
            raise FieldError(field, f"no {ref} in spec.workloads or spec.cluster{near(ref.key, self.of([ref.kind]))}")


def zones_of(pool: NodePool) -> set[str]:
    """The zones that a pool takes machines from, before and after its changes."""
    return {*pool.zones, *(zone for change in pool.changes for zone in change.zones or ())}


def _labels(manifest: Manifest) -> Mapping[str, str]:
    return manifest.value["metadata"].get("labels") or {} if manifest.kind == "Node" else {}


def check(spec: SimulationSpec, objects: Sequence[Manifest]) -> Iterator[str]:
    """Yields warnings. Raises FieldError or InputError."""
    known = Known(spec, objects)
    if not known.nodes and not spec.node_pools:
        message = "has no nodes: give nodeGroups, or Nodes as objects, files or snapshot; or spec.nodePools"
        raise FieldError("spec.cluster", message)
    _check_clock(spec)
    _check_demand(spec, known)
    _check_metrics(spec, known)
    _check_faults(spec, known)
    _check_objectives(spec, known)
    _unique([goal.metric for goal in spec.goals], "spec.goals", "metric")
    yield from _check_supply(spec)
    for index, startup in enumerate(spec.kubelet.startups):
        known.need(startup.target, (*SCALABLE, "DaemonSet", "Job", "CronJob"), f"spec.kubelet.startups[{index}].target")
    yield from _check_tasks(spec, objects, known)
    if spec.kubelet.sandbox_max < spec.kubelet.sandbox_min:
        raise FieldError("spec.kubelet.sandboxMax", "must be at least sandboxMin")
    for manifest in known.scaled_objects:
        _check_scaled_object(manifest, spec, known)
    for manifest in known.autoscalers:
        yield from _check_autoscaler(manifest, spec, known)
    yield from _rivals(known)


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
        _at_least(run.maximum, run.minimum, f"{field}.maximum", "minimum")


def _unique(names: Sequence[str], field: str, member: str = "name") -> None:
    index = duplicate(names)
    if index is not None:
        raise FieldError(f"{field}[{index}].{member}", f"{shown(names[index])}: occurs twice")


def _within(at: int, spec: SimulationSpec, field: str) -> None:
    if at >= spec.duration:
        message = f"{shown(format_duration(at))}: must be before the end of the run, {format_duration(spec.duration)}"
        raise FieldError(field, message)


# ---- supply --------------------------------------------------------------------------------------------------------


def _check_supply(spec: SimulationSpec) -> Iterator[str]:
    boot, karpenter = spec.provider.boot, spec.supply.karpenter
    if boot.maximum is not None:
        _at_least(boot.maximum, boot.minimum, "spec.provider.boot.maximum", "minimum")
    if karpenter is not None:
        field = "spec.supply.karpenter.batchMaxDuration"
        _at_least(karpenter.batch_max_duration, karpenter.batch_idle_duration, field, "batchIdleDuration")
    for index, pool in enumerate(spec.node_pools):
        before = 0
        for number, change in enumerate(pool.changes):
            field = f"spec.nodePools[{index}].changes[{number}].at"
            _within(change.at, spec, field)
            _at_least(change.at, before, field, "that of the change before")
            before = change.at
    if not spec.node_pools and spec.supply.none is None:
        name = "karpenter" if karpenter is not None else "clusterAutoscaler"
        yield f"spec.supply.{name}: there are no spec.nodePools: it has nothing to decide about"


def _at_least(value: int, least: int, field: str, other: str) -> None:
    if value < least:
        message = f"{shown(format_duration(value))}: must be at least {other}, {format_duration(least)}"
        raise FieldError(field, message)


# ---- demand --------------------------------------------------------------------------------------------------------


def _check_demand(spec: SimulationSpec, known: Known) -> None:
    _unique([entry.name for entry in spec.demand], "spec.demand")
    _unique([entry.name for entry in spec.downstreams], "spec.downstreams")
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
            _within(spike.at, spec, f"{field}.series.spikes[{number}].at")


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
    _unique([f"{source.type}/{source.name}" for source in spec.metrics.sources], "spec.metrics.sources")
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
        _within(outage.at, spec, f"{field}.at")
        if (outage.effect == "Pods") != bool(outage.pods):
            raise FieldError(f"{field}.pods", "must be set with effect Pods, and only then")


def _need_node(name: str, known: Known, field: str) -> None:
    if name not in known.nodes:
        raise FieldError(field, f"no node {shown(name)}{near(name, known.nodes)}")


# ---- HPAs and KEDA -------------------------------------------------------------------------------------------------


def autoscaler_of(manifest: Manifest) -> HorizontalPodAutoscaler:
    """The HPA of a manifest, autoscaling/v1 as v2. Raises InputError for what does not decode."""
    value = without_nulls(manifest.value)
    if manifest.api_version == "autoscaling/v1":
        value = _from_v1(value)
    try:
        hpa = msgspec.convert(value, HorizontalPodAutoscaler)
    except msgspec.ValidationError as error:
        raise InputError.of(manifest.place, manifest.described, explain(error, value)) from None
    meta = msgspec.structs.replace(hpa.metadata, namespace=manifest.namespace)
    return msgspec.structs.replace(hpa, metadata=meta)


def _from_v1(value: dict[str, Any]) -> dict[str, Any]:
    """pkg/apis/autoscaling/v1/conversion.go, for what a manifest can say; the status is not read."""
    spec = dict(value.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {"metadata": value["metadata"], "spec": spec}


def _check_autoscaler(manifest: Manifest, spec: SimulationSpec, known: Known) -> Iterator[str]:
    hpa = default_hpa(autoscaler_of(manifest))
    errors = validate_hpa(hpa)
    if errors:
        raise manifest.error("", errors[0])
    target = hpa.spec.scale_target_ref
    key = _need_scaled(target.kind, target.name, manifest, known)
    for index, metric in enumerate(hpa.spec.metrics):
        _check_metric(metric, manifest, spec, f"spec.metrics[{index}]")
    driven = {
        entry.target.key for entry in spec.demand if entry.target is not None and entry.target.kind == target.kind
    }
    if key not in driven and any(metric.type in {"Resource", "ContainerResource"} for metric in hpa.spec.metrics):
        yield f"{manifest.described}: no demand for {target.kind} {key}: its pods use nothing"


def _rivals(known: Known) -> Iterator[str]:
    """Autoscalers with the same target: upstream takes them, and then neither scales."""
    first: dict[tuple[str, str, str], Manifest] = {}
    for manifest in (*known.autoscalers, *known.scaled_objects):
        target = manifest.value["spec"]["scaleTargetRef"]
        kind, name = target.get("kind") or "Deployment", target["name"]
        other = first.setdefault((kind, manifest.namespace, name), manifest)
        if other is not manifest:
            scaled = f"{kind} {manifest.namespace}/{name}"
            yield f"{manifest.described} and {other.described} both scale {scaled}: neither will (AmbiguousSelector)"


def _need_scaled(kind: str, name: str, manifest: Manifest, known: Known) -> str:
    """The key of what an autoscaler scales. Raises InputError."""
    key = f"{manifest.namespace}/{name}"
    if kind not in SCALABLE:
        raise manifest.error("spec.scaleTargetRef.kind", f"{shown(kind)}: must be one of {', '.join(SCALABLE)}")
    if not known.has(kind, key):
        message = f"there is no {kind} {key} to scale{near(key, known.of([kind]))}"
        raise manifest.error("spec.scaleTargetRef", message)
    return key


def _check_metric(metric: MetricSpec, manifest: Manifest, spec: SimulationSpec, field: str) -> None:
    resource = metric.resource or metric.container_resource
    if resource is not None:
        if resource.name not in RESOURCES:
            part = "resource" if metric.resource else "containerResource"
            message = f"{shown(resource.name)}: is not measured: must be {' or '.join(RESOURCES)}"
            raise manifest.error(f"{field}.{part}.name", message)
        return
    source = metric.pods or metric.object or metric.external
    name = source.metric.name if source is not None else ""
    offered = [entry.name for entry in spec.metrics.sources if entry.type == metric.type]
    if name not in offered:
        message = f"{shown(name)}: no source of type {metric.type} in spec.metrics.sources{near(name, offered)}"
        raise manifest.error(f"{field}.{metric.type.lower()}.metric.name", message)


def scaled_object_of(manifest: Manifest) -> ScaledObject:
    """The ScaledObject of a manifest. Raises InputError."""
    metadata = {**manifest.value["metadata"], "namespace": manifest.namespace}
    try:
        return decode_scaled_object({**manifest.value, "metadata": metadata})
    except FieldError as error:
        raise InputError.of(manifest.place, manifest.described, error) from None


def _check_scaled_object(manifest: Manifest, spec: SimulationSpec, known: Known) -> None:
    scaled = scaled_object_of(manifest)
    _need_scaled(scaled.spec.scale_target_ref.kind, scaled.spec.scale_target_ref.name, manifest, known)
    offered = [source.name for source in spec.metrics.sources if source.type == "External"]
    try:
        triggers = check_scaled_object(scaled)
    except FieldError as error:
        raise InputError.of(manifest.place, manifest.described, error) from None
    for trigger in triggers:
        if isinstance(trigger, ExternalTrigger) and trigger.metric not in offered and trigger.name not in offered:
            message = (
                f"no source of type External called {shown(trigger.name or trigger.metric)} in spec.metrics.sources"
            )
            field = f"spec.triggers[{trigger.index}]"
            raise manifest.error(field, message + near(trigger.name or trigger.metric, offered))


# ---- faults and objectives -----------------------------------------------------------------------------------------


def _check_faults(spec: SimulationSpec, known: Known) -> None:
    for index, fault in enumerate(spec.faults):
        field = f"spec.faults[{index}]"
        _within(fault.at, spec, f"{field}.at")
        if fault.zone_lost is not None and fault.zone_lost.zone not in known.zones:
            zone = fault.zone_lost.zone
            raise FieldError(f"{field}.zoneLost.zone", f"no node is in {shown(zone)}{near(zone, known.zones)}")
        for part, name in ((fault.node_lost, "nodeLost"), (fault.cordon, "cordon")):
            if part is not None:
                _check_nodes(part, spec, known, f"{field}.{name}")


def _check_nodes(nodes: Nodes, spec: SimulationSpec, known: Known, field: str) -> None:
    for number, name in enumerate(nodes.names):
        _need_node(name, known, f"{field}.names[{number}]")
    pools = [pool.name for pool in spec.node_pools]
    if nodes.node_pool and nodes.node_pool not in pools:
        raise FieldError(f"{field}.nodePool", f"no pool {shown(nodes.node_pool)}{near(nodes.node_pool, pools)}")
    if not nodes.node_group:
        return
    groups = {group.name: group for group in spec.cluster.node_groups}
    group = groups.get(nodes.node_group)
    if group is None:
        raise FieldError(
            f"{field}.nodeGroup", f"no group {shown(nodes.node_group)}{near(nodes.node_group, list(groups))}"
        )
    if nodes.count > group.count:
        raise FieldError(f"{field}.count", f"{nodes.count}: {group.name} has {group.count} nodes")


def fault_nodes(fault: Fault, spec: SimulationSpec, objects: Sequence[Manifest]) -> list[str]:
    """The names of the nodes that a fault is about, in order."""
    if fault.zone_lost is not None:
        zone = fault.zone_lost.zone
        return [manifest.name for manifest in objects if _labels(manifest).get(ZONE_LABEL) == zone]
    nodes = fault.node_lost or fault.cordon
    if nodes is None:
        return []
    group = next((group for group in spec.cluster.node_groups if group.name == nodes.node_group), None)
    return list(nodes.names) if group is None else node_names(group)[: nodes.count]


def _check_objectives(spec: SimulationSpec, known: Known) -> None:
    _unique([objective.name for objective in spec.slo], "spec.slo")
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
