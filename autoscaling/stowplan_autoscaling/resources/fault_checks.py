"""What spec.faults refers to: nodes, groups, pools and zones that must be there, and which nodes that are."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.supply.pools import ZONE_LABEL

from .faults import Fault, Nodes
from .findings import near
from .known import Known, labels_of_node, within
from .manifests import Manifest
from .node_groups import node_names
from .simulation import SimulationSpec


def check_faults(spec: SimulationSpec, known: Known) -> None:
    """Raises FieldError for a fault of what is not there, or after the end of the run."""
    for index, fault in enumerate(spec.faults):
        field = f"spec.faults[{index}]"
        within(fault.at, spec, f"{field}.at")
        if fault.zone_lost is not None and fault.zone_lost.zone not in known.zones:
            zone = fault.zone_lost.zone
            raise FieldError(f"{field}.zoneLost.zone", f"no node is in {shown(zone)}{near(zone, known.zones)}")
        for part, name in ((fault.node_lost, "nodeLost"), (fault.cordon, "cordon")):
            if part is not None:
                _check_nodes(part, spec, known, f"{field}.{name}")


def _check_nodes(nodes: Nodes, spec: SimulationSpec, known: Known, field: str) -> None:
    for number, name in enumerate(nodes.names):
        _need_node(name, known, f"{field}.names[{number}]")
    pools = [pool.name for pool in spec.node_pools]
    if nodes.node_pool and nodes.node_pool not in pools:
        raise FieldError(f"{field}.nodePool", f"no pool {shown(nodes.node_pool)}{near(nodes.node_pool, pools)}")
    if not nodes.node_group:
        return
    groups = {group.name: group for group in spec.cluster.node_groups}
    group = groups.get(nodes.node_group)
    if group is None:
        raise FieldError(
            f"{field}.nodeGroup", f"no group {shown(nodes.node_group)}{near(nodes.node_group, list(groups))}"
        )
    if nodes.count > group.count:
        raise FieldError(f"{field}.count", f"{nodes.count}: {group.name} has {group.count} nodes")


def fault_nodes(fault: Fault, spec: SimulationSpec, objects: Sequence[Manifest]) -> list[str]:
    """The names of the nodes that a fault is about, in order."""
    if fault.zone_lost is not None:
        zone = fault.zone_lost.zone
        return [manifest.name for manifest in objects if labels_of_node(manifest).get(ZONE_LABEL) == zone]
    nodes = fault.node_lost or fault.cordon
    if nodes is None:
        return []
    group = next((group for group in spec.cluster.node_groups if group.name == nodes.node_group), None)
    return list(nodes.names) if group is None else node_names(group)[: nodes.count]


def _need_node(name: str, known: Known, field: str) -> None:
    if name not in known.nodes:
        raise FieldError(field, f"no node {shown(name)}{near(name, known.nodes)}")
