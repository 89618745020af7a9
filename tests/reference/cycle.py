"""What one scheduling cycle knows: the pod, the cluster, and what PreFilter and PreScore found out."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field

from stowplan_scheduler.objects import Pod

from .cluster import NodeState, PlacedPod, ReferenceCluster
from .inter_pod_affinity import AffinityCounts, ScoreTable
from .profile import Profile
from .topology_spread import SoftSpread, SpreadCounts


@dataclass(slots=True, kw_only=True)
class Cycle:
    """One attempt to place one pod."""

    cluster: ReferenceCluster
    profile: Profile
    pod: Pod
    nominated: dict[str, list[PlacedPod]]  # node name -> pods that were promised to it
    prefiltered: set[str] = field(default_factory=set)  # plugins whose PreFilter ran
    skipped: set[str] = field(default_factory=set)  # plugins whose PreFilter said Skip
    spread: SpreadCounts | None = None
    affinity: AffinityCounts | None = None
    soft_spread: SoftSpread | None = None
    affinity_scores: ScoreTable | None = None
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)  # (plugin, extension point); what-ifs count, too

    def what_if(self) -> Cycle:
        """A copy whose counts may be changed by added and removed pods."""
        other = copy(self)
        other.spread = self.spread.copy() if self.spread else None
        other.affinity = self.affinity.copy() if self.affinity else None
        return other

    def add(self, added: PlacedPod, state: NodeState) -> None:
        """Account for a pod that is assumed to run on a node (PreFilterExtensions.AddPod)."""
        self._count(added, state, 1)

    def remove(self, removed: PlacedPod, state: NodeState) -> None:
        """Account for a pod that is assumed to be gone (PreFilterExtensions.RemovePod)."""
        self._count(removed, state, -1)

    def _count(self, other: PlacedPod, state: NodeState, delta: int) -> None:
        if self.spread:
            self.spread.change(other.pod, state.node, delta)
        if self.affinity:
            self.affinity.change(other.pod, state.node, delta)
