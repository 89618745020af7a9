"""What is left on each node when its daemon sets are complete; renewed only for the node that changed.

Follows NewExistingNode of pkg/controllers/provisioning/scheduling/existingnode.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from stowplan_scheduler.objects import Taint

from .amounts import add, subtracted
from .requirements import Requirements
from .state_nodes import StateNode
from .templates import Daemon

_MEMO_LIMIT: Final = 1 << 16


class _Row(NamedTuple):
    version: int
    remaining: Mapping[str, int]


class NodeRows:
    """What is left on each node when its daemon sets are complete. Made once for a set of daemons."""

    def __init__(self, daemons: Sequence[Daemon]) -> None:
        self._daemons = daemons
        self._rows: dict[int, tuple[StateNode, _Row]] = {}
        self._expected: dict[tuple[Requirements, tuple[Taint, ...]], dict[str, int]] = {}

    def remaining(self, node: StateNode) -> Mapping[str, int]:
        """What is left on a node, in nano units."""
        known = self._rows.get(id(node))
        if known is not None and known[0] is node and known[1].version == node.version:
            return known[1].remaining
        missing = subtracted(self._expected_on(node), node.daemon_requests())
        row = _Row(node.version, subtracted(node.available(), {n: max(nanos, 0) for n, nanos in missing.items()}))
        if len(self._rows) > _MEMO_LIMIT:
            self._rows.clear()
        self._rows[id(node)] = (node, row)
        return row.remaining

    def _expected_on(self, node: StateNode) -> dict[str, int]:
        if not self._daemons:
            return {}
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
