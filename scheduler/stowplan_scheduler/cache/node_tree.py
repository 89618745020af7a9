"""The order of nodes: zones in the order in which they were first seen, one node of each zone in turn.

Follows pkg/scheduler/backend/cache/node_tree.go and staging/src/k8s.io/component-helpers/node/topology/helpers.go of
Kubernetes v1.37.2.
"""

from __future__ import annotations

from itertools import zip_longest

from stowplan_scheduler.objects import Node

from .errors import CacheError

_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"


def zone_key(node: Node) -> str:
    """Region and zone as one text, "" for a node that has neither. The deprecated labels go first, even if empty."""
    labels = node.metadata.labels
    zone = labels.get(_BETA_ZONE, labels.get(_ZONE, ""))
    region = labels.get(_BETA_REGION, labels.get(_REGION, ""))
    return f"{region}:\x00:{zone}" if region or zone else ""


class NodeTree:
    """Node names by zone. Adding and removing a node costs the same whatever the number of nodes."""

    __slots__ = ("_zones", "num_nodes")

    def __init__(self) -> None:
        """No nodes."""
        # Both levels keep insertion order; the inner dictionaries serve as ordered sets.
        self._zones: dict[str, dict[str, None]] = {}
        self.num_nodes = 0

    def add_node(self, node: Node) -> None:
        """Put a node behind the others of its zone; nothing happens if the zone has it already."""
        names = self._zones.setdefault(zone_key(node), {})
        if node.metadata.name not in names:
            names[node.metadata.name] = None
            self.num_nodes += 1

    def remove_node(self, node: Node) -> None:
        """Take a node out, and its zone with the last node there. Raises CacheError if the zone has no such node."""
        zone = zone_key(node)
        names = self._zones.get(zone, {})
        if node.metadata.name not in names:
            raise CacheError(f'node "{node.metadata.name}" in group "{_quoted(zone)}" was not found')
        del names[node.metadata.name]
        if not names:
            del self._zones[zone]
        self.num_nodes -= 1

    def update_node(self, old: Node, new: Node) -> None:
        """Move a node that changed its zone behind the others of the new one."""
        if zone_key(old) != zone_key(new):
            self.remove_node(old)
            self.add_node(new)

    def names(self) -> list[str]:
        """All names: the first node of each zone, then the second of each, and so on; used-up zones are passed over."""
        zones = self._zones.values()
        return [name for turn in zip_longest(*zones) for name in turn if name is not None]


def _quoted(zone: str) -> str:
    """Go's %q of the zone key."""
    return zone.replace("\x00", r"\x00")
