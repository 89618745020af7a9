"""A plugin that breaks its contract: it raises, or returns nonsense, at every point at which it is called.

When it does not, it agrees to everything and prefers nothing, so that the scalar reference need not know of it. It
never gives a node an ERROR status: that is within the contract, and tests of the core have it.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PreFilterResult,
    PreScoreResult,
    ReasonIds,
    ScorePlugin,
    Scores,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from support.plugin_at_every_point import PluginAtEveryPoint

from .plan import Fault, Plan

CHANCE: Final = 0.02
"""Of each call. An attempt makes about eight."""

NAME: Final = "Breaking"


POINTS: Final = (
    *("a hint", "PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"),
    *("PreBind", "Bind", "PostBind", "Unreserve"),
)
"""Where it is called."""


class MistakeError(Exception):
    """What the plugin raises, so that nothing else is taken for it."""


class Breaking(PluginAtEveryPoint, FilterPlugin, ScorePlugin):
    """Every point but QueueSort and PostFilter."""

    name = NAME
    filter_inputs = Inputs.CLUSTER
    score_inputs = Inputs.CLUSTER

    plan: ClassVar[Plan]
    """Of the run by whose dice it breaks."""

    def called(self, point: str) -> None:
        """Raise, now and then."""
        if self._breaks(point):
            raise MistakeError(point)

    def _breaks(self, point: str) -> bool:
        breaks = self.plan.rolls(Fault.PLUGIN_BREAKS, CHANCE)
        if breaks:
            self.plan.fired[f"a plugin broke in {point}"] += 1
        return breaks

    # ---- the queue ---------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return (EventRegistration(ClusterEvent(Resource.POD, Action.ALL), self._hint),)

    def _hint(self, pod: PodInfo, old: object, new: object) -> Hint:
        self.called("a hint")
        return Hint.QUEUE

    # ---- the attempt -------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        self.called("PreFilter")
        return PreFilterResult()

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        self.called("Filter")
        return np.zeros(view.size, np.int16)

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        self.called("PreScore")
        return PreScoreResult()

    def score(self, state: object, view: NodeView) -> Scores:
        if self._breaks("Score"):
            nonsense = self.plan.stream("nonsense").choice((-1.0, 101.0, float("nan"), float("inf"), None))
            if nonsense is None:
                raise MistakeError("Score")
            return np.full(view.size, nonsense)
        return np.zeros(view.size, np.int64)


def registered(plan: Plan) -> dict[str, PluginFactory]:
    """What a worker of this run knows beside the plugins of its own."""
    if Fault.PLUGIN_BREAKS not in plan.faults:
        return {}

    class OfThisRun(Breaking):
        """There may be several runs in one process."""

    OfThisRun.plan = plan
    return {NAME: OfThisRun}
