"""NodeResourcesFit: does the node have room, and how well does the pod fill it?

Follows pkg/scheduler/framework/plugins/noderesources/fit.go of Kubernetes v1.37.2. Extended resources that devices may
serve are not delegated to DynamicResources here: pods that need such a decision are refused by that plugin.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from stowplan_scheduler.cache.flags import any_true
from stowplan_scheduler.config.plugin_args import ScoringStrategy
from stowplan_scheduler.framework.cluster_event import EventRegistration
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PreFilterResult,
    PreScoreResult,
    ReasonIds,
    ScorePlugin,
    Scores,
)
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.resources import Resource, is_extended_resource

from . import hints
from .allocation import Scored, scored_resources
from .strategies import Strategy, least_allocated, most_allocated, requested_to_capacity_ratio

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_table import Bools
    from stowplan_scheduler.cache.node_view import NodeView
    from stowplan_scheduler.config.plugin_args import NodeResourcesFitArgs
    from stowplan_scheduler.framework.cluster import Cluster, Stores
    from stowplan_scheduler.framework.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class FitState:
    """The amounts to check, in upstream's order: (resource, amount > 0)."""

    amounts: tuple[tuple[str, int], ...]


class NodeResourcesFit(FilterPlugin, ScorePlugin):
    """Filter by what is left, score by one of three strategies."""

    name: ClassVar[str] = "NodeResourcesFit"
    filter_inputs: ClassVar[Inputs] = Inputs.ROW
    score_inputs: ClassVar[Inputs] = Inputs.ROW

    def __init__(self, args: NodeResourcesFitArgs, stores: Stores) -> None:
        """`args` are validated and defaulted; hints look device classes up in `stores`."""
        super().__init__()
        self._stores = stores
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy or ScoringStrategy()
        self._resources = tuple((r.name, r.weight) for r in strategy.resources)
        self._strategy = _strategy(strategy)

    def events(self) -> tuple[EventRegistration, ...]:
        """See hints."""
        return hints.events(self._stores)

    # ---- filter ------------------------------------------------------------------------------

    def filter_key(self, pod: PodInfo) -> Hashable:
        """The requests."""
        return _key(pod.shape.fit)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """The amounts; an amount of 0 never fails."""
        request = pod.shape.fit
        amounts = [
            ("cpu", request.milli_cpu),
            ("memory", request.memory),
            ("ephemeral-storage", request.ephemeral_storage),
        ]
        # Upstream walks a map; by name is one of its orders.
        amounts += [(name, n) for name, n in sorted(request.scalar.items()) if not self._is_ignored(name)]
        return PreFilterResult(state=FitState(tuple((name, n) for name, n in amounts if n > 0)))

    def _is_ignored(self, name: str) -> bool:
        if not is_extended_resource(name):
            return False
        return name in self._ignored or name.split("/", 1)[0] in self._ignored_groups

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """Too many pods, and each resource that is short; unresolvable where the empty node would be too small."""
        amounts = cast("FitState", state).amounts
        full: Bools = view.pod_count >= view.allowed_pods
        short: list[Bools] = []
        failing = full
        for name, amount in amounts:
            lacking: Bools = view.allocatable(name) - view.requested(name) < amount
            short.append(lacking)
            failing = failing | lacking
        codes = np.zeros(view.size, np.int16)
        if any_true(failing):
            self._fill_reasons(codes, np.flatnonzero(failing), full, short, amounts, view)
        return codes

    def _fill_reasons(
        self,
        codes: ReasonIds,
        rows: np.ndarray[tuple[int], np.dtype[np.intp]],
        full: Bools,
        short: list[Bools],
        amounts: tuple[tuple[str, int], ...],
        view: NodeView,
    ) -> None:
        """One id per combination of reasons: bit 0 too many pods, then two bits per resource (short, too small)."""
        patterns = full[rows].astype(np.int64)
        for index, (name, amount) in enumerate(amounts):
            lacking = short[index][rows]
            hopeless = lacking & (view.allocatable(name)[rows] < amount)
            patterns |= lacking.astype(np.int64) << (2 * index + 1)
            patterns |= hopeless.astype(np.int64) << (2 * index + 2)
        distinct, inverse = np.unique(patterns, return_inverse=True)
        ids = np.array([self._reason(int(pattern), amounts) for pattern in distinct], np.int16)
        codes[rows] = ids[inverse]

    def _reason(self, pattern: int, amounts: tuple[tuple[str, int], ...]) -> int:
        reasons = ["Too many pods"] if pattern & 1 else []
        code = Code.UNSCHEDULABLE
        for index, (name, _) in enumerate(amounts):
            if pattern >> (2 * index + 1) & 1:
                reasons.append(f"Insufficient {name}")
            if pattern >> (2 * index + 2) & 1:
                code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return self.reasons.id(code, *reasons)

    # ---- score -------------------------------------------------------------------------------

    def score_key(self, pod: PodInfo) -> Hashable:
        """The amounts of the configured resources; pod-level requests do not count here, as upstream."""
        request = pod.shape.score
        return tuple(request.get(name) for name, _ in self._resources)

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        """The configured resources with the pod's amounts."""
        return PreScoreResult(state=scored_resources(self._resources, pod.shape.score))

    def score(self, state: object, view: NodeView) -> Scores:
        """The strategy's score, 0..100."""
        return self._strategy(cast("tuple[Scored, ...]", state), view)


def _key(request: Resource) -> Hashable:
    scalar = tuple(sorted(request.scalar.items())) if request.scalar else ()
    return request.milli_cpu, request.memory, request.ephemeral_storage, scalar


def _strategy(strategy: ScoringStrategy) -> Strategy:
    match strategy.type:
        case "MostAllocated":
            return most_allocated
        case "RequestedToCapacityRatio":
            ratio = strategy.requested_to_capacity_ratio
            points = ratio.shape if ratio is not None else ()
            return requested_to_capacity_ratio([(p.utilization, p.score) for p in points])
    return least_allocated
