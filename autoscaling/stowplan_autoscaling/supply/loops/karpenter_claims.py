"""Karpenter's records of the machines of a run: how claims are made, and the conditions that they come to have.

    made --> registered (label) --> initialized --> consolidatable, after consolidateAfter without a pod event
                                               '--> drifted, when the pool asks for something else

Follows pkg/controllers/nodeclaim (lifecycle/initialization.go, disruption, podevents) of Karpenter core v1.15.0.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_autoscaling.cluster.controllers.node_lifecycle.conditions import ready_status
from stowplan_autoscaling.supply.karpenter.consolidatable import is_consolidatable, notes_pod_event, settled_at
from stowplan_autoscaling.supply.karpenter.labels import NODE_POOL, TRUE
from stowplan_autoscaling.supply.karpenter.node_claims import NodeClaim
from stowplan_autoscaling.supply.karpenter.pods import is_daemon
from stowplan_autoscaling.supply.karpenter.taints import is_ephemeral
from stowplan_autoscaling.supply.pools import provider_id

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.supply.karpenter.cluster_state import ClusterState
    from stowplan_autoscaling.supply.karpenter.node_pools import NodePool
    from stowplan_autoscaling.supply.machines import Machine
    from stowplan_autoscaling.supply.provider import Provider

    from .karpenter_setup import Shelf
    from .pool_drift import PoolDrift


class Claims:
    """Those of a run, in the cluster's state; a claim has the name of its node."""

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        provider: Provider,
        state: ClusterState,
        shelf: Shelf,
        drift: PoolDrift,
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._provider = provider
        self._state = state
        self._shelf = shelf
        self._drift = drift
        self._settling: list[tuple[int, str]] = []
        """When claims will have been quiet for long enough, by name; a heap."""

    def make(self, machine: Machine, pool: NodePool) -> NodeClaim:
        """The record of a machine that was asked for, or is there from the start."""
        kind, offer, now = machine.type, machine.offer, self._kernel.now
        table = self._shelf.catalogue(now).tables[pool.name]
        numbers = table.types[table.rows[kind.name]]
        claim = NodeClaim(
            name=machine.node,
            provider_id=provider_id(offer, machine.node),
            created=now,
            labels=machine.pool.labels(kind, offer),
            annotations=self._drift.stamp(pool.name),
            taints=pool.taints,
            startup_taints=pool.startup_taints,
            capacity=numbers.capacity,
            allocatable=numbers.allocatable,
            expire_after=pool.expire_after,
            termination_grace_period=pool.termination_grace_period,
        )
        self.update(claim)
        return claim

    def initialized(self, machine: Machine) -> None:
        """Its node takes pods for the first time."""
        claim = self.of(machine.node)
        if claim is not None:
            self.update(replace(claim, initialized=self._kernel.now))
            self._settle(machine.node)

    def pod_event(self, pod: ClusterPod) -> None:
        """A pod came to a node, ended, or began to end there."""
        claim = None if is_daemon(pod) else self.of(pod.spec.node_name)
        if claim is not None and notes_pod_event(claim, self._kernel.now):
            self.update(replace(claim, last_pod_event=self._kernel.now, consolidatable=None))
            self._settle(claim.name)

    def of(self, name: str) -> NodeClaim | None:
        """The claim of that name."""
        state = self._state.claim(name)
        return None if state is None else state.claim

    def update(self, claim: NodeClaim) -> None:
        """It is new, or has changed."""
        self._state.update_claim(claim, self._kernel.now)

    def label(self, name: str, *labels: str) -> None:
        """Put labels on a Node that is there."""
        node: Node | None = self._server.find("Node", name)
        if node is not None:
            meta = replace(node.metadata, labels={**node.metadata.labels, **dict.fromkeys(labels, TRUE)})
            self._server.update("Node", replace(node, metadata=meta))

    def mark_drifted(self, name: str) -> bool:
        """Set or clear the condition Drifted of a claim. Returns whether it holds."""
        claim, machine = self.of(name), self._provider.machines.get(name)
        if claim is None or machine is None or machine.launched is None or claim.deleting:
            return False
        now = self._kernel.now
        has_drifted = self._drift.has_drifted(claim, now)
        if has_drifted != (claim.drifted is not None):
            self.update(replace(claim, drifted=now if has_drifted else None))
        return has_drifted

    def _settle(self, name: str) -> None:
        """Plan when the claim can be consolidated."""
        claim = self.of(name)
        if claim is None or claim.initialized is None:
            return
        pool = self._drift.node_pools[claim.labels[NODE_POOL]]
        if pool.disruption.consolidate_after is not None:
            when = settled_at(pool, claim)
            heapq.heappush(self._settling, (claim.initialized if when is None else when, name))

    def mark_settled(self) -> None:
        """Set the condition Consolidatable of those that have been quiet for long enough."""
        now = self._kernel.now
        while self._settling and self._settling[0][0] <= now:
            _, name = heapq.heappop(self._settling)
            claim, machine = self.of(name), self._provider.machines.get(name)
            if claim is None or machine is None or claim.consolidatable is not None:
                continue
            if is_consolidatable(self._drift.node_pools[machine.pool.name], claim, now):
                self.update(replace(claim, consolidatable=now))

    def is_initialized(self, name: str) -> bool | None:
        """Whether its node has ever taken pods; None: there is no such claim."""
        claim = self.of(name)
        return None if claim is None else claim.initialized is not None


def is_complete(node: Node, machine: Machine) -> bool:
    """Ready, without the taints of the start, with all that its type has."""
    startup = {(taint.key, taint.effect) for taint in machine.pool.startup_taints}
    return ready_status(node) == "True" and not any(
        is_ephemeral(taint) or (taint.key, taint.effect) in startup for taint in node.spec.taints
    )
