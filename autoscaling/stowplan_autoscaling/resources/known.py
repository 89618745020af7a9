"""What checks of a simulation share: the objects by what refers to them, and rules for names and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.supply.pools import ZONE_LABEL

from .base import ObjectRef, duplicate
from .findings import near
from .manifests import Manifest
from .node_pools import NodePool
from .simulation import SimulationSpec
from .values import format_duration

SCALABLE: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")


class Known:
    """The objects of a simulation by what refers to them."""

    def __init__(self, spec: SimulationSpec, objects: Sequence[Manifest]) -> None:
        self._keys = {(manifest.kind, manifest.key) for manifest in objects}
        self.nodes = [manifest.name for manifest in objects if manifest.kind == "Node"]
        zones = {labels[ZONE_LABEL] for labels in map(labels_of_node, objects) if ZONE_LABEL in labels}
        self.zones = sorted(zones | {zone for pool in spec.node_pools for zone in zones_of(pool)})
        self.scaled_objects = [manifest for manifest in objects if manifest.kind == "ScaledObject"]
        self.autoscalers = [manifest for manifest in objects if manifest.kind == "HorizontalPodAutoscaler"]

    def has(self, kind: str, key: str) -> bool:
        """Whether there is such an object."""
        return (kind, key) in self._keys

    def of(self, kinds: Iterable[str]) -> list[str]:
        """The keys of all objects of some kinds."""
        wanted = set(kinds)
        return sorted(key for kind, key in self._keys if kind in wanted)

    def need(self, ref: ObjectRef, kinds: Sequence[str], field: str) -> None:
        """Raises FieldError for what is not there, or is of a kind that cannot stand here."""
        if ref.kind not in kinds:
            raise FieldError(f"{field}.kind", f"{shown(ref.kind)}: must be one of {', '.join(kinds)}")
        if not self.has(ref.kind, ref.key):
            raise FieldError(field, f"no {ref} in spec.workloads or spec.cluster{near(ref.key, self.of([ref.kind]))}")


def zones_of(pool: NodePool) -> set[str]:
    """The zones that a pool takes machines from, before and after its changes."""
    return {*pool.zones, *(zone for change in pool.changes for zone in change.zones or ())}


def labels_of_node(manifest: Manifest) -> Mapping[str, str]:
    """The labels of a Node; none of anything else."""
    return manifest.value["metadata"].get("labels") or {} if manifest.kind == "Node" else {}


def unique(names: Sequence[str], field: str, member: str = "name") -> None:
    """Raises FieldError for a name that occurs twice in the list at `field`."""
    index = duplicate(names)
    if index is not None:
        raise FieldError(f"{field}[{index}].{member}", f"{shown(names[index])}: occurs twice")


def within(at: int, spec: SimulationSpec, field: str) -> None:
    """Raises FieldError for a time that the run does not reach."""
    if at >= spec.duration:
        message = f"{shown(format_duration(at))}: must be before the end of the run, {format_duration(spec.duration)}"
        raise FieldError(field, message)


def at_least(value: int, least: int, field: str, other: str) -> None:
    """Raises FieldError for a time that is less than another one."""
    if value < least:
        message = f"{shown(format_duration(value))}: must be at least {other}, {format_duration(least)}"
        raise FieldError(field, message)
