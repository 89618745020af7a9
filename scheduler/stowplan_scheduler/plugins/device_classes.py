"""Which extended resources device classes may serve (dynamic resource allocation).

Follows staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache of Kubernetes v1.37.2. Which of
two classes with the same resource name wins matters only to who allocates devices, so it is left open here.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan_scheduler.names import DEVICE_CLASS_PREFIX, is_dra_extended_resource
from stowplan_scheduler.objects import DeviceClass


def served_resources(classes: Iterable[DeviceClass]) -> frozenset[str]:
    """The names that a class gives itself (spec.extendedResourceName) and the implicit one that every class has."""
    found: set[str] = set()
    for device_class in classes:
        found.add(DEVICE_CLASS_PREFIX + device_class.metadata.name)
        if device_class.spec.extended_resource_name is not None:
            found.add(device_class.spec.extended_resource_name)
    return frozenset(found)


def is_served(resource: str, classes: Iterable[DeviceClass]) -> bool:
    """Whether a class maps the resource; where a node has none of it, DynamicResources decides instead of the node."""
    implicit = resource.removeprefix(DEVICE_CLASS_PREFIX) if resource.startswith(DEVICE_CLASS_PREFIX) else None
    return any(c.spec.extended_resource_name == resource or c.metadata.name == implicit for c in classes)


def requests_served(resources: Iterable[str], classes: Iterable[DeviceClass]) -> bool:
    """Whether one of the requested resources is an extended one that a class maps."""
    wanted = [name for name in resources if is_dra_extended_resource(name)]
    return bool(wanted) and not served_resources(classes).isdisjoint(wanted)
