"""Provisioning: which pods wait for capacity, and one round for them.

Follows pkg/controllers/provisioning/provisioner.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import SECOND

from .claims import Claim
from .cluster_state import ClusterState
from .node_pools import exceeded
from .options import Options
from .scheduler import NO_POOLS, Catalogue, Engine, Results, Scheduler
from .snapshot import Snapshot
from .state_nodes import KnownPod

_NOMINATION_FLOOR: Final = 10 * SECOND


def nomination_window(options: Options) -> int:
    """For how long a node that a pending pod was given is not disrupted, in nanoseconds."""
    return max(2 * options.batch_max, _NOMINATION_FLOOR)


def leaving_pods(snapshot: Snapshot, now: int) -> list[KnownPod]:
    """The pods of nodes that are on their way out which will need another place."""
    return [
        known
        for node in snapshot.deleting
        if node.node is not None
        for known in node.bound.values()
        if snapshot.limits.is_currently_reschedulable(known, now)
    ]


def schedule(engine: Engine, catalogue: Catalogue, state: ClusterState, now: int) -> Results:
    """One provisioning round: claims to launch and pods nominated to existing nodes. Changes nothing."""
    snapshot = engine.snapshot(state, catalogue)
    leaving = leaving_pods(snapshot, now)
    if not snapshot.pending and not leaving:
        return Results()
    if not catalogue.pools:
        results = Results()
        for known in (*snapshot.pending, *leaving):
            results.fail(known.pod, NO_POOLS)
        return results
    return Scheduler(engine, catalogue, state, snapshot, now, leaving).solve()


def may_launch(claim: Claim, state: ClusterState) -> str | None:
    """Checked once more before a claim is made: the resource of which its pool has too much already, or None."""
    limits = claim.template.pool.limits
    return exceeded(limits, state.pool_usage(claim.pool)) if limits else None


def nominate(results: Results, state: ClusterState, options: Options, now: int) -> None:
    """Note which nodes the round counts on, so that they are not disrupted for a while."""
    until = now + nomination_window(options)
    for node, _ in results.existing:
        key = node.node.spec.provider_id or node.node.metadata.name if node.node is not None else None
        if key is None and node.claim is not None:
            key = node.claim.provider_id
        if key is not None:
            state.nominate(key, until)
