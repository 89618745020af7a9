"""Scenario objects: decoded, defaulted and admitted the way the oracle does it before the scheduler sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stowplan_scheduler.config import ConfigurationError, KubeSchedulerConfiguration, load_configuration
from stowplan_scheduler.defaulting import default_object, resolve_priority
from stowplan_scheduler.events import ApiObject
from stowplan_scheduler.extended_resources import names_served_by
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
    ResourceSlice,
    Service,
    StatefulSet,
)
from stowplan_scheduler.plugins.volumes_and_devices import (
    DEVICE_CLASS_RESOURCE,
    needs_allocator,
    served_requests,
    unsupported_feature,
)
from stowplan_scheduler.resources import Resource, fit_request

LISTS: tuple[tuple[str, type[ApiObject]], ...] = (
    ("namespaces", Namespace),
    ("priorityClasses", PriorityClass),
    ("services", Service),
    ("replicationControllers", ReplicationController),
    ("replicaSets", ReplicaSet),
    ("statefulSets", StatefulSet),
    ("podDisruptionBudgets", PodDisruptionBudget),
    ("deviceClasses", DeviceClass),
    ("resourceSlices", ResourceSlice),
    ("nodes", Node),
    ("pods", Pod),
)
"""Lists of a scenario and their kinds, in the order of creation. The lists of volumes and claims are not read."""

KINDS: Mapping[str, type[ApiObject]] = {kind.__name__: kind for _, kind in LISTS}
T = TypeVar("T", Pod, Node, DeviceClass, ResourceSlice)

_CLUSTER_SCOPED = (Namespace, PriorityClass, DeviceClass, ResourceSlice, Node)


class First:
    """Takes the first of what upstream leaves to chance, such as the node at which preemption begins to look."""

    def integers(self, low: int, high: int) -> int:
        """`low`."""
        return low


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
    """Raises ConfigurationError, or Unsupported for extenders."""
    config = load_configuration(raw)
    if config.extenders:
        raise Unsupported("extenders")
    return config


def check_supported(scenario: Mapping[str, Any]) -> None:
    """Raises Unsupported if a pod of the scenario needs volumes or devices."""
    pods = [decode(Pod, raw) for raw in scenario.get("nominated") or ()]
    if scenario.get("pod"):
        pods.append(decode(Pod, scenario["pod"]))
    pods += _ever_there(scenario, "pods", Pod)
    for pod in pods:
        feature = unsupported_feature(pod)
        if feature:
            raise Unsupported(feature)
    classes = _ever_there(scenario, "deviceClasses", DeviceClass)
    if classes and any(_chooses_devices(scenario, pod, classes) for pod in pods):
        raise Unsupported(DEVICE_CLASS_RESOURCE)


def _chooses_devices(scenario: Mapping[str, Any], pod: Pod, classes: Sequence[DeviceClass]) -> bool:
    """Whether devices of slices count: for the pod on a node without the resource, and for that node's score."""
    request = fit_request(pod)
    names = served_requests(request, {name for item in classes for name in names_served_by(item)})
    has_slices = bool(_ever_there(scenario, "resourceSlices", ResourceSlice))
    if not names or not needs_allocator(pod, request, names, has_slices=has_slices):
        return False
    amounts = [Resource.from_map(node.status.allocatable) for node in _ever_there(scenario, "nodes", Node)]
    return any(node.get(name) == 0 for node in amounts for name in names)


def _ever_there(scenario: Mapping[str, Any], listed: str, kind: type[T]) -> list[T]:
    """The objects of a kind at the beginning, and what steps make of them."""
    raw = [*((scenario.get("objects") or {}).get(listed) or ())]
    raw += [s["object"] for s in scenario.get("steps") or () if s["kind"] == kind.__name__ and s["op"] != "delete"]
    return [decode(kind, item) for item in raw]


__all__ = [
    "KINDS",
    "LISTS",
    "ConfigurationError",
    "First",
    "Unsupported",
    "admit",
    "check_supported",
    "configuration",
    "decode",
    "with_uid",
]
