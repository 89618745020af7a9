"""What rounds read of each node, renewed only for the node that changed: what is left on it, what it requires.

What is left is what remains when its daemon sets are complete. Follows NewExistingNode of
pkg/controllers/provisioning/scheduling/existingnode.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan_scheduler.objects import Taint

from .amounts import add, subtracted
from .consolidatable import settled_at
from .node_pools import NodePool
from .requirements import Algebra, Requirements
from .state_nodes import StateNode
from .templates import Daemon

_MEMO_LIMIT: Final = 1 << 16


class NodeRow:
    """A node at one of its versions. `remaining` in nano units; `is_sound`: nothing of it is below 0.

    `settled_at`: see `consolidatable.settled_at`. `keeps_others_out`: a pod on it has required anti-affinity.
    """

    __slots__ = (
        "host", "is_deleting", "is_initialized", "is_sound", "keeps_others_out", "name", "node", "remaining",
        "requirements", "settled_at", "taints", "version",
    )  # fmt: skip

    def __init__(
        self, node: StateNode, remaining: Mapping[str, int], requirements: Requirements, settled_at: int | None
    ) -> None:
        self.node = node
        self.version = node.version
        self.name = node.name
        self.host = node.host
        self.taints = node.taints
        self.is_deleting = node.is_deleting
        self.is_initialized = node.is_initialized
        self.keeps_others_out = node.keeps_others_out
        self.remaining = remaining
        self.is_sound = all(nanos >= 0 for nanos in remaining.values())
        self.requirements = requirements
        self.settled_at = settled_at


class NodeRows:
    """The rows of nodes, for the daemon sets and pools of one catalogue."""

    def __init__(self, daemons: Sequence[Daemon], pools: Mapping[str, NodePool]) -> None:
        self._daemons = daemons
        self._pools = pools
        self._rows: dict[int, NodeRow] = {}
        self._expected: dict[tuple[Requirements, tuple[Taint, ...]], dict[str, int]] = {}

    def of(self, nodes: Sequence[StateNode], algebra: Algebra) -> list[NodeRow]:
        """The rows of some nodes; the same object for a node that has not changed."""
        known = self._rows
        if len(known) > max(_MEMO_LIMIT, 2 * len(nodes)):
            known.clear()
        found = []
        for node in nodes:
            row = known.get(id(node))
            if row is None or row.node is not node or row.version != node.version:
                settled = settled_at(self._pools.get(node.pool or ""), node.claim)
                row = NodeRow(node, self._remaining(node), node.label_requirements(algebra), settled)
                known[id(node)] = row
            found.append(row)
        return found

    def _remaining(self, node: StateNode) -> Mapping[str, int]:
        if not self._daemons:
            return node.available()
        missing = subtracted(self._expected_on(node), node.daemon_requests())
        return subtracted(node.available(), {name: max(nanos, 0) for name, nanos in missing.items()})

    def _expected_on(self, node: StateNode) -> dict[str, int]:
        taints = node.taints
        labels = Requirements.of_labels(node.labels)
        key = (labels, taints)
        known = self._expected.get(key)
        if known is None:
            known = self._expected[key] = {}
            for daemon in self._daemons:
                if daemon.runs_on(taints, labels):
                    add(known, daemon.requests)
        return known
