"""TaintToleration: taints keep pods off nodes, or make nodes less liked.

Follows plugins/tainttoleration/taint_toleration.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import cast

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PreFilterResult,
    PreScoreResult,
    ReasonIds,
    ScorePlugin,
    Scores,
    default_normalize,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import Taint, Toleration
from stowplan_scheduler.tolerations import PREFER_NO_SCHEDULE, find_untolerated_taint, is_tolerated

from .changes import nodes, present, queue_if
from .vectors import CodeValues

Taints = tuple[Taint, ...]
Tolerations = tuple[Toleration, ...]


class TaintToleration(FilterPlugin, ScorePlugin):
    """Filter: NoSchedule and NoExecute. Score: fewer untolerated PreferNoSchedule taints are better."""

    name = "TaintToleration"
    filter_inputs = Inputs.NODE
    filter_reads_requests = False
    score_inputs = Inputs.NODE
    score_reads_requests = False
    normalizes = True

    def __init__(self) -> None:
        super().__init__()
        self._untolerated = self.reasons.id(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) had untolerated taint(s)")

    def filter_key(self, pod: PodInfo) -> Hashable:
        return _key(pod.pod.spec.tolerations)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        return PreFilterResult(state=CodeValues(partial(self._verdict, pod.pod.spec.tolerations), np.int16))

    def _verdict(self, tolerations: Tolerations, taints: Taints) -> int:
        return 0 if find_untolerated_taint(taints, tolerations) is None else self._untolerated

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        return cast(CodeValues[Taints], state).at(view.table.taint_sets, view.taints)

    def score_key(self, pod: PodInfo) -> Hashable:
        return _key(_soft_tolerations(pod.pod.spec.tolerations))

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        tolerations = _soft_tolerations(pod.pod.spec.tolerations)
        return PreScoreResult(state=CodeValues(partial(_count_untolerated, tolerations)))

    def score(self, state: object, view: NodeView) -> Scores:
        return cast(CodeValues[Taints], state).at(view.table.taint_sets, view.taints)

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        return default_normalize(scores, reverse=True)

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _after_node_change),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        )


def _key(tolerations: Tolerations) -> Hashable:
    """How long a taint is tolerated does not matter to scheduling."""
    return tuple((t.key, t.operator, t.value, t.effect) for t in tolerations)


def _soft_tolerations(tolerations: Tolerations) -> Tolerations:
    return tuple(t for t in tolerations if t.effect in {"", PREFER_NO_SCHEDULE})


def _count_untolerated(tolerations: Tolerations, taints: Taints) -> int:
    return sum(taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints)


def _after_node_change(pod: PodInfo, old: object, new: object) -> Hint:
    before, after = nodes(old, new)
    tolerations = pod.pod.spec.tolerations
    was_closed = before is None or find_untolerated_taint(before.spec.taints, tolerations) is not None
    return queue_if(was_closed and find_untolerated_taint(present(after).spec.taints, tolerations) is None)
