"""InterPodAffinity: the plugin. Rules are in filtering.py (required terms) and scoring.py (preferred ones).

Follows pkg/scheduler/framework/plugins/interpodaffinity/plugin.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PreFilterResult,
    PreScoreResult,
    ReasonIds,
    ScorePlugin,
    Scores,
)
from stowplan_scheduler.framework.shape_cache import ShapeCache
from stowplan_scheduler.framework.status import SKIP, unresolvable

from . import hints
from .filtering import AffinityState, RequiredTerms, judge, with_pods
from .scoring import PreferredTerms, normalized, raw_scores
from .terms import resolve_namespaces

if TYPE_CHECKING:
    from stowplan_scheduler.cache.counters import TopologyCounter
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.cache.node_table import NodeTable
    from stowplan_scheduler.config.plugin_args import InterPodAffinityArgs
    from stowplan_scheduler.framework.cluster import Cluster, Stores
    from stowplan_scheduler.framework.cluster_event import EventRegistration
    from stowplan_scheduler.framework.pod_info import PodInfo


class InterPodAffinity(FilterPlugin, ScorePlugin):
    """Filter by required (anti-)affinity in both directions, score by preferred terms in both directions."""

    name: ClassVar[str] = "InterPodAffinity"
    filter_inputs: ClassVar[Inputs] = Inputs.CLUSTER
    score_inputs: ClassVar[Inputs] = Inputs.CLUSTER
    normalizes: ClassVar[bool] = True

    def __init__(self, args: InterPodAffinityArgs, stores: Stores) -> None:
        """`args` are validated and defaulted; namespaces are looked up in `stores`."""
        super().__init__()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_others = args.ignore_preferred_terms_of_existing_pods
        self._stores = stores
        self._required = ShapeCache(self._resolve_required)
        self._preferred = ShapeCache(self._resolve_preferred)
        self._table: NodeTable | None = None

    def events(self) -> tuple[EventRegistration, ...]:
        """See hints."""
        return hints.events()

    def _resolve_required(self, pod: PodInfo) -> RequiredTerms:
        shape, stores = pod.shape, self._stores
        affinity = tuple(resolve_namespaces(term, stores) for term in shape.required_affinity)
        anti = tuple(resolve_namespaces(term, stores) for term in shape.required_anti_affinity)
        return RequiredTerms(pod, affinity, anti, stores.namespace_labels(shape.namespace))

    def _resolve_preferred(self, pod: PodInfo) -> PreferredTerms:
        shape, stores = pod.shape, self._stores
        affinity = tuple(resolve_namespaces(term, stores) for term in shape.preferred_affinity)
        anti = tuple(resolve_namespaces(term, stores) for term in shape.preferred_anti_affinity)
        return PreferredTerms(pod, affinity, anti, stores.namespace_labels(shape.namespace), self._hard_weight)

    # ---- filter ------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """The counts; Skip if neither the pod nor anybody else has something to say."""
        if pod.shape.affinity_error:
            return PreFilterResult(unresolvable(f"parsing pod: {pod.shape.affinity_error}"))
        shape = pod.shape
        if not (
            shape.required_affinity
            or shape.required_anti_affinity
            or cluster.snapshot.have_pods_with_required_anti_affinity
        ):
            return _SKIP_FILTER
        terms = self._required.get(pod, self._stores.namespace_version)
        state = terms.state(cluster)
        if state is None:
            return _SKIP_FILTER
        self._table = cluster.table
        return PreFilterResult(state=state)

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """Own affinity first, then own anti-affinity, then the others'."""
        return judge(cast("AffinityState", state), view, self.reasons)

    def with_pods(
        self, state: object, pod: PodInfo, added: Sequence[PodInfo], removed: Sequence[PodInfo], node: NodeInfo
    ) -> object:
        """Counts with other pods on a node."""
        table = self._table
        if table is None or node.name not in table.row_of:
            return state
        row = table.row_of[node.name]
        view = NodeView(table, slice(row, row + 1))
        return with_pods(cast("AffinityState", state), pod, added, removed, view)

    # ---- score -------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        """The summed weights; Skip if nobody has a preference that applies."""
        shape = pod.shape
        own = shape.preferred_affinity or shape.preferred_anti_affinity
        if not own and (self._ignore_others or not cluster.snapshot.have_pods_with_affinity):
            return _SKIP_SCORE
        terms = self._preferred.get(pod, self._stores.namespace_version)
        counter = terms.counter(cluster)
        return _SKIP_SCORE if counter is None else PreScoreResult(state=counter)

    def score(self, state: object, view: NodeView) -> Scores:
        """Sums of weights."""
        return raw_scores(cast("TopologyCounter", state), view)

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        """Stretched to 0..100."""
        return normalized(scores)


_SKIP_FILTER = PreFilterResult(SKIP)
_SKIP_SCORE = PreScoreResult(SKIP)
