"""PodTopologySpread, soft constraints: prefer domains with fewer matching pods.

Follows pkg/scheduler/framework/plugins/podtopologyspread/scoring.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.counters import TopologyCounter
from stowplan_scheduler.cache.flags import any_true
from stowplan_scheduler.cache.node_table import Bools
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.interface import MAX_NODE_SCORE, Scores
from stowplan_scheduler.framework.pod_info import PodInfo

from .constraints import HOSTNAME, Constraint, spread_counter

_HALF = 0.5


class Preference(msgspec.Struct, frozen=True):
    """One constraint, its counter, and the weight of its key: the logarithm of the number of domains plus two."""

    constraint: Constraint
    counter: TopologyCounter
    weight: float


class ScoreState(msgspec.Struct, frozen=True):
    """`ignored`: feasible nodes that lack a key and get 0, shape (feasible,); None if there are none."""

    preferences: tuple[Preference, ...]
    ignored: Bools | None


class SoftConstraints:
    """The soft constraints of one shape of pod, with their counters.

    Without `require_all` (system defaults) a node may lack a key; it then stands for one more domain.
    """

    __slots__ = ("_counted", "_keys", "_require_all", "constraints")

    def __init__(self, pod: PodInfo, constraints: Sequence[Constraint], *, require_all: bool) -> None:
        """Nothing is counted before it is asked for."""
        self.constraints = tuple(constraints)
        self._require_all = require_all
        self._keys = tuple(constraint.topology_key for constraint in constraints)
        keys = self._keys if require_all else ()
        self._counted = tuple(
            (c, spread_counter(pod, c, keys, all_nodes=c.topology_key == HOSTNAME)) for c in constraints
        )

    def state(self, feasible: NodeView) -> ScoreState:
        """Domains are those of the feasible nodes; pods are counted on all nodes."""
        ignored: Bools | None = None
        if self._require_all:
            lacking = np.zeros(feasible.size, np.bool_)
            for key in self._keys:
                lacking |= feasible.labels(key) == 0
            ignored = lacking if any_true(lacking) else None
        scored = feasible.size - (0 if ignored is None else int(ignored.sum()))
        preferences = []
        for constraint, handle in self._counted:
            on_host = constraint.topology_key == HOSTNAME
            size = scored if on_host else _domains(feasible, constraint.topology_key, ignored)
            preferences.append(Preference(constraint, handle.get(feasible.table), math.log(size + 2)))
        return ScoreState(tuple(preferences), ignored)


def _domains(view: NodeView, key: str, ignored: Bools | None) -> int:
    codes = view.labels(key)
    if ignored is not None:
        codes = codes[~ignored]
    seen = np.zeros(len(view.table.labels(key).interned.values), np.bool_)
    seen[codes] = True
    return len(seen.nonzero()[0])


def raw_scores(state: ScoreState, view: NodeView) -> Scores:
    """Weighted counts plus maxSkew - 1 per constraint, added up in the constraints' order and rounded."""
    total: NDArray[np.float64] | None = None
    for preference in state.preferences:
        constraint, counter = preference.constraint, preference.counter
        if constraint.topology_key == HOSTNAME:
            # Counted on the node itself: two nodes may carry the same host name.
            counts = counter.channels[HOSTNAME].per_row[view.rows]
        else:
            counts = counter.at(constraint.topology_key, view.rows)
        part: Any = counts * preference.weight
        part += float(constraint.max_skew - 1)
        if not view.table.all_labelled(constraint.topology_key):
            part = np.where(view.labels(constraint.topology_key) != 0, part, 0.0)
        if total is None:
            total = part
        else:
            total += part
    if total is None:
        total = np.zeros(view.size)
    whole = np.floor(total)
    total -= whole
    # math.Round: half away from zero; all values are non-negative.
    whole += total >= _HALF
    scores = whole.astype(np.int64)
    if state.ignored is not None:
        scores[state.ignored] = 0
    return scores


def normalized(state: ScoreState, scores: Scores) -> Scores:
    """100 for the emptiest; ignored nodes get 0 and do not count."""
    kept = scores if state.ignored is None else scores[~state.ignored]
    largest = max(0, int(np.maximum.reduce(kept))) if len(kept) else 0
    if largest == 0:
        result = np.full(len(scores), MAX_NODE_SCORE, np.int64)
    else:
        result = (largest + int(np.minimum.reduce(kept))) - scores
        result *= MAX_NODE_SCORE
        result //= largest
    if state.ignored is not None:
        result[state.ignored] = 0
    return result
