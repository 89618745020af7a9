"""A profile that measures itself: the runtime of `runtime.py`, with a stopwatch at each extension point.

An extension point lasts from the end of the one before, so what lies between two of them counts for the later one: the
plan of a pod for PreFilter, bringing remembered rules up to date for Filter.

Follows RunPreFilterPlugins, RunPreScorePlugins and RunScorePlugins of pkg/scheduler/framework/runtime/framework.go and
findNodesThatPassFilters of pkg/scheduler/schedule_one.go of Kubernetes v1.37.2, as far as they observe metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .evaluations import FilterCounts, asked_scores, taking_part
from .interface import ScorePlugin
from .runtime import PreFilterOutcome, Profile, RuleBroke
from .scoring import pre_scores, sum_scores, total_scores
from .status import Code
from .timing import Hooks, time_plugin

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_view import NodeView

    from .cluster import Cluster
    from .cycle_state import CycleState
    from .diagnosis import Diagnosis
    from .interface import Plugin, Scores
    from .plan import Plan
    from .pod_info import PodInfo
    from .runtime import Decision, FitFailure
    from .search import Found, Nominations, Search
    from .selection import Rng, TieBreak

_SUCCESS = Code.SUCCESS.label
_ERROR = Code.ERROR.label


class MeasuredProfile(Profile):
    """See the module. Decisions are those of `Profile`."""

    def __init__(
        self,
        scheduler_name: str,
        points: Mapping[str, Sequence[str]],
        plugins: Mapping[str, Plugin],
        *rest: Any,
        hooks: Hooks,
        **options: Any,
    ) -> None:
        """As `Profile`; `hooks` has the clock and hears what it shows."""
        for plugin in plugins.values():
            time_plugin(plugin, points, hooks)
        super().__init__(scheduler_name, points, plugins, *rest, **options)
        hooks.evaluations.declare(scheduler_name, points)
        self._hooks = hooks
        self._pre_scoring = frozenset(points.get("preScore", ()))
        scoring = {plugin.name for plugin, _ in self.scores}
        self._only_pre_scoring = [plugin for plugin in self._at("preScore", ScorePlugin) if plugin.name not in scoring]
        """Plugins whose Score was disabled and whose PreScore was not: nobody needs what they say; upstream asks."""
        self._mark = 0

    def schedule(
        self,
        pod: PodInfo,
        cluster: Cluster,
        nominations: Nominations,
        start: int,
        tie_break: TieBreak,
        rng: Rng,
    ) -> tuple[Decision | FitFailure, int]:
        """As `Profile.schedule`."""
        self._mark = self._hooks.clock()
        try:
            return super().schedule(pod, cluster, nominations, start, tie_break, rng)
        except RuleBroke:
            self._lap("Filter", _ERROR)
            raise

    def run_pre_filter(self, pod: PodInfo, plan: Plan, state: CycleState, cluster: Cluster) -> PreFilterOutcome:
        """As `Profile.run_pre_filter`."""
        status = _ERROR
        try:
            outcome = super().run_pre_filter(pod, plan, state, cluster)
            status = outcome.status.code.label
            return outcome
        finally:
            self._lap("PreFilter", status)
            said = state.said
            self._count(
                "PreFilter",
                tuple(said) if said is not None else taking_part(self.pre_filters, plan, state).pre_filters,
            )

    def _searched(self, search: Search, found: Found, diagnosis: Diagnosis, candidates: int) -> None:
        self._lap("Filter", _SUCCESS)
        part = taking_part(self.pre_filters, search.plan, search.state)
        counts = FilterCounts(self._hooks.evaluations, self.scheduler_name, part)
        # Whoever asked why nodes failed put those of this search at the end.
        verdicts = diagnosis.failed.verdicts[-found.failed_count :] if len(diagnosis.failed) else None
        counts.searched(search, found, candidates, verdicts)
        search.on_hypotheses = counts.hypothetical

    def _totals(self, search: Search, view: NodeView) -> Scores:
        plan, pod, cluster = search.plan, search.pod, search.cluster
        if not plan.has_scores:
            return total_scores(plan, pod, cluster, view)
        point = "PreScore"
        try:
            asked = pre_scores(plan, pod, cluster, view)
            self._lap(point, _SUCCESS)
            names = asked_scores(self.scores, plan, [plugin.name for plugin, _, _ in asked])
            self._count(point, tuple(name for name in names if name in self._pre_scoring))
            for plugin in self._only_pre_scoring:
                if not plugin.pre_score(pod, cluster, view).status.is_skip:
                    self._count(point, (plugin.name,))
            point = "Score"
            self._count(point, names, view.size)
            totals = sum_scores(plan, cluster, view, asked)
        except Exception:
            self._lap(point, _ERROR)
            raise
        self._lap(point, _SUCCESS)
        return totals

    def _lap(self, point: str, status: str) -> None:
        now = self._hooks.clock()
        self._hooks.observe_point(self.scheduler_name, point, status, now - self._mark)
        self._mark = now

    def _count(self, point: str, plugins: tuple[str, ...], times: int = 1) -> None:
        self._hooks.evaluations.add(self.scheduler_name, point, plugins, times)
