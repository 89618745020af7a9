"""Which extended resources device classes serve (dynamic resource allocation).

A class serves the resource that it names (spec.extendedResourceName) and an implicit one that bears its own name. Where
a node has none of such a resource itself, DynamicResources decides instead of NodeResourcesFit.

Follows staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache of Kubernetes v1.37.2. Where
two classes name the same resource the answer depends on the order of events, as it does there: an older class that
comes later is left out as a whole, and once either of them is gone the resource is served no more.
"""

from __future__ import annotations

from math import inf

from stowplan_scheduler.names import DEVICE_CLASS_PREFIX
from stowplan_scheduler.objects import DeviceClass
from stowplan_scheduler.timestamps import parse_time


def names_served_by(device_class: DeviceClass) -> tuple[str, ...]:
    """The resources of one class if no other class names the same one."""
    implicit = DEVICE_CLASS_PREFIX + device_class.metadata.name
    explicit = device_class.spec.extended_resource_name
    return (implicit,) if explicit is None else (explicit, implicit)


class ServedResources:
    """The served resources, kept by the events of device classes. `version` moves with every event."""

    __slots__ = ("_class_of", "version")

    def __init__(self) -> None:
        """No class yet."""
        self.version = 0
        self._class_of: dict[str, DeviceClass] = {}

    def __contains__(self, resource: object) -> bool:
        return resource in self._class_of

    def __bool__(self) -> bool:
        return bool(self._class_of)

    def put(self, device_class: DeviceClass, old: DeviceClass | None = None) -> None:
        """A class was added, or changed from `old`."""
        self.version += 1
        name = device_class.spec.extended_resource_name
        holder = None if name is None else self._class_of.get(name)
        if holder is not None and not _takes_over(device_class, holder):
            return
        if old is not None:
            self._drop(old)
        for served in names_served_by(device_class):
            self._class_of[served] = device_class

    def remove(self, device_class: DeviceClass) -> None:
        """A class is gone; its last known version."""
        self.version += 1
        self._drop(device_class)

    def _drop(self, device_class: DeviceClass) -> None:
        for name in names_served_by(device_class):
            self._class_of.pop(name, None)


def _takes_over(device_class: DeviceClass, holder: DeviceClass) -> bool:
    """The newer class wins; of two equally old ones the one whose name comes first."""
    created, other = _created(device_class), _created(holder)
    return created > other or (created == other and device_class.metadata.name < holder.metadata.name)


def _created(device_class: DeviceClass) -> float:
    """When the class was created; one without a time stamp is only now being created."""
    stamp = device_class.metadata.creation_timestamp
    return inf if stamp is None else parse_time(stamp)
