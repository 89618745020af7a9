"""The cluster as Karpenter remembers it: nodes, claims, the pods on them, and when something last changed that matters.

Fed with the objects as they change; nothing is recomputed for a node that did not. The moment of the last relevant
change is what lets consolidation skip a round ("nothing changed"), for five minutes at most.

Follows pkg/controllers/state/cluster.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

from stowplan_autoscaling.kernel import MINUTE
from stowplan_scheduler.objects import Node, Pod, PodDisruptionBudget

from .amounts import NODES, Amounts, add
from .labels import INITIALIZED, INSTANCE_TYPE, NODE_POOL
from .node_claims import NodeClaim
from .pods import is_provisionable
from .shapes import Shapes, is_alike
from .state_nodes import KnownPod, StateNode

_REVALIDATE_AFTER: Final = 5 * MINUTE

_name = attrgetter("name")


class ClusterState:
    """State nodes by provider id, or by node name where a node has none.

    `pending` are the pods that the scheduler has given up on, in the order in which they came.
    """

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.nodes: dict[str, StateNode] = {}
        self.pending: dict[str, KnownPod] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.version = 0
        self._id_of_node: dict[str, str] = {}
        self._id_of_claim: dict[str, str] = {}
        self._node_of_pod: dict[str, str] = {}
        self._homeless: dict[str, dict[str, Pod]] = {}
        self._changed = 0
        self._ordered: list[StateNode] | None = None

    # ---- nodes and claims ------------------------------------------------------------------------------------------

    def update_node(self, node: Node, now: int) -> None:
        """A node was added or has changed. One of a pool waits for its instance type label, and for its provider id."""
        name, labels = node.metadata.name, node.metadata.labels
        managed = bool(labels.get(NODE_POOL))
        key = node.spec.provider_id or name
        if managed and not node.spec.provider_id:
            return
        if managed and not labels.get(INSTANCE_TYPE) and not labels.get(INITIALIZED):
            return
        known = self._id_of_node.get(name)
        if known is not None and known != key:
            self.delete_node(name, now)
        state = self.nodes.get(key)
        fresh = state is None
        if state is None:
            state = self.nodes[key] = StateNode()
        before, named = (state.is_initialized, state.is_deleting), state.name
        if state.node is None:
            for pod in self._homeless.pop(name, {}).values():
                state.bind(KnownPod(pod, self.shapes.of(pod)))
        state.node = node
        state.changed()
        self._see_name(state, named)
        self._id_of_node[name] = key
        self.version += 1
        if fresh or before != (state.is_initialized, state.is_deleting):
            self.mark_unconsolidated(now)

    def delete_node(self, name: str, now: int) -> None:
        """A node is gone; its claim may still be there."""
        key = self._id_of_node.pop(name, None)
        if key is None:
            return
        state = self.nodes[key]
        self._ordered = None
        if state.bound:
            self._homeless.setdefault(name, {}).update((b.key, b.pod) for b in state.bound.values())
        if state.claim is None:
            del self.nodes[key]
        else:
            for pod in list(state.bound):
                state.unbind(pod)
            state.node = None
            state.changed()
        self.version += 1
        self.mark_unconsolidated(now)

    def update_claim(self, claim: NodeClaim, now: int) -> None:
        """A claim was launched or has changed."""
        known = self._id_of_claim.get(claim.name)
        if known is not None and known != claim.provider_id:
            self.delete_claim(claim.name, now)
        state = self.nodes.get(claim.provider_id)
        fresh = state is None
        if state is None:
            state = self.nodes[claim.provider_id] = StateNode()
        before, named = (state.is_initialized, state.is_deleting), state.name
        state.set_claim(claim)
        self._see_name(state, named)
        self._id_of_claim[claim.name] = claim.provider_id
        self.version += 1
        if fresh or before != (state.is_initialized, state.is_deleting):
            self.mark_unconsolidated(now)

    def delete_claim(self, name: str, now: int) -> None:
        """A claim is gone; its node may still be there."""
        key = self._id_of_claim.pop(name, None)
        if key is None:
            return
        state = self.nodes[key]
        self._ordered = None
        if state.node is None:
            del self.nodes[key]
        else:
            state.claim = None
            state.changed()
        self.version += 1
        self.mark_unconsolidated(now)

    def _see_name(self, state: StateNode, named: str) -> None:
        """A node, new ones among them, may have another name than before."""
        if state.name != named:
            self._ordered = None

    def in_order(self) -> list[StateNode]:
        """All, by name; not to be changed."""
        if self._ordered is None:
            self._ordered = sorted(self.nodes.values(), key=_name)
        return self._ordered

    def node(self, name: str) -> StateNode | None:
        """The state behind a node's name."""
        key = self._id_of_node.get(name)
        return None if key is None else self.nodes[key]

    def claim(self, name: str) -> StateNode | None:
        """The state behind a claim's name."""
        key = self._id_of_claim.get(name)
        return None if key is None else self.nodes[key]

    # ---- pods ------------------------------------------------------------------------------------------------------

    def update_pod(self, pod: Pod, now: int) -> None:
        """A pod was added or has changed."""
        key, node = pod.key, pod.spec.node_name
        if not node:
            if is_provisionable(pod):
                self.pending[key] = self._known(pod, self.pending.get(key))
            else:
                self.pending.pop(key, None)
            self.version += 1
            return
        self.pending.pop(key, None)
        known = self._node_of_pod.get(key)
        if pod.is_terminal:
            self._unbind(key)
            return
        if known != node:
            self._unbind(key)
            self._node_of_pod[key] = node
            self.mark_unconsolidated(now)
        state = self.node(node)
        if state is None:
            self._homeless.setdefault(node, {})[key] = pod
        else:
            state.bind(self._known(pod, state.bound.get(key)))
        self.version += 1

    def _known(self, pod: Pod, before: KnownPod | None) -> KnownPod:
        if before is not None and is_alike(pod, before.pod):
            return KnownPod(pod, before.shape)
        return KnownPod(pod, self.shapes.of(pod))

    def delete_pod(self, key: str, now: int) -> None:
        """A pod is gone."""
        self.pending.pop(key, None)
        self._unbind(key)
        self.mark_unconsolidated(now)

    def _unbind(self, key: str) -> None:
        node = self._node_of_pod.pop(key, None)
        if node is None:
            return
        state = self.node(node)
        if state is not None:
            state.unbind(key)
        elif node in self._homeless:
            self._homeless[node].pop(key, None)
            if not self._homeless[node]:
                del self._homeless[node]
        self.version += 1

    # ---- disruption ------------------------------------------------------------------------------------------------

    def mark_for_deletion(self, keys: Iterable[str], now: int) -> None:
        """A command has chosen these nodes (by provider id)."""
        for key in keys:
            if key in self.nodes:
                self.nodes[key].marked = True
                self.nodes[key].version += 1
        self.version += 1

    def unmark(self, keys: Iterable[str]) -> None:
        """The command was given up."""
        for key in keys:
            if key in self.nodes:
                self.nodes[key].marked = False
                self.nodes[key].version += 1
        self.version += 1

    def nominate(self, key: str, until: int) -> None:
        """A pending pod is expected on a node; until then the node is not disrupted."""
        if key in self.nodes:
            self.nodes[key].nominated_until = until
            self.version += 1

    def mark_unconsolidated(self, now: int) -> None:
        """Something changed that may make consolidation possible."""
        self._changed = now
        self.version += 1

    def consolidation_state(self, now: int) -> int:
        """The moment of the last change that matters; renewed after five minutes, in case something unseen changed."""
        if now - self._changed >= _REVALIDATE_AFTER:
            self._changed = now
        return self._changed

    def pool_usage(self, pool: str) -> Amounts:
        """What the pool's nodes have that are not on their way out, in nano units; "nodes" counts them."""
        total: dict[str, int] = {NODES: 0}
        for state in self.nodes.values():
            if state.pool == pool and not state.is_deleting:
                add(total, state.capacity())
        return total
