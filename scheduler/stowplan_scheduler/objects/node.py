"""Node and its parts (core/v1, staging/src/k8s.io/api/core/v1/types.go of Kubernetes v1.37.2)."""

from __future__ import annotations

import msgspec

from .meta import ApiStruct, ObjectMeta
from .pod import ResourceMap


class Taint(ApiStruct, frozen=True, kw_only=True):
    """spec.taints[]: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(ApiStruct, frozen=True, kw_only=True):
    """status.conditions[]."""

    type: str = ""
    status: str = ""
    reason: str = ""


class ContainerImage(ApiStruct, frozen=True, kw_only=True):
    """An image that the node holds, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a node."""

    capacity: ResourceMap = {}
    allocatable: ResourceMap = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    phase: str = ""


class Node(ApiStruct, frozen=True, kw_only=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def key(self) -> str:
        """The name: nodes have no namespace."""
        return self.metadata.name
