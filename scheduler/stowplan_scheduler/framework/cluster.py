"""What a rule may ask about the cluster: the snapshot, its node table, and the small stores of other objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stowplan_scheduler.cache.node_table import NodeTable
from stowplan_scheduler.cache.snapshot import Snapshot
from stowplan_scheduler.extended_resources import ServedResources

if TYPE_CHECKING:
    from stowplan_scheduler.objects import (
        DeviceClass,
        Namespace,
        PodDisruptionBudget,
        ReplicaSet,
        ReplicationController,
        ResourceSlice,
        Service,
        StatefulSet,
    )


@dataclass(slots=True)
class Stores:
    """Objects by key ("namespace/name", or the name).

    `version` moves with every change of any of them, `namespace_version` with changes of namespaces. `served` follows
    the device classes.
    """

    namespaces: dict[str, Namespace] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    replication_controllers: dict[str, ReplicationController] = field(default_factory=dict)
    replica_sets: dict[str, ReplicaSet] = field(default_factory=dict)
    stateful_sets: dict[str, StatefulSet] = field(default_factory=dict)
    pod_disruption_budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    device_classes: dict[str, DeviceClass] = field(default_factory=dict)
    resource_slices: dict[str, ResourceSlice] = field(default_factory=dict)
    served: ServedResources = field(default_factory=ServedResources)
    version: int = 0
    namespace_version: int = 0

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace, None if it is not known."""
        found = self.namespaces.get(name)
        return None if found is None else found.metadata.labels


class Cluster:
    """The state that one scheduling cycle sees. The snapshot stays as it is during a cycle; the stores are live."""

    __slots__ = ("snapshot", "stores", "table")

    def __init__(self, stores: Stores | None = None) -> None:
        """An empty cluster."""
        self.snapshot = Snapshot()
        self.table = NodeTable()
        self.stores = Stores() if stores is None else stores
