"""How often plugins were asked: upstream's plugin_evaluation_total, worked out from what a cycle found.

Upstream asks plugin by plugin and node by node, and counts. Rules here answer for all nodes at once and many answers
are remembered, but who would have been asked follows from the outcome: a node that passes was put to every filter that
takes part, a node that fails to every one up to the filter that rejected it. So the counts are those of upstream with
one worker (its further workers look at a few nodes more before they notice that enough were found).

Follows pkg/scheduler/framework/runtime/instrumented_plugins.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from .memo import REASON_BITS
from .search import Found, RowArray, Search, as_array

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.cache.node_table import Int32s

    from .cycle_state import CycleState
    from .interface import FilterPlugin, ScorePlugin
    from .plan import Plan

COUNTED: Final = {"PreFilter": "preFilter", "Filter": "filter", "PreScore": "preScore", "Score": "score"}
"""Extension points that are counted, and their names in a configuration."""

Names = tuple[str, ...]


class Evaluations:
    """Counts by plugin, extension point and profile."""

    def __init__(self) -> None:
        """Nothing asked yet."""
        self._declared: dict[tuple[str, str, str], int] = {}
        self._counts: dict[tuple[str, str, Names], int] = {}

    def declare(self, profile: str, points: Mapping[str, Sequence[str]]) -> None:
        """Have a profile's plugins counted from 0; `points` by the configuration's names."""
        for point, listed in COUNTED.items():
            for plugin in points.get(listed, ()):
                self._declared.setdefault((plugin, point, profile), 0)

    def add(self, profile: str, point: str, plugins: Names, times: int = 1) -> None:
        """Each of the plugins was asked so many times more."""
        # Few different groups of plugins are asked: one sum for each of them, taken apart when somebody reads.
        key = (profile, point, plugins)
        self._counts[key] = self._counts.get(key, 0) + times

    def totals(self) -> dict[tuple[str, str, str], int]:
        """How often each was asked, by (plugin, extension point, profile)."""
        totals = dict(self._declared)
        for (profile, point, plugins), times in self._counts.items():
            for plugin in plugins:
                key = (plugin, point, profile)
                totals[key] = totals.get(key, 0) + times
        return totals


# ---- who is asked ----------------------------------------------------------------------------------------------------


def asked_pre_filters(pre_filters: Sequence[FilterPlugin], plan: Plan, state: CycleState) -> Names:
    """The PreFilter plugins that had something to say to the pod; upstream does not count those that skip."""
    names = []
    for plugin in pre_filters:
        result = plan.result(plugin)
        skips = plugin.name not in state.filters if result is None else result.status.is_skip
        if not skips:
            names.append(plugin.name)
    return tuple(names)


def asked_scores(scores: Sequence[tuple[ScorePlugin, int]], plan: Plan, asked: Sequence[str]) -> Names:
    """The Score plugins that take part. `asked`: those of them that are asked in every cycle."""
    taking_part = {entry.plugin.name for entry, _ in plan.node_scores}
    taking_part.update(plugin.name for plugin, _, _ in plan.bundle.scorers)
    taking_part.update(asked)
    return tuple(plugin.name for plugin, _ in scores if plugin.name in taking_part)


@dataclass(frozen=True, slots=True)
class TakingPart:
    """Who takes part in a cycle: names in the profile's order. `slots`: those of the filters."""

    pre_filters: Names
    filters: Names
    slots: tuple[int, ...]


def taking_part(pre_filters: Sequence[FilterPlugin], plan: Plan, state: CycleState) -> TakingPart:
    """Worked out once for a plan and the rules of every cycle that did not skip, where PreFilter objects to nothing."""
    key = tuple(state.filters)
    found = plan.asked.get(key)
    if found is None:
        steps = [(slot, rule.plugin.name) for slot, rule in plan.node_rules]
        steps += [(slot, plugin.name) for slot, plugin, _ in plan.bundle.filters]
        steps += [(slot, plugin.name) for slot, plugin in plan.cluster_filters if plugin.name in state.filters]
        steps.sort()
        found = TakingPart(
            asked_pre_filters(pre_filters, plan, state), tuple(name for _, name in steps), tuple(s for s, _ in steps)
        )
        plan.asked[key] = found
    return found


class FilterCounts:
    """Counts for one search."""

    __slots__ = ("_evaluations", "_names", "_profile", "_slots")

    def __init__(self, evaluations: Evaluations, profile: str, part: TakingPart) -> None:
        """`part`: the filters that take part."""
        self._slots, self._names = part.slots, part.filters
        self._evaluations = evaluations
        self._profile = profile

    def passed(self, nodes: int) -> None:
        """So many nodes passed all filters."""
        if nodes:
            self._evaluations.add(self._profile, "Filter", self._names, nodes)

    def judged(self, verdicts: Int32s) -> None:
        """Nodes got these verdicts (see memo.REASON_BITS)."""
        for slot, count in enumerate(np.bincount(verdicts >> REASON_BITS).tolist()):
            if count:
                asked = self._names[: self._slots.index(slot) + 1] if slot else self._names
                self._evaluations.add(self._profile, "Filter", asked, count)

    def searched(self, search: Search, found: Found, candidates: int, verdicts: Int32s | None) -> None:
        """A search among so many candidates ended. `verdicts`: those of `found.failed`, None if nobody asked."""
        visited = found.count + found.failed_count
        # Where a search ends early it has looked at one feasible node too many.
        self.passed(found.count + (visited < candidates))
        if found.failed_count:
            self.judged(search.verdicts(found.failed) if verdicts is None else verdicts)
        if search.yields:
            self._twice(search, np.concatenate([as_array(found.rows), found.failed]), None, None)

    def hypothetical(
        self, search: Search, rows: RowArray, infos: Sequence[NodeInfo], states: Sequence[CycleState], verdicts: Int32s
    ) -> None:
        """Changed nodes were judged, one state for each."""
        self.judged(verdicts)
        if search.yields:
            self._twice(search, rows, infos, states)

    def _twice(
        self, search: Search, rows: RowArray, infos: Sequence[NodeInfo] | None, states: Sequence[CycleState] | None
    ) -> None:
        """A node with nominated pods is put to the filters a second time if it passes with those pods."""
        self.passed(search.first_passes(rows, infos, states).count(0))
