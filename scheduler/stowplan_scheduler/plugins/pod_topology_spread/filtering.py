"""PodTopologySpread, hard constraints: no domain may get further ahead of the emptiest one than maxSkew.

Follows pkg/scheduler/framework/plugins/podtopologyspread/filtering.go of Kubernetes v1.37.2. Upstream remembers the two
emptiest domains only; here the minimum is taken over all, which is the same for changes of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.node_table import Bools, Int64s, NodeTable
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.interface import ReasonIds, ReasonTable
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import Code

from .constraints import Constraint, spread_counter

MISSING_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
TOO_SKEWED = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class Spread:
    """One constraint with its counts: `sums[code]` per domain, `present` domains, and `eligible` rows."""

    constraint: Constraint
    self_match: int
    sums: Int64s
    present: Bools
    eligible: Bools | None

    def allowed(self) -> Bools:
        """Which domains may take the pod, by label code."""
        least = 0
        counted = self.sums[self.present]
        if len(counted) >= max(1, self.constraint.min_domains):
            least = int(counted.min())
        return self.sums + (self.self_match - least) <= self.constraint.max_skew


SpreadState = tuple[Spread, ...]


class HardConstraints:
    """The hard constraints of one shape of pod, with their counters."""

    __slots__ = ("_counted", "constraints")

    def __init__(self, pod: PodInfo, constraints: Sequence[Constraint]) -> None:
        """Nothing is counted before it is asked for."""
        self.constraints = tuple(constraints)
        keys = tuple(constraint.topology_key for constraint in constraints)
        self._counted = tuple(
            (c, int(c.query.matches(pod.shape.labels)), spread_counter(pod, c, keys)) for c in constraints
        )

    def state(self, table: NodeTable) -> SpreadState:
        """The counts of every constraint as the snapshot has them."""
        state = []
        for constraint, matches, handle in self._counted:
            counter = handle.get(table)
            channel = counter.channels[constraint.topology_key]
            state.append(Spread(constraint, matches, channel.sums, channel.present, counter.eligible))
        return tuple(state)


def judge(state: SpreadState, view: NodeView, reasons: ReasonTable) -> ReasonIds:
    """The first constraint that a node fails decides: its key is missing, or the domain is too full."""
    missing = reasons.id(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, MISSING_LABEL)
    skewed = reasons.id(Code.UNSCHEDULABLE, TOO_SKEWED)
    codes = np.zeros(view.size, np.int16)
    for spread in state:
        by_domain = np.where(spread.allowed(), 0, skewed).astype(np.int16)
        by_domain[0] = missing
        found = by_domain[view.labels(spread.constraint.topology_key)]
        codes = found if spread is state[0] else np.where(codes == 0, found, codes)
    return codes


def with_pods(
    state: SpreadState,
    pod: PodInfo,
    added: Sequence[PodInfo],
    removed: Sequence[PodInfo],
    row: int,
    view: NodeView,
) -> SpreadState:
    """The counts if pods came to and left a node.

    As upstream, a removed pod lowers the count even if it terminates or the selector is empty, cases that are not
    counted in the first place.
    """
    changed = []
    for spread in state:
        constraint = spread.constraint
        code = int(view.labels(constraint.topology_key)[0])
        counts = code != 0 and (spread.eligible is None or bool(spread.eligible[row]))
        delta = 0
        if counts:
            delta = _matching(constraint, pod, added) - _matching(constraint, pod, removed)
        if delta:
            sums = spread.sums.copy()
            sums[code] += delta
            spread = Spread(constraint, spread.self_match, sums, spread.present, spread.eligible)
        changed.append(spread)
    if all(new is old for new, old in zip(changed, state, strict=True)):
        # The same object: rows whose states are one can be judged together.
        return state
    return tuple(changed)


def _matching(constraint: Constraint, pod: PodInfo, others: Sequence[PodInfo]) -> int:
    namespace = pod.shape.namespace
    return sum(o.shape.namespace == namespace and constraint.query.matches(o.shape.labels) for o in others)
