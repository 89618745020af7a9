"""The kind NodePool (always nodepools.stowplan.io: Karpenter has one of this name): a pool outside of any Simulation.

Its fields are those of a pool in a Simulation's spec.nodePools, with the machines themselves where that has their
names, and with who rents them out. `as_simulated` turns one into the other.
"""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, Final, Literal

from stowplan_autoscaling.resources.base import FromList, Labels, Names, Part, needed, option
from stowplan_autoscaling.resources.cluster import Amounts, Taint
from stowplan_autoscaling.resources.node_pools import CapacityType, Disruption, InstanceType, ProviderSpec
from stowplan_autoscaling.resources.node_pools import NodePool as SimulatedPool

from .envelope import ModelStatus, ObjectMeta

KIND: Final = "NodePool"


def _as_simulated(name: str) -> Any:
    """The field of the same name of a Simulation's pool: its default, limits and description."""
    return copy(SimulatedPool.model_fields[name])


class NodePoolSpec(Part):
    """The pool."""

    machines: Annotated[tuple[InstanceType, ...], FromList] = needed(
        "Kinds of machines that nodes of the pool are made of. The Cluster Autoscaler takes one per pool.",
        min_length=1,
        max_length=256,
    )
    capacity_types: Annotated[tuple[CapacityType, ...], FromList] = _as_simulated("capacity_types")
    zones: Names = _as_simulated("zones")
    min: int = _as_simulated("min")
    max: int | None = _as_simulated("max")
    initial: int | None = _as_simulated("initial")
    labels: Labels = _as_simulated("labels")
    taints: Annotated[tuple[Taint, ...], FromList] = _as_simulated("taints")
    startup_taints: Annotated[tuple[Taint, ...], FromList] = _as_simulated("startup_taints")
    weight: int = _as_simulated("weight")
    limits: Amounts = _as_simulated("limits")
    disruption: Disruption = _as_simulated("disruption")
    priority: int = _as_simulated("priority")
    provider: ProviderSpec = option({}, "Whoever rents out the machines: how long they take to come, and how they go.")


class NodePool(Part):
    """Nodes that come and go: which machines, how many, at which price, how fast."""

    api_version: Literal["stowplan.io/v1alpha1"] = needed("stowplan.io/v1alpha1.")
    kind: Literal["NodePool"] = needed("NodePool.")
    metadata: ObjectMeta = needed("Name and other metadata of Kubernetes.")
    spec: NodePoolSpec = needed("The pool.")
    status: ModelStatus = option({}, "Whether it could be simulated.")


def as_simulated(pool: NodePool) -> SimulatedPool:
    """The pool as a Simulation has it, by the names of its machines. Raises ValidationError for what contradicts."""
    spec = {name: getattr(pool.spec, name) for name in SimulatedPool.model_fields if name in NodePoolSpec.model_fields}
    return SimulatedPool.model_validate(
        {"name": pool.metadata.name, "instance_types": [machine.name for machine in pool.spec.machines], **spec}
    )
