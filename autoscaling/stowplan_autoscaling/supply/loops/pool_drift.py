"""Node pools that change during a run, and the claims that by that are no longer what their pool asks for.

    a pool changes --> its claims that were made from another template, or have labels that it does not ask for
                       any more, have drifted --> the disruption loop replaces them, one at a time, within the budgets

A changed template (labels, taints, startup taints) is seen by its hash, other types, terms and zones by the labels of
the node. Follows pkg/controllers/nodeclaim/disruption/drift.go and pkg/controllers/nodepool/hash of Karpenter core
v1.15.0, which look at a claim when it or its pool changes. Upstream looks again every five minutes, for what a
provider says by itself; here types never go out of the catalogue, so there is nothing of that kind to see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.supply.karpenter.disruption.budgets import remaining
from stowplan_autoscaling.supply.karpenter.disruption.candidates import may_be_disrupted
from stowplan_autoscaling.supply.karpenter.disruption.commands import DRIFTED
from stowplan_autoscaling.supply.karpenter.drift import drift_reason
from stowplan_autoscaling.supply.karpenter.hashing import HASH_VERSION, template_hash
from stowplan_autoscaling.supply.karpenter.labels import NODE_POOL, NODE_POOL_HASH, NODE_POOL_HASH_VERSION

from .karpenter_setup import node_pool_of

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.supply.karpenter.disruption.controller import DisruptionController
    from stowplan_autoscaling.supply.karpenter.disruption.simulation import Scene
    from stowplan_autoscaling.supply.karpenter.node_claims import NodeClaim
    from stowplan_autoscaling.supply.karpenter.state_nodes import StateNode
    from stowplan_autoscaling.supply.pools import Pool

    from .base import SupplyLog

DRIFT: Final = "Drift"
_WHAT: Final = {
    "instance_types": "instance types",
    "capacity_types": "capacity types",
    "zones": "zones",
    "labels": "labels",
    "taints": "taints",
    "startup_taints": "startup taints",
}


class PoolDrift:
    """The pools of a run as they are now. `start`: of the run, on the virtual clock.

    `on_change` is told of a pool as it is from now on, when `node_pools` has it, and says how many claims drifted.
    """

    def __init__(
        self, kernel: Kernel, pools: Sequence[Pool], *, start: int, on_change: Callable[[Pool], int], log: SupplyLog
    ) -> None:
        self._kernel = kernel
        self._pools = pools
        self._start = start
        self._on_change = on_change
        self._log = log
        self._specs = {pool.name: pool.spec for pool in pools}
        self._said: dict[tuple[str, str], str] = {}
        self.changing = {pool.name for pool in pools if pool.changes}
        """Names of the pools that change at some time."""
        self.node_pools = {pool.name: node_pool_of(pool, names_types=bool(pool.changes)) for pool in pools}
        """By name."""

    def start(self) -> None:
        """Plan the changes."""
        for pool in self._pools:
            for at, after in pool.changes:
                self._kernel.later(self._start + at, lambda after=after: self._change(after))  # type: ignore[misc]

    def _change(self, pool: Pool) -> None:
        before, self._specs[pool.name] = self._specs[pool.name], pool.spec
        self.node_pools[pool.name] = node_pool_of(pool, names_types=True)
        count = self._on_change(pool)
        nodes = "no node has" if not count else "one node has" if count == 1 else f"{count} nodes have"
        fields = [text for name, text in _WHAT.items() if getattr(before, name) != getattr(pool.spec, name)]
        what = f"other {', '.join(fields)}" if fields else "nothing is different"
        self._log.changed(pool.name, f"{what}: {nodes} drifted")

    def stamp(self, pool: str) -> Mapping[str, str]:
        """The annotations of a claim that is made now; none where the pool never changes."""
        if pool not in self.changing:
            return {}
        return {NODE_POOL_HASH: template_hash(self.node_pools[pool]), NODE_POOL_HASH_VERSION: HASH_VERSION}

    def has_drifted(self, claim: NodeClaim, now: int) -> bool:
        """Whether the claim is no longer what its pool asks for."""
        return drift_reason(self.node_pools[claim.labels[NODE_POOL]], claim, None, frozenset(), now) is not None

    # ---- what keeps drifted nodes ------------------------------------------------------------

    def tell(self, disruption: DisruptionController, scene: Scene, now: int, *, is_idle: bool) -> None:
        """Say why drifted nodes are still there: per pool once, until it is for another reason.

        `is_idle`: the disruption loop has tried all and found nothing to do.
        """
        if not self.changing:
            return
        drifted = [node for node in scene.snapshot.nodes if node.claim is not None and node.claim.drifted is not None]
        said = self._reasons(drifted, disruption, scene, now, is_idle=is_idle) if drifted else {}
        for (pool, reason), message in said.items():
            if (pool, reason) not in self._said:
                self._log.stopped(DRIFT, pool, 0, reason, message)
        self._said = said

    def _reasons(
        self, drifted: Sequence[StateNode], disruption: DisruptionController, scene: Scene, now: int, *, is_idle: bool
    ) -> dict[tuple[str, str], str]:
        candidates = {each.name for each in disruption.drifted(scene, now)}
        # Pods that would go to a node that is still to come are as good as without a place, but not for long.
        is_settled = is_idle and all(node.is_initialized for node in scene.snapshot.nodes)
        left = remaining(scene.catalogue.pools, scene.snapshot.pool_counts(), DRIFTED, now)
        found: dict[tuple[str, str], str] = {}
        for node in drifted:
            pool = node.pool or ""
            if not may_be_disrupted(node, now):
                # It goes already, or a pod is on its way there: not for long.
                continue
            if node.name not in candidates:
                found.setdefault((pool, "PodsStay"), f"{node.name}: a pod or a budget of pods does not let it go")
            elif not left[pool]:
                found.setdefault((pool, "Budget"), "the budgets of the pool let no other node go now")
            elif is_settled:
                found.setdefault((pool, "NoPlace"), f"{node.name}: its pods have no place but there")
        return found
