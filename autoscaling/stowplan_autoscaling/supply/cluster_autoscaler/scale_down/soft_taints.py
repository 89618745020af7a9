"""Nodes that are not needed get a soft taint, so that the scheduler prefers others.

Follows pkg/core/scaledown/actuation/softtaint.go of kubernetes-sigs/cluster-autoscaler. Its limit of time is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stowplan_autoscaling.supply.cluster_autoscaler.decisions import AddTaint, LoopResult, RemoveTaint
from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.taints import (
    DELETION_CANDIDATE,
    TO_BE_DELETED,
    candidate_taint,
    has_taint,
)


def update_soft_taints(
    nodes: Iterable[ObservedNode], unneeded: Collection[str], most: int, now: int, result: LoopResult
) -> None:
    """Take the taint off needed nodes, then put it on unneeded ones; at most so many changes. `nodes`: of groups."""
    changes: list[AddTaint | RemoveTaint] = []
    added: list[AddTaint | RemoveTaint] = []
    for seen in nodes:
        node, name = seen.node, seen.node.metadata.name
        if has_taint(node, TO_BE_DELETED):
            continue
        is_unneeded, is_tainted = name in unneeded, has_taint(node, DELETION_CANDIDATE)
        if is_tainted and not is_unneeded:
            changes.append(RemoveTaint(name, DELETION_CANDIDATE))
        elif is_unneeded and not is_tainted:
            added.append(AddTaint(name, candidate_taint(now)))
    result.decisions.extend([*changes, *added][:most])
