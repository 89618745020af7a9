"""Kinds as the API server names them: group, version, plural, scope, and the type that their objects are decoded to."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from stowplan_scheduler.objects import (
    DeviceClass,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceSlice,
    Service,
    StatefulSet,
)


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. `type`: a struct with `metadata`, or dict for objects that are passed on as they are.

    `field_selector`: which objects a reflector asks for; "" asks for all.
    """

    kind: str
    plural: str
    type: Any = dict
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    field_selector: str = ""

    @property
    def api_version(self) -> str:
        """group/version, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The path of an object or of a part of it; without a name, of the list in that namespace, or in all."""
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


NODES: Final = Resource(kind="Node", plural="nodes", type=Node, namespaced=False)
PODS: Final = Resource(
    kind="Pod", plural="pods", type=Pod, field_selector="status.phase!=Succeeded,status.phase!=Failed"
)
"""Pods that have not ended: what kube-scheduler's informer selects (NewInformerFactory, pkg/scheduler/scheduler.go)."""

EVENTS: Final = Resource(kind="Event", plural="events", group="events.k8s.io")
LEASES: Final = Resource(kind="Lease", plural="leases", group="coordination.k8s.io")

WATCHED: Final = (
    Resource(kind="Namespace", plural="namespaces", type=Namespace, namespaced=False),
    Resource(kind="Service", plural="services", type=Service),
    Resource(kind="ReplicationController", plural="replicationcontrollers", type=ReplicationController),
    Resource(kind="ReplicaSet", plural="replicasets", group="apps", type=ReplicaSet),
    Resource(kind="StatefulSet", plural="statefulsets", group="apps", type=StatefulSet),
    Resource(kind="PodDisruptionBudget", plural="poddisruptionbudgets", group="policy", type=PodDisruptionBudget),
    Resource(kind="DeviceClass", plural="deviceclasses", group="resource.k8s.io", type=DeviceClass, namespaced=False),
    Resource(
        kind="ResourceSlice", plural="resourceslices", group="resource.k8s.io", type=ResourceSlice, namespaced=False
    ),
    NODES,
    PODS,
)
"""What a scheduler watches, in the order in which its core is told of what is there at the start: pods come last."""
