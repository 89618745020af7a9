"""Why a pod goes where it goes, or why it goes nowhere: every node's verdicts and scores for one pod.

The scheduler itself stops at the first plugin that rejects a node and, in a large cluster, looks at a sample of the
nodes. Here every filter plugin is asked about every node, so that a reader sees all that stands in the way. Scores are
those of the decision itself: only of the nodes that it looked at, normalised over them.

Nothing is changed by looking: neither the cluster nor the scheduler's random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.diagnosis import SchedulingError
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, ReasonIds
from stowplan_scheduler.framework.runtime import Decision, FitFailure, PreFilterOutcome, Profile
from stowplan_scheduler.framework.scoring import score_table
from stowplan_scheduler.framework.search import RowArray, Search, nodes_to_find
from stowplan_scheduler.framework.status import Status
from stowplan_scheduler.minimal_changes import Change, Rejection, minimal_changes

if TYPE_CHECKING:
    from stowplan_scheduler.framework.pod_info import PodInfo
    from stowplan_scheduler.scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One plugin's score for one node; `weighted` is what counts in the total."""

    plugin: str
    raw: int
    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        """normalized x weight."""
        return self.normalized * self.weight


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """What the profile says about one node.

    `rejections`: every plugin that rejects it, in the profile's order. `looked_at`: whether the decision visited the
    node (percentageOfNodesToScore). `scores` are empty and `total` is None for a node that was not scored.
    """

    name: str
    rejections: tuple[Rejection, ...]
    looked_at: bool
    scores: tuple[Score, ...] = ()
    total: int | None = None

    @property
    def is_feasible(self) -> bool:
        """Whether no plugin rejects it."""
        return not self.rejections


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One pod against the cluster as it is; nodes in snapshot order.

    `selected` is "" where the pod fits nowhere; `message` is then upstream's text without what PostFilter adds. `ties`
    counts the nodes with the best total. `changes`: what would make it fit, empty for a pod that fits.
    """

    pod: str
    scheduler_name: str
    nodes: tuple[NodeVerdict, ...]
    evaluated_nodes: int
    feasible_nodes: int
    ties: int
    selected: str
    message: str
    changes: tuple[Change, ...] = ()


def explain(scheduler: Scheduler, pod: PodInfo, profile: Profile, start: int = 0) -> Explanation:
    """What `profile` would decide now for a pod without a node, from the start index `start` on.

    The pod must not be on a node of this cluster already. Brings the scheduler's snapshot up to date.
    """
    scheduler.update_snapshot()
    return _Explainer(scheduler, pod, profile, start).explanation()


class _Explainer:
    """One look."""

    def __init__(self, scheduler: Scheduler, pod: PodInfo, profile: Profile, start: int) -> None:
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._table = scheduler.cluster.table
        self._pod = pod
        self._profile = profile
        self._start = start

    def explanation(self) -> Explanation:
        pod, profile = self._pod, self._profile
        try:
            decision = self._decision()
            search, outcome = profile.search(pod, CycleState(), self._cluster, self._scheduler)
            verdicts = self._nodes(search, outcome, decision)
        except SchedulingError as failure:
            return self._broken(str(failure))
        if isinstance(decision, Decision):
            return self._explanation(
                verdicts, decision.evaluated_nodes, decision.feasible_nodes, decision.ties, decision.node_name
            )
        diagnosis = decision.diagnosis
        changes: tuple[Change, ...] = ()
        if outcome.status.is_success:
            changes = minimal_changes(pod, self._table.infos, [verdict.rejections for verdict in verdicts])
        return self._explanation(verdicts, len(diagnosis.rows), 0, 0, "", diagnosis.message(), changes)

    def _decision(self) -> Decision | FitFailure:
        scheduler = self._scheduler
        decision, _ = self._profile.schedule(
            self._pod, self._cluster, scheduler, self._start, scheduler.tie_break, deepcopy(scheduler.rng)
        )
        return decision

    def _explanation(
        self,
        nodes: tuple[NodeVerdict, ...],
        evaluated: int,
        feasible: int,
        ties: int,
        selected: str,
        message: str = "",
        changes: tuple[Change, ...] = (),
    ) -> Explanation:
        return Explanation(
            pod=self._pod.key,
            scheduler_name=self._profile.scheduler_name,
            nodes=nodes,
            evaluated_nodes=evaluated,
            feasible_nodes=feasible,
            ties=ties,
            selected=selected,
            message=message,
            changes=changes,
        )

    def _broken(self, message: str) -> Explanation:
        """The attempt fails before any verdict counts."""
        names = [info.name for info in self._table.infos]
        nodes = tuple(NodeVerdict(name=name, rejections=(), looked_at=False) for name in names)
        return self._explanation(nodes, 0, 0, 0, "", message)

    # ---- the nodes ---------------------------------------------------------------------------

    def _nodes(
        self, search: Search, outcome: PreFilterOutcome, decision: Decision | FitFailure
    ) -> tuple[NodeVerdict, ...]:
        table = self._table
        if not outcome.status.is_success:
            rejected = (_rejection(outcome.status),)
            return tuple(NodeVerdict(name=info.name, rejections=rejected, looked_at=False) for info in table.infos)
        rejections = self._rejections(search, outcome)
        looked_at, scored = self._visited(search, outcome, decision)
        scores = self._scores(search, scored) if len(scored) > 1 else {}
        return tuple(
            NodeVerdict(
                name=info.name,
                rejections=tuple(rejections[row]),
                looked_at=bool(looked_at[row]),
                scores=scores.get(row, ()),
                total=sum(score.weighted for score in scores[row]) if row in scores else None,
            )
            for row, info in enumerate(table.infos)
        )

    def _rejections(self, search: Search, outcome: PreFilterOutcome) -> list[list[Rejection]]:
        """Per row, what each filter plugin has against it."""
        table = self._table
        found: list[list[Rejection]] = [[] for _ in range(table.size)]
        view = NodeView(table, slice(0, table.size))
        for plugin in self._profile.filters:
            codes = self._codes(plugin, search, view)
            if codes is None:
                continue
            statuses = plugin.reasons.statuses
            made: dict[int, Rejection] = {}
            for row in np.flatnonzero(codes).tolist():
                code = int(codes[row])
                if code not in made:
                    made[code] = _rejection(statuses[code].of(plugin.name))
                found[row].append(made[code])
        self._mark_left_out(found, outcome)
        self._mark_nominations(found, search)
        return found

    def _codes(self, plugin: FilterPlugin, search: Search, view: NodeView) -> ReasonIds | None:
        """The plugin's reason ids for every row; None if it has nothing to do for this pod."""
        if plugin.filter_inputs is Inputs.CLUSTER:
            states = search.state.filters
            return plugin.filter(states[plugin.name], view) if plugin.name in states else None
        result = plugin.pre_filter(self._pod, self._cluster)
        return plugin.filter(result.state, view) if result.status.is_success else None

    def _mark_left_out(self, found: list[list[Rejection]], outcome: PreFilterOutcome) -> None:
        """Nodes that PreFilter leaves out are rejected in its words, whatever the same plugin's Filter says."""
        names = outcome.node_names
        if names is None:
            return
        listed = " ".join(sorted(outcome.plugins))
        left_out = Rejection(
            plugin=listed,
            code="UnschedulableAndUnresolvable",
            reasons=(f"node(s) didn't satisfy plugin(s) [{listed}]",),
        )
        for row, info in enumerate(self._table.infos):
            if info.name not in names:
                found[row] = [left_out, *(r for r in found[row] if r.plugin not in outcome.plugins)]

    def _mark_nominations(self, found: list[list[Rejection]], search: Search) -> None:
        """Nodes that are free now, but promised to pods that this one must yield to."""
        verdicts = search.verdicts(np.arange(self._table.size, dtype=np.intp))
        for row in np.flatnonzero(verdicts).tolist():
            if not found[row]:
                status = self._profile.status(int(verdicts[row]))
                found[row].append(replace(_rejection(status), for_nominated=True))

    def _visited(
        self, search: Search, outcome: PreFilterOutcome, decision: Decision | FitFailure
    ) -> tuple[NDArray[np.bool_], list[int]]:
        """Which rows the decision looked at, and which of them it scored."""
        table = self._table
        looked_at = np.zeros(table.size, np.bool_)
        if isinstance(decision, FitFailure):
            looked_at[decision.diagnosis.rows] = True
            return looked_at, []
        if decision.evaluated_nodes == 1:
            looked_at[decision.row] = True
            return looked_at, []
        candidates: RowArray | None = None
        if outcome.node_names is not None:
            rows = sorted(table.row_of[name] for name in outcome.node_names if name in table.row_of)
            candidates = np.array(rows, np.intp)
        count = table.size if candidates is None else len(candidates)
        want = nodes_to_find(count, self._profile.percentage) if self._profile.scores else 1
        found = search.find(candidates, self._start, want)
        scored = NodeView(table, found.rows).row_numbers().tolist()
        looked_at[scored] = True
        looked_at[found.failed] = True
        return looked_at, sorted(scored)

    def _scores(self, search: Search, rows: Sequence[int]) -> dict[int, tuple[Score, ...]]:
        """Every plugin's scores of the rows, in the profile's order of plugins."""
        view = NodeView(self._table, np.array(rows, np.intp))
        order = {plugin.name: index for index, (plugin, _) in enumerate(self._profile.scores)}
        plugins = score_table(search.plan, self._pod, self._cluster, view)
        plugins.sort(key=lambda scores: order[scores.plugin])
        return {
            row: tuple(
                Score(plugin=p.plugin, raw=int(p.raw[at]), normalized=int(p.normalized[at]), weight=p.weight)
                for p in plugins
            )
            for at, row in enumerate(rows)
        }


def _rejection(status: Status) -> Rejection:
    return Rejection(plugin=status.plugin, code=status.code.label, reasons=status.reasons)


__all__ = ["Change", "Explanation", "NodeVerdict", "Rejection", "Score", "explain"]
