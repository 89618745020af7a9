"""The score pipeline: PreScore, Score, NormalizeScore and weights over the feasible nodes.

Follows prioritizeNodes in pkg/scheduler/schedule_one.go and RunScorePlugins in
pkg/scheduler/framework/runtime/framework.go of Kubernetes v1.37.2. Totals are built from what needs no work for this
pod: rules that score every node alike are left out, pre-summed row scores are read off the memo; only the rest is
computed and normalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView

from .diagnosis import SchedulingError
from .interface import MAX_NODE_SCORE, Scores
from .memo import NodeScores
from .status import Status

if TYPE_CHECKING:
    from .cluster import Cluster
    from .interface import ScorePlugin
    from .plan import Plan
    from .pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PluginScores:
    """One plugin's scores over the feasible nodes, as `explain` and the conformance suite show them."""

    plugin: str
    weight: int
    raw: Scores
    normalized: Scores


Asked = list[tuple["ScorePlugin", object, int]]
"""Rules that are asked in every cycle and have something to score, with their states and weights."""


def total_scores(plan: Plan, pod: PodInfo, cluster: Cluster, view: NodeView) -> Scores:
    """The weighted sums, shape (view.size,), less what every node gets alike. Raises SchedulingError."""
    if not plan.has_scores:
        return np.ones(view.size, np.int64)
    return sum_scores(plan, cluster, view, pre_scores(plan, pod, cluster, view))


def pre_scores(plan: Plan, pod: PodInfo, cluster: Cluster, view: NodeView) -> Asked:
    """PreScore: the rules of every cycle that do not skip. Raises SchedulingError."""
    if plan.score_error is not None:
        raise _pre_score_error(plan.score_error)
    asked: Asked = []
    for plugin, weight in plan.cluster_scores:
        outcome = plugin.pre_score(pod, cluster, view)
        if outcome.status.is_skip:
            continue
        if not outcome.status.is_success:
            raise _pre_score_error(outcome.status.of(plugin.name))
        asked.append((plugin, outcome.state, weight))
    return asked


def sum_scores(plan: Plan, cluster: Cluster, view: NodeView, asked: Asked) -> Scores:
    """Score and NormalizeScore: the sums of `total_scores`. Raises SchedulingError."""
    bundle, rows, table = plan.bundle, view.rows, cluster.table
    bundle.ensure(table, rows)
    if bundle.out_of_range:
        for scorer, state, _ in bundle.scorers:
            _normalized(scorer, state, scorer.score(state, view), view)
    totals: Scores = bundle.scores[rows]
    owned = not isinstance(rows, slice)
    for entry, weight in plan.node_scores:
        entry.refresh(table)
        uniform = entry.uniform
        if uniform is not None:
            # The same for every node: it changes no comparison.
            if not 0 <= uniform <= MAX_NODE_SCORE:
                raise _out_of_range(entry.plugin.name, uniform)
            continue
        scores = _normalized(entry.plugin, entry.state, entry.values[rows], view)
        totals, owned = _add(totals, scores * weight, owned=owned)
    for plugin, state, weight in asked:
        scores = _normalized(plugin, state, plugin.score(state, view), view)
        totals, owned = _add(totals, scores * weight, owned=owned)
    return totals


def _add(totals: Scores, more: Scores, *, owned: bool) -> tuple[Scores, bool]:
    """Add in place where the totals are ours; the memo's arrays must not change."""
    if owned:
        totals += more
        return totals, True
    return totals + more, True


def score_table(plan: Plan, pod: PodInfo, cluster: Cluster, view: NodeView) -> list[PluginScores]:
    """Every plugin's raw and normalised scores, in no particular order of plugins. Raises SchedulingError."""
    asked = pre_scores(plan, pod, cluster, view)
    table: list[PluginScores] = []
    for entry, weight in plan.node_scores:
        entry.refresh(cluster.table)
        raw = entry.values[view.row_numbers()]
        table.append(_shown(entry, weight, raw, view))
    for plugin, state, weight in plan.bundle.scorers:
        raw = plugin.score(state, view)
        table.append(PluginScores(plugin.name, weight, raw, _normalized(plugin, state, raw.copy(), view)))
    for plugin, state, weight in asked:
        raw = plugin.score(state, view)
        table.append(PluginScores(plugin.name, weight, raw, _normalized(plugin, state, raw.copy(), view)))
    return table


def _shown(entry: NodeScores, weight: int, raw: Scores, view: NodeView) -> PluginScores:
    return PluginScores(entry.plugin.name, weight, raw, _normalized(entry.plugin, entry.state, raw.copy(), view))


def _normalized(plugin: ScorePlugin, state: object, raw: Scores, view: NodeView) -> Scores:
    scores = plugin.normalize(state, raw, view) if plugin.normalizes else raw
    if plugin.in_range:
        return scores
    if scores.dtype.kind != "i":
        # A float may be NaN, and compares with nothing.
        text = f'plugin "{plugin.name}" returns scores of type {scores.dtype}, they must be int64'
        raise SchedulingError(f"applying score defaultWeights on Score plugins: {text}")
    if len(scores):
        lowest, highest = np.minimum.reduce(scores), np.maximum.reduce(scores)
        if lowest < 0 or highest > MAX_NODE_SCORE:
            raise _out_of_range(plugin.name, int(lowest if not 0 <= lowest <= MAX_NODE_SCORE else highest))
    return scores


def _out_of_range(plugin: str, score: int) -> SchedulingError:
    text = f'plugin "{plugin}" returns an invalid score {score}, it should in the range of [0, 100]'
    return SchedulingError(f"applying score defaultWeights on Score plugins: {text} after normalizing")


def _pre_score_error(status: Status) -> SchedulingError:
    return SchedulingError(f'running PreScore plugin "{status.plugin}": {status.message}')
