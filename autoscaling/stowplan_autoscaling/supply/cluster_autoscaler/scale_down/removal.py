"""What if this node were gone: do its pods find another place?

The node stays in the picture as a ghost without pods and with the taint of deletion, because spreading still counts its
domain while it is drained. Follows RemovalSimulator of pkg/simulator/cluster.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from stowplan_autoscaling.supply.cluster_autoscaler.hinting import HintingSimulator
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.pending import without_node
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot, NodeFilter
from stowplan_autoscaling.supply.cluster_autoscaler.taints import deletion_taint
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.cache.node_table import Bools, NodeTable

from .disruption import RemainingBudgets
from .drain_rules import DrainRules, PodsToMove


class Destinations(NodeFilter):
    """Nodes to which pods may move; `leaving` is the node that they come from."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(lambda name: name in names and name != self.leaving)
        self._names = names
        self._all = NodeFilter(names.__contains__)
        self.leaving = ""

    def discard(self, name: str) -> None:
        """A node will be gone; its row goes with it, so the rows need not be looked up again."""
        self._names.discard(name)

    def mask(self, table: NodeTable) -> Bools:
        """One flag per row."""
        mask = self._all.mask(table)
        row = table.row_of.get(self.leaving)
        if row is not None and mask[row]:
            mask = mask.copy()
            mask[row] = False
        return mask


@dataclass(frozen=True, slots=True)
class Removal:
    """What came out for a node: it can go if nothing blocks it and its pods find a place."""

    moves: PodsToMove
    fits: bool

    @property
    def possible(self) -> bool:
        """Whether the node can go."""
        return self.fits and self.moves.blocking is None


class RemovalSimulator:
    """Removals, one on top of the other."""

    def __init__(self, snapshot: ClusterSnapshot, rules: DrainRules, observation: Observation) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._observation = observation
        self._hints = HintingSimulator()

    def simulate(self, name: str, destinations: Destinations, budgets: RemainingBudgets, now: int) -> Removal:
        """Imagine that a node is gone. If it can be, the snapshot keeps it so."""
        info = self._snapshot.get(name)
        assert info is not None
        moves = self._rules.pods_to_move(info.pods, budgets, now)
        if moves.blocking is not None:
            return Removal(moves, fits=False)
        self._snapshot.fork()
        if moves.pods and not self._find_places(name, moves, destinations, now):
            self._snapshot.revert()
            return Removal(moves, fits=False)
        self._snapshot.remove(name)
        self._snapshot.commit()
        return Removal(moves, fits=True)

    def _find_places(self, name: str, moves: PodsToMove, destinations: Destinations, now: int) -> bool:
        info = self._snapshot.get(name)
        assert info is not None
        assert info.node is not None
        node = info.node
        ghost = NodeInfo()
        ghost.set_node(replace(node, spec=replace(node.spec, taints=(*node.spec.taints, deletion_taint(now)))))
        self._snapshot.rewrite(name, ghost)
        destinations.leaving = name
        pods = [without_node(self._observation.interner, pod) for pod in moves.pods]
        placed = self._hints.try_schedule(self._snapshot, pods, destinations, break_on_failure=True)
        return len(placed) == len(pods)

    def drop_old_hints(self) -> None:
        """End a round."""
        self._hints.drop_old_hints()
