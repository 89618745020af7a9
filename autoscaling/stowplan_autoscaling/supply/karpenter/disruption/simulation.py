"""Where the pods of candidates would go if these were gone.

Follows SimulateScheduling of pkg/controllers/disruption/helpers.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_autoscaling.supply.karpenter.cluster_state import ClusterState
from stowplan_autoscaling.supply.karpenter.provisioner import leaving_pods
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue, Engine, Results, Scheduler
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod

from .bounds import are_hopeless_alone, is_hopeless
from .candidates import Candidate, total_price
from .loads import PodLoad, load_of, others_load, together

UNINITIALIZED = "would schedule against an uninitialized node"


class Scene:
    """What disruption methods look at: the engine, what can be had, and the cluster, at one moment."""

    def __init__(self, engine: Engine, catalogue: Catalogue, state: ClusterState) -> None:
        self.engine = engine
        self.catalogue = catalogue
        self.state = state
        self._others: tuple[Snapshot, int, list[KnownPod], PodLoad] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as it is."""
        return self.engine.snapshot(self.state, self.catalogue)

    @property
    def undefined(self) -> frozenset[str]:
        """The labels that a machine may get although nobody mentions them."""
        return self.engine.options.well_known

    def moving(self, candidates: Sequence[Candidate], now: int) -> list[KnownPod]:
        """The pods of candidates that will leave, and so need another place."""
        limits = self.snapshot.limits
        moving: list[KnownPod] = []
        for candidate in candidates:
            if self._all_move(candidate, now):
                moving.extend(candidate.pods)
            else:
                moving += [known for known in candidate.pods if limits.is_currently_reschedulable(known, now)]
        return moving

    def _all_move(self, candidate: Candidate, now: int) -> bool:
        """Whether all pods of the candidate that need another place will leave."""
        return not candidate.is_guarded and self.snapshot.limits.all_can_go(candidate.pods, now)

    def _load(self, candidates: Sequence[Candidate], now: int) -> PodLoad:
        """What `moving` demand."""
        if all(self._all_move(candidate, now) for candidate in candidates):
            return together([candidate.load for candidate in candidates])
        return load_of(self.moving(candidates, now))

    def _beside(self, now: int) -> tuple[list[KnownPod], PodLoad]:
        """The pods that leave anyway, and what those demand that find a place in every round that is of use."""
        snapshot, known = self.snapshot, self._others
        if known is None or known[0] is not snapshot or known[1] != now:
            leaving = leaving_pods(snapshot, now)
            load = others_load(self.engine, self.catalogue, snapshot, leaving)
            known = self._others = snapshot, now, leaving, load
        return known[2], known[3]

    def are_hopeless_alone(self, candidates: Sequence[Candidate], now: int) -> list[bool]:
        """Which of the candidates can be left out: consolidation of one of them alone would come to nothing."""
        if not candidates:
            return []
        _, others = self._beside(now)
        found = are_hopeless_alone(self.snapshot, self.catalogue, candidates, others, now)
        return [hopeless and self._all_move(each, now) for hopeless, each in zip(found, candidates, strict=True)]

    def without(self, candidates: Sequence[Candidate], now: int, *, consolidating: bool) -> Results | None:
        """The scheduling round without the candidates; None if one of them is on its way out already.

        Pods that would rely on a node that is not initialized yet count as not placed. With `consolidating` it is also
        None where nothing can come of it: more than one new machine is needed, or one that is not cheaper.
        """
        snapshot = self.snapshot
        gone = [candidate.name for candidate in candidates]
        if not snapshot.deleting_names.isdisjoint(gone):
            return None
        leaving, others = self._beside(now)
        if consolidating and is_hopeless(
            snapshot, self.catalogue, gone, self._load(candidates, now), others, total_price(candidates), now
        ):
            return None
        moving = self.moving(candidates, now)
        round_ = Scheduler(
            self.engine, self.catalogue, self.state, snapshot, now, [*moving, *leaving], gone,
            consolidating=consolidating,
        )  # fmt: skip
        results = round_.solve_below(total_price(candidates)) if consolidating else round_.solve()
        if results is None:
            return None
        left = {known.key for known in leaving}
        for node, placed in results.existing:
            if not node.is_initialized:
                for pod in placed:
                    if pod.key not in left:
                        results.fail(pod, UNINITIALIZED)
        return results
