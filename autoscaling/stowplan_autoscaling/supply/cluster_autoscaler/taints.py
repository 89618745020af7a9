"""Taints that the autoscaler sets, and taints that a new node of a group would not have.

Follows pkg/utils/taints/taints.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_scheduler.objects import Node, Taint

from .options import AutoscalingOptions

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE: Final = "DeletionCandidateOfClusterAutoscaler"

_STARTUP_PREFIXES: Final = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
_STATUS_PREFIX: Final = "status-taint.cluster-autoscaler.kubernetes.io/"

_CONDITIONS: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    }
)
"""Taints that stand for a passing condition of a node."""

DELETION_TIME: Final = 5 * MINUTE
"""How long a node with the taint ToBeDeleted counts as being deleted."""


class TaintConfig:
    """Which taints are passing ones: a new node starts with them, or gets them later, but does not keep them."""

    __slots__ = ("_prefixes", "_startup", "_status", "scale_from_unschedulable")

    def __init__(self, options: AutoscalingOptions) -> None:
        self._startup = frozenset(options.startup_taint)
        self._status = frozenset(options.status_taint)
        self._prefixes = (*_STARTUP_PREFIXES, *options.startup_taint_prefix)
        self.scale_from_unschedulable = options.scale_from_unschedulable

    def is_startup_taint(self, key: str) -> bool:
        """Whether a node with this taint is still starting."""
        return key in self._startup or key.startswith(self._prefixes)

    def keeps(self, taint: Taint) -> bool:
        """Whether a new node would have the taint too."""
        key = taint.key
        return not (
            key in {TO_BE_DELETED, DELETION_CANDIDATE}
            or key in _CONDITIONS
            or key in self._status
            or key.startswith(_STATUS_PREFIX)
            or self.is_startup_taint(key)
        )


def deletion_taint(now: int) -> Taint:
    """The taint of a node that is about to be deleted."""
    return Taint(key=TO_BE_DELETED, value=str(now // SECOND), effect="NoSchedule")


def candidate_taint(now: int) -> Taint:
    """The soft taint of a node that is not needed."""
    return Taint(key=DELETION_CANDIDATE, value=str(now // SECOND), effect="PreferNoSchedule")


def has_taint(node: Node, key: str) -> bool:
    """Whether a node has a taint of that key."""
    return any(taint.key == key for taint in node.spec.taints)


def is_being_deleted(node: Node, now: int) -> bool:
    """Whether the autoscaler has marked the node for deletion a short while ago."""
    for taint in node.spec.taints:
        if taint.key == TO_BE_DELETED:
            try:
                return now - int(taint.value) * SECOND < DELETION_TIME
            except ValueError:
                return False
    return False
