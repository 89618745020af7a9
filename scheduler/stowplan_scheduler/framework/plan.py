"""A plan: what one profile does for one shape of pod, worked out once.

For a shape the runtime knows which rules have anything to do, where their memo entries are, and which rules must be
asked in every cycle. Plans live in the profile's memo and are dropped with their entries.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from .interface import FilterPlugin, Inputs, PreFilterResult, PreScoreResult, ScorePlugin
from .memo import Memo, NodeMask, NodeScores, NodeVerdicts, RowBundle
from .status import Code, Status

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_view import NodeView

    from .cluster import Cluster
    from .pod_info import PodInfo

Slot = int
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreFilterStep:
    """A PreFilter plugin, with its result if that follows from the pod alone."""

    plugin: FilterPlugin
    result: PreFilterResult | None


@dataclass(slots=True)
class Plan:
    """See the module. `slots` number the filter rules from 1 in the profile's order."""

    pre_filters: tuple[PreFilterStep, ...]
    simple: bool
    """No PreFilter that follows from the pod alone rejects it or restricts the nodes."""
    node_rules: tuple[tuple[Slot, NodeVerdicts], ...]
    mask: NodeMask
    bundle: RowBundle
    cluster_filters: tuple[tuple[Slot, FilterPlugin], ...]
    node_scores: tuple[tuple[NodeScores, int], ...]
    cluster_scores: tuple[tuple[ScorePlugin, int], ...]
    score_error: Status | None
    """A PreScore failure that follows from the pod alone; it counts only when nodes are scored."""
    has_scores: bool

    @property
    def nbytes(self) -> int:
        """The plan itself; its entries are charged on their own."""
        return 1024


class Planner:
    """Makes plans for one profile."""

    __slots__ = ("_filters", "_memo", "_pre_filters", "_scores")

    def __init__(
        self,
        pre_filters: Sequence[FilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[tuple[ScorePlugin, int]],
        memo: Memo,
    ) -> None:
        """`scores` holds plugins with their weights; all in the profile's order."""
        self._pre_filters = tuple(pre_filters)
        self._filters = tuple((slot, plugin) for slot, plugin in enumerate(filters, 1))
        self._scores = tuple(scores)
        self._memo = memo

    def plan(self, pod: PodInfo, cluster: Cluster) -> Plan:
        """The plan of the pod's shape."""
        shape = pod.shape
        key = ("plan", shape.number)
        memo = self._memo
        return memo.get(key, lambda: self._make(pod, cluster), 1024)

    def _make(self, pod: PodInfo, cluster: Cluster) -> Plan:
        size = cluster.table.size
        results: dict[str, PreFilterResult] = {}
        steps: list[PreFilterStep] = []
        simple = True
        for plugin in self._pre_filters:
            result = None
            if plugin.filter_inputs is not Inputs.CLUSTER:
                result = results[plugin.name] = self._pre_filter(plugin, pod, cluster)
                simple = simple and result.node_names is None and _lets_pass(result.status)
            steps.append(PreFilterStep(plugin, result))
        node_rules, row_rules, row_keys, cluster_filters = self._split_filters(pod, cluster, results)
        mask = self._memo.get(
            ("mask", tuple((slot, v.plugin.filter_key(pod)) for slot, v in node_rules)),
            lambda: NodeMask(tuple(verdicts for _, verdicts in node_rules)),
            size,
        )
        scores = self._split_scores(pod, cluster)
        bundle = self._memo.get(
            ("bundle", tuple(row_keys), scores.row_keys),
            lambda: RowBundle(tuple(row_rules), scores.row_scorers),
            13 * size,
        )
        return Plan(
            pre_filters=tuple(steps),
            simple=simple,
            node_rules=tuple(node_rules),
            mask=mask,
            bundle=bundle,
            cluster_filters=tuple(cluster_filters),
            node_scores=scores.node_scores,
            cluster_scores=scores.cluster_scores,
            score_error=scores.error,
            has_scores=bool(self._scores),
        )

    def _verdicts(self, slot: Slot, plugin: FilterPlugin, key: Hashable, state: object, size: int) -> NodeVerdicts:
        return self._memo.get(("verdicts", slot, key), lambda: NodeVerdicts(plugin, state), 2 * size)

    def _raw_scores(self, plugin: ScorePlugin, key: Hashable, state: object, size: int) -> NodeScores:
        return self._memo.get(("scores", plugin.name, key), lambda: NodeScores(plugin, state), 8 * size)

    def _pre_filter(self, plugin: FilterPlugin, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        key = ("prefilter", plugin.name, plugin.filter_key(pod))
        return self._memo.get(key, lambda: _Kept(plugin.pre_filter(pod, cluster)), 256).value

    def _split_filters(
        self, pod: PodInfo, cluster: Cluster, results: dict[str, PreFilterResult]
    ) -> tuple[
        list[tuple[Slot, NodeVerdicts]],
        list[tuple[Slot, FilterPlugin, object]],
        list[tuple[Slot, Hashable]],
        list[tuple[Slot, FilterPlugin]],
    ]:
        """Sort the filter rules that have something to do by their inputs."""
        node_rules: list[tuple[Slot, NodeVerdicts]] = []
        row_rules: list[tuple[Slot, FilterPlugin, object]] = []
        row_keys: list[tuple[Slot, Hashable]] = []
        cluster_filters: list[tuple[Slot, FilterPlugin]] = []
        for slot, plugin in self._filters:
            if plugin.filter_inputs is Inputs.CLUSTER:
                cluster_filters.append((slot, plugin))
                continue
            result = results.get(plugin.name) or self._pre_filter(plugin, pod, cluster)
            if not result.status.is_success:
                continue
            key = plugin.filter_key(pod)
            if plugin.filter_inputs is Inputs.ROW:
                row_rules.append((slot, plugin, result.state))
                row_keys.append((slot, key))
                continue
            node_rules.append((slot, self._verdicts(slot, plugin, key, result.state, cluster.table.size)))
        return node_rules, row_rules, row_keys, cluster_filters

    def _split_scores(self, pod: PodInfo, cluster: Cluster) -> _Scores:
        found = _Scores()
        node_scores: list[tuple[NodeScores, int]] = []
        cluster_scores: list[tuple[ScorePlugin, int]] = []
        row_scorers: list[tuple[ScorePlugin, object, int]] = []
        row_keys: list[tuple[str, Hashable]] = []
        for plugin, weight in self._scores:
            row_local = plugin.score_inputs is Inputs.ROW and not plugin.normalizes
            if plugin.score_inputs is not Inputs.NODE and not row_local:
                cluster_scores.append((plugin, weight))
                continue
            key = plugin.score_key(pod)
            outcome = self._pre_score(plugin, key, pod, cluster)
            if outcome.status.is_skip:
                continue
            if not outcome.status.is_success:
                found.error = found.error or outcome.status.of(plugin.name)
                continue
            if row_local:
                row_scorers.append((plugin, outcome.state, weight))
                row_keys.append((plugin.name, key))
                continue
            entry = self._raw_scores(plugin, key, outcome.state, cluster.table.size)
            node_scores.append((entry, weight))
        found.node_scores, found.cluster_scores = tuple(node_scores), tuple(cluster_scores)
        found.row_scorers, found.row_keys = tuple(row_scorers), tuple(row_keys)
        return found

    def _pre_score(self, plugin: ScorePlugin, key: Hashable, pod: PodInfo, cluster: Cluster) -> PreScoreResult:
        full = ("prescore", plugin.name, key)
        return self._memo.get(full, lambda: _Kept(plugin.pre_score(pod, cluster, _no_view(cluster))), 256).value


class _Scores:
    """Score rules sorted by their inputs."""

    def __init__(self) -> None:
        self.node_scores: tuple[tuple[NodeScores, int], ...] = ()
        self.cluster_scores: tuple[tuple[ScorePlugin, int], ...] = ()
        self.row_scorers: tuple[tuple[ScorePlugin, object, int], ...] = ()
        self.row_keys: tuple[tuple[str, Hashable], ...] = ()
        self.error: Status | None = None


class _Kept(Generic[T]):
    """A small result in the memo."""

    nbytes = 256

    def __init__(self, value: T) -> None:
        self.value = value


def _lets_pass(status: Status) -> bool:
    return status.code in {Code.SUCCESS, Code.SKIP}


def _no_view(cluster: Cluster) -> NodeView:
    """NODE and ROW rules do not look at the feasible nodes in PreScore."""
    from stowplan_scheduler.cache.node_view import NodeView

    return NodeView(cluster.table, slice(0, 0))
