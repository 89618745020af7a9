"""Scenario objects: decoded, defaulted and admitted the way the oracle does it before the scheduler sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stowplan_scheduler.config import ConfigurationError, KubeSchedulerConfiguration, load_configuration
from stowplan_scheduler.defaulting import default_object, resolve_priority
from stowplan_scheduler.events import ApiObject
from stowplan_scheduler.objects import (
    DEFAULT_NAMESPACE,
    DeviceClass,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from stowplan_scheduler.plugins.volumes_and_devices import unsupported_feature

LISTS: tuple[tuple[str, type[ApiObject]], ...] = (
    ("namespaces", Namespace),
    ("priorityClasses", PriorityClass),
    ("services", Service),
    ("replicationControllers", ReplicationController),
    ("replicaSets", ReplicaSet),
    ("statefulSets", StatefulSet),
    ("podDisruptionBudgets", PodDisruptionBudget),
    ("deviceClasses", DeviceClass),
    ("nodes", Node),
    ("pods", Pod),
)
"""Lists of a scenario and their kinds, in the order of creation. The lists of volumes and devices are not read."""

KINDS: Mapping[str, type[ApiObject]] = {kind.__name__: kind for _, kind in LISTS}
_CLUSTER_SCOPED = (Namespace, PriorityClass, DeviceClass, Node)


class Unsupported(Exception):  # noqa: N818 - not an error of the program
    """The scenario needs something that is not built."""


def decode(kind: type[ApiObject], raw: Mapping[str, Any]) -> Any:
    """An object with its namespace and the API's defaults."""
    found: Any = msgspec.convert(_without_nulls(raw), kind)
    if not found.metadata.namespace and not isinstance(found, _CLUSTER_SCOPED):
        metadata = msgspec.structs.replace(found.metadata, namespace=DEFAULT_NAMESPACE)
        found = msgspec.structs.replace(found, metadata=metadata)
    return default_object(found)


def _without_nulls(value: Any) -> Any:
    """null means absent, as for the API server."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def with_uid(item: Any, uid: str) -> Any:
    """The object under that UID, unless it has one."""
    if item.metadata.uid:
        return item
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, uid=uid))


def admit(pod: Pod, classes: Sequence[PriorityClass]) -> Pod:
    """Priority and preemption policy from the pod's class."""
    return resolve_priority(pod, classes)


def configuration(raw: Mapping[str, Any] | None) -> KubeSchedulerConfiguration:
    """Raises ConfigurationError."""
    return load_configuration(raw)


def check_supported(scenario: Mapping[str, Any]) -> None:
    """Raises Unsupported if a pod of the scenario needs volumes or devices."""
    objects = scenario.get("objects") or {}
    raw_pods = [*objects.get("pods", ()), *(scenario.get("nominated") or ())]
    if scenario.get("pod"):
        raw_pods.append(scenario["pod"])
    raw_pods += [step["object"] for step in scenario.get("steps") or () if step["kind"] == "Pod"]
    classes = [decode(DeviceClass, raw) for raw in objects.get("deviceClasses", ())]
    for raw in raw_pods:
        feature = unsupported_feature(decode(Pod, raw), classes)
        if feature:
            raise Unsupported(feature)


__all__ = [
    "KINDS",
    "LISTS",
    "ConfigurationError",
    "Unsupported",
    "admit",
    "check_supported",
    "configuration",
    "decode",
    "with_uid",
]
