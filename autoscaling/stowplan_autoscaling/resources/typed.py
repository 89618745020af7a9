"""The objects of a simulation in the types of the virtual cluster, so that a run meets none it cannot read.

`typed_object` is what the run begins with. The status of an object other than a node or a pod is dropped: controllers
write it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stowplan_autoscaling.cluster.objects.apps import Deployment, ReplicaSet
from stowplan_autoscaling.cluster.objects.batch import CronJob, Job
from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget
from stowplan_autoscaling.cluster.objects.quota import LimitRange, ResourceQuota
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.inputs.decode import KINDS, explain, without_nulls
from stowplan_autoscaling.inputs.errors import FieldError, InputError

from .manifests import Manifest
from .object_checks import check_object, check_probes

TYPES: Final[Mapping[str, type[Any]]] = {
    "Node": Node,
    "Pod": ClusterPod,
    "Deployment": Deployment,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
    "DaemonSet": DaemonSet,
    "Job": Job,
    "CronJob": CronJob,
    "PodDisruptionBudget": PodDisruptionBudget,
    "ResourceQuota": ResourceQuota,
    "LimitRange": LimitRange,
}
"""The types of the virtual cluster. Kinds that it does not change have the scheduler's (`inputs.decode.KINDS`)."""

OWN_READERS: Final = ("HorizontalPodAutoscaler", "ScaledObject")
"""Kinds that `autoscaler_checks.autoscaler_of` and `scaled_object_of` read."""

_WITH_STATUS: Final = ("Node", "Pod")


def typed_object(manifest: Manifest) -> Any:
    """The object in its type, with its namespace. Not for `OWN_READERS`. Raises InputError."""
    kind = TYPES.get(manifest.kind) or KINDS[manifest.kind].type
    value = without_nulls(manifest.value)
    if manifest.kind not in _WITH_STATUS:
        value.pop("status", None)
    try:
        found = msgspec.convert(value, kind)
        if not manifest.dumped:
            path, spec = _pod_of(value)
            check_probes(spec, path)
            check_object(found)
    except msgspec.ValidationError as error:
        raise InputError.of(manifest.place, manifest.described, explain(error, value)) from None
    except FieldError as error:
        raise InputError.of(manifest.place, manifest.described, error) from None
    metadata = msgspec.structs.replace(found.metadata, namespace=manifest.namespace)
    return msgspec.structs.replace(found, metadata=metadata)


def _pod_of(value: Mapping[str, Any]) -> tuple[str, Any]:
    """The pod's specification in an object's YAML, and its path."""
    path, spec = "spec", value.get("spec") or {}
    for steps in (("jobTemplate", "spec"), ("template", "spec")):
        if steps[0] in spec:
            path = ".".join((path, *steps))
            spec = (spec[steps[0]] or {}).get(steps[1]) or {}
    return path, spec
