"""HPAs and ScaledObjects of a simulation: how they are read, what they refer to, which have the same target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stowplan_autoscaling.hpa.defaults import default_hpa
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, MetricSpec
from stowplan_autoscaling.hpa.validation import validate_hpa
from stowplan_autoscaling.inputs.decode import explain, without_nulls
from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown
from stowplan_autoscaling.keda import ExternalTrigger, ScaledObject, check_scaled_object, decode_scaled_object

from .findings import near
from .known import SCALABLE, Known
from .manifests import Manifest
from .simulation import SimulationSpec

RESOURCES: Final = ("cpu", "memory")
"""What is measured of pods."""


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


def check_autoscaler(manifest: Manifest, spec: SimulationSpec, known: Known) -> Iterator[str]:
    """Yields warnings about an HPA. Raises InputError."""
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


def rivals(known: Known) -> Iterator[str]:
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


def check_scaled_object_of(manifest: Manifest, spec: SimulationSpec, known: Known) -> None:
    """Raises InputError for a ScaledObject without target, or without the metrics that it asks for."""
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
