"""PodTopologySpread: the plugin. Rules are in filtering.py (hard constraints) and scoring.py (soft ones).

Follows pkg/scheduler/framework/plugins/podtopologyspread/plugin.go of Kubernetes v1.37.2.
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
from stowplan_scheduler.framework.status import SKIP, error
from stowplan_scheduler.selectors import SelectorError

from . import hints
from .constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SYSTEM_DEFAULTS,
    Constraint,
    compile_constraints,
    default_constraints,
)
from .filtering import HardConstraints, SpreadState, judge, with_pods
from .scoring import ScoreState, SoftConstraints, normalized, raw_scores

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.cache.node_table import NodeTable
    from stowplan_scheduler.config.plugin_args import PodTopologySpreadArgs
    from stowplan_scheduler.framework.cluster import Cluster, Stores
    from stowplan_scheduler.framework.cluster_event import EventRegistration
    from stowplan_scheduler.framework.pod_info import PodInfo


class PodTopologySpread(FilterPlugin, ScorePlugin):
    """Filter by the pod's DoNotSchedule constraints (or hard defaults), score by its ScheduleAnyway ones."""

    name: ClassVar[str] = "PodTopologySpread"
    filter_inputs: ClassVar[Inputs] = Inputs.CLUSTER
    score_inputs: ClassVar[Inputs] = Inputs.CLUSTER
    normalizes: ClassVar[bool] = True

    def __init__(self, args: PodTopologySpreadArgs, stores: Stores) -> None:
        """`args` are validated and defaulted; services and owners are looked up in `stores`."""
        super().__init__()
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._stores = stores
        self._hard = ShapeCache(self._make_hard)
        self._soft = ShapeCache(self._make_soft)
        self._table: NodeTable | None = None

    def events(self) -> tuple[EventRegistration, ...]:
        """See hints."""
        return hints.events(self.hard_constraints)

    def _constraints(self, pod: PodInfo, action: str) -> tuple[Constraint, ...] | SelectorError:
        own = pod.pod.spec.topology_spread_constraints
        try:
            if own:
                return compile_constraints(own, pod.shape.labels, action)
            return default_constraints(self._defaults, pod, action, self._stores)
        except SelectorError as failure:
            return failure

    def _make_hard(self, pod: PodInfo) -> HardConstraints | SelectorError:
        found = self._constraints(pod, DO_NOT_SCHEDULE)
        return found if isinstance(found, SelectorError) else HardConstraints(pod, found)

    def _make_soft(self, pod: PodInfo) -> SoftConstraints | SelectorError:
        found = self._constraints(pod, SCHEDULE_ANYWAY)
        if isinstance(found, SelectorError):
            return found
        require_all = bool(pod.pod.spec.topology_spread_constraints) or not self._system
        return SoftConstraints(pod, found, require_all=require_all)

    def hard_constraints(self, pod: PodInfo) -> tuple[Constraint, ...]:
        """What `filter` checks for a pod. Raises SelectorError."""
        found = self._hard.get(pod, self._stores.version)
        if isinstance(found, SelectorError):
            raise found
        return found.constraints

    # ---- filter ------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """The counts of the hard constraints; Skip without any."""
        found = self._hard.get(pod, self._stores.version)
        if isinstance(found, SelectorError):
            return PreFilterResult(error(f"get constraints from pod: {found}"))
        if not found.constraints:
            return _SKIP_FILTER
        self._table = cluster.table
        return PreFilterResult(state=found.state(cluster.table))

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """Missing label or too much skew."""
        return judge(cast("SpreadState", state), view, self.reasons)

    def with_pods(
        self, state: object, pod: PodInfo, added: Sequence[PodInfo], removed: Sequence[PodInfo], node: NodeInfo
    ) -> object:
        """Counts with other pods on a node."""
        table = self._table
        if table is None or node.name not in table.row_of:
            return state
        row = table.row_of[node.name]
        view = NodeView(table, slice(row, row + 1))
        return with_pods(cast("SpreadState", state), pod, added, removed, row, view)

    # ---- score -------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        """Domain weights and counters; Skip without soft constraints."""
        found = self._soft.get(pod, self._stores.version)
        if isinstance(found, SelectorError):
            return PreScoreResult(error(f"calculating preScoreState: {found}"))
        if not found.constraints:
            return _SKIP_SCORE
        return PreScoreResult(state=found.state(feasible))

    def score(self, state: object, view: NodeView) -> Scores:
        """Rounded weighted counts."""
        return raw_scores(cast("ScoreState", state), view)

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        """Reversed, 100 for the emptiest domain."""
        return normalized(cast("ScoreState", state), scores)


_SKIP_FILTER = PreFilterResult(SKIP)
_SKIP_SCORE = PreScoreResult(SKIP)
