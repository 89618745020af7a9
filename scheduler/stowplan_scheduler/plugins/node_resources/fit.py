"""NodeResourcesFit: does the node have room, and how well does the pod fill it?

A resource that a device class serves is left to DynamicResources on nodes that have none of it themselves.

Follows pkg/scheduler/framework/plugins/noderesources/fit.go of Kubernetes v1.37.2.
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
    from stowplan_scheduler.cache.node_table import Bools, Int64s
    from stowplan_scheduler.cache.node_view import NodeView
    from stowplan_scheduler.config.plugin_args import NodeResourcesFitArgs
    from stowplan_scheduler.framework.cluster import Cluster, Stores
    from stowplan_scheduler.framework.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class FitState:
    """What to check, in upstream's order: resources, and as columns of shape (n, 1) amounts > 0 and who is served.

    `served`: the resource may come from devices where a node has none of it; None if no resource may.
    """

    names: tuple[str, ...]
    amounts: Int64s
    served: Bools | None


_NOTHING: frozenset[str] = frozenset()


class NodeResourcesFit(FilterPlugin, ScorePlugin):
    """Filter by what is left, score by one of three strategies."""

    name: ClassVar[str] = "NodeResourcesFit"
    filter_inputs: ClassVar[Inputs] = Inputs.ROW
    filter_by_amounts: ClassVar[bool] = True
    score_inputs: ClassVar[Inputs] = Inputs.ROW
    score_by_amounts: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesFitArgs, stores: Stores) -> None:
        """`args` are validated and defaulted; `stores` says which resources device classes serve."""
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
        """The requests, and which of them device classes serve at present."""
        return _key(pod.shape.fit), self._served(pod.shape.fit)

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
        counted = [(name, n) for name, n in amounts if n > 0]
        names = tuple(name for name, _ in counted)
        served = self._served(request)
        columns = np.array([n for _, n in counted], np.int64).reshape(-1, 1)
        flags = np.array([name in served for name in names], np.bool_).reshape(-1, 1) if served else None
        return PreFilterResult(state=FitState(names, columns, flags))

    def _served(self, request: Resource) -> frozenset[str]:
        served = self._stores.served
        return frozenset(name for name in request.scalar if name in served) if served else _NOTHING

    def _is_ignored(self, name: str) -> bool:
        if not is_extended_resource(name):
            return False
        return name in self._ignored or name.split("/", 1)[0] in self._ignored_groups

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """Too many pods, and each resource that is short; unresolvable where the empty node would be too small."""
        fit = cast("FitState", state)
        failing: Bools = view.pod_count >= view.allowed_pods
        full = failing
        capacity = view.allocatable(fit.names)
        short: Bools = capacity - view.requested(fit.names) < fit.amounts
        if fit.served is not None:
            short &= ~fit.served | (capacity > 0)
        for lacking in short:
            failing = failing | lacking
        codes = np.zeros(view.size, np.int16)
        if any_true(failing):
            rows = failing.nonzero()[0]
            codes[rows] = self._reason_ids(fit, full[rows], short[:, rows], capacity[:, rows])
        return codes

    def _reason_ids(self, fit: FitState, full: Bools, short: Bools, capacity: Int64s) -> ReasonIds:
        """One id per combination of reasons: bit 0 too many pods, then two bits per resource (short, too small)."""
        patterns = full.astype(np.int64)
        hopeless = short & (capacity < fit.amounts)
        for index in range(len(fit.names)):
            patterns |= short[index].astype(np.int64) << (2 * index + 1)
            patterns |= hopeless[index].astype(np.int64) << (2 * index + 2)
        if len(patterns) == 1:  # preemption asks node by node
            return np.array([self._reason(int(patterns[0]), fit.names)], np.int16)
        distinct, inverse = np.unique(patterns, return_inverse=True)
        ids = np.array([self._reason(int(pattern), fit.names) for pattern in distinct], np.int16)
        found: ReasonIds = ids[inverse]
        return found

    def _reason(self, pattern: int, names: tuple[str, ...]) -> int:
        reasons = ["Too many pods"] if pattern & 1 else []
        code = Code.UNSCHEDULABLE
        for index, name in enumerate(names):
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
        return self._strategy(cast("Scored", state), view)


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
