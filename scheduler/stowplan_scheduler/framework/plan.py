"""A plan: what one profile does for one shape of pod, worked out once.

For a shape the runtime knows which rules have anything to do, where their memo entries are, and which rules must be
asked in every cycle. What does not depend on the amounts of resources is worked out once per template and shared by its
shapes. Plans live in the profile's memo.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stowplan_scheduler.cache.node_view import NodeView

from .fitting import FittingRows
from .interface import FilterPlugin, Inputs, PreFilterResult, ScorePlugin
from .memo import Memo, NodeMask, NodeScores, NodeVerdicts, RowBundle
from .status import Code, Status

if TYPE_CHECKING:
    from .cluster import Cluster
    from .evaluations import TakingPart
    from .pod_info import PodInfo

Slot = int
"""The place of a filter rule in the profile's order, from 1."""

RowFilter = tuple[Slot, FilterPlugin, object]
RowScorer = tuple[ScorePlugin, object, int]


@dataclass(slots=True)
class Plan:
    """See the module."""

    results: tuple[Mapping[str, PreFilterResult], ...]
    """PreFilter results that follow from the pod alone, by plugin: those of the template, and those of the shape."""
    simple: bool
    """No PreFilter that follows from the pod alone rejects it or restricts the nodes."""
    node_rules: tuple[tuple[Slot, NodeVerdicts], ...]
    mask: NodeMask
    bundle: RowBundle
    fitting: FittingRows
    """What mask and bundle come to."""
    cluster_filters: tuple[tuple[Slot, FilterPlugin], ...]
    node_scores: tuple[tuple[NodeScores, int], ...]
    cluster_scores: tuple[tuple[ScorePlugin, int], ...]
    score_error: Status | None
    """A PreScore failure that follows from the pod alone; it counts only when nodes are scored."""
    has_scores: bool
    visited: int = 0
    """How many nodes the last sampled search looked at: a guess for the next one, without effect on its outcome."""
    asked: dict[tuple[str, ...], TakingPart] = field(default_factory=dict)
    """Who takes part in a cycle, by the rules of every cycle that do; filled by who counts (`evaluations.py`)."""

    def result(self, plugin: FilterPlugin) -> PreFilterResult | None:
        """What PreFilter says if that follows from the pod alone; None: the plugin is asked in every cycle."""
        shared, own = self.results
        return shared.get(plugin.name) or own.get(plugin.name)

    @property
    def nbytes(self) -> int:
        """The plan itself; its entries are charged on their own."""
        return _PLAN_BYTES


_PLAN_BYTES = 1024


class _Part:
    """The rules of a profile that read amounts of resources, or those that do not, sorted for one pod."""

    __slots__ = (
        "node_keys",
        "node_rules",
        "node_scores",
        "results",
        "row_filters",
        "row_keys",
        "row_scorers",
        "score_errors",
        "simple",
    )

    nbytes = _PLAN_BYTES

    def __init__(self) -> None:
        self.results: dict[str, PreFilterResult] = {}
        self.node_rules: list[tuple[Slot, NodeVerdicts]] = []
        self.node_keys: list[Hashable] = []
        self.row_filters: list[RowFilter] = []
        self.row_scorers: list[tuple[int, RowScorer]] = []
        self.row_keys: list[Hashable] = []
        self.node_scores: list[tuple[NodeScores, int]] = []
        self.score_errors: list[tuple[int, Status]] = []
        self.simple = True


class Planner:
    """Makes plans for one profile."""

    def __init__(
        self,
        pre_filters: Sequence[FilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[tuple[ScorePlugin, int]],
        memo: Memo,
    ) -> None:
        """`scores` holds plugins with their weights; all in the profile's order."""
        self._pre_filters = frozenset(plugin.name for plugin in pre_filters)
        self._has_scores = bool(scores)
        self._memo = memo
        slots = list(enumerate(filters, 1))
        local = [(slot, plugin) for slot, plugin in slots if plugin.filter_inputs is not Inputs.CLUSTER]
        self._cluster_filters = tuple(step for step in slots if step[1].filter_inputs is Inputs.CLUSTER)
        ordered = list(enumerate(scores))
        self._cluster_scores = tuple((p, w) for p, w in scores if not _is_local(p))
        local_scores = [(place, p, w) for place, (p, w) in ordered if _is_local(p)]
        # A profile may have a plugin's PreFilter without its Filter; such a rule has no slot.
        filtering = {plugin.name for _, plugin in slots}
        local += [(0, p) for p in pre_filters if p.filter_inputs is not Inputs.CLUSTER and p.name not in filtering]
        self._by_requests = _Rules(
            [step for step in local if step[1].filter_reads_requests],
            [step for step in local_scores if step[1].score_reads_requests],
        )
        self._by_template = _Rules(
            [step for step in local if not step[1].filter_reads_requests],
            [step for step in local_scores if not step[1].score_reads_requests],
        )

    def plan(self, pod: PodInfo, cluster: Cluster) -> Plan:
        """The plan of the pod's shape; device classes decide what is left to devices, so plans do not outlive them."""
        key = ("plan", pod.shape.number, cluster.stores.served.version)
        return self._memo.get(key, lambda: self._make(pod, cluster), _PLAN_BYTES)

    def _make(self, pod: PodInfo, cluster: Cluster) -> Plan:
        memo, size = self._memo, cluster.table.size
        key = ("template", pod.shape.template.number)
        shared = memo.get(key, lambda: self._part(self._by_template, pod, cluster), _PLAN_BYTES)
        own = self._part(self._by_requests, pod, cluster)
        bundle_key = ("bundle", tuple(shared.row_keys), tuple(own.row_keys))
        bundle = memo.get(bundle_key, lambda: _bundle(shared, own), 13 * size)
        node_rules, node_keys = shared.node_rules, tuple(shared.node_keys)
        if own.node_rules:
            node_rules = sorted([*shared.node_rules, *own.node_rules], key=lambda rule: rule[0])
            node_keys += tuple(own.node_keys)
        mask = memo.get(("mask", node_keys), lambda: NodeMask(tuple(verdicts for _, verdicts in node_rules)), size)
        fitting = memo.get(("fitting", node_keys, bundle_key), lambda: FittingRows(mask, bundle), 8 * size)
        errors = [*shared.score_errors, *own.score_errors]
        return Plan(
            results=(shared.results, own.results),
            simple=shared.simple and own.simple,
            node_rules=tuple(node_rules),
            # Not those of before: the memo may have dropped one of the three and not the others.
            mask=fitting.mask,
            bundle=fitting.bundle,
            fitting=fitting,
            cluster_filters=self._cluster_filters,
            node_scores=(*shared.node_scores, *own.node_scores),
            cluster_scores=self._cluster_scores,
            score_error=min(errors, key=lambda error: error[0])[1] if errors else None,
            has_scores=self._has_scores,
        )

    def _part(self, rules: _Rules, pod: PodInfo, cluster: Cluster) -> _Part:
        part = _Part()
        for slot, plugin in rules.filters:
            self._sort_filter(part, slot, plugin, pod, cluster)
        for place, scorer, weight in rules.scores:
            self._sort_score(part, place, scorer, weight, pod, cluster)
        return part

    def _sort_filter(self, part: _Part, slot: Slot, plugin: FilterPlugin, pod: PodInfo, cluster: Cluster) -> None:
        result = part.results[plugin.name] = plugin.pre_filter(pod, cluster)
        if plugin.name in self._pre_filters and not _lets_pass(result):
            part.simple = False
        if not slot or not result.status.is_success:
            return
        key, state = plugin.filter_key(pod), result.state
        if plugin.filter_inputs is Inputs.ROW:
            part.row_filters.append((slot, plugin, state))
            part.row_keys.append((slot, key))
            return
        size = cluster.table.size
        entry = self._memo.get(("verdicts", slot, key), lambda: NodeVerdicts(plugin, state), 2 * size)
        part.node_rules.append((slot, entry))
        part.node_keys.append((slot, key))

    def _sort_score(
        self, part: _Part, place: int, plugin: ScorePlugin, weight: int, pod: PodInfo, cluster: Cluster
    ) -> None:
        outcome = plugin.pre_score(pod, cluster, NodeView(cluster.table, slice(0, 0)))
        if outcome.status.is_skip:
            return
        if not outcome.status.is_success:
            part.score_errors.append((place, outcome.status.of(plugin.name)))
            return
        key, state = plugin.score_key(pod), outcome.state
        if plugin.score_inputs is Inputs.ROW:
            part.row_scorers.append((place, (plugin, state, weight)))
            part.row_keys.append((plugin.name, key))
            return
        size = cluster.table.size
        entry = self._memo.get(("scores", place, key), lambda: NodeScores(plugin, state), 8 * size)
        part.node_scores.append((entry, weight))


@dataclass(frozen=True, slots=True)
class _Rules:
    """Filter rules with their slots, and score rules with their places and weights."""

    filters: list[tuple[Slot, FilterPlugin]]
    scores: list[tuple[int, ScorePlugin, int]]


def _bundle(shared: _Part, own: _Part) -> RowBundle:
    filters = sorted([*shared.row_filters, *own.row_filters], key=lambda rule: rule[0])
    scorers = sorted([*shared.row_scorers, *own.row_scorers], key=lambda scorer: scorer[0])
    return RowBundle(tuple(filters), tuple(scorer for _, scorer in scorers))


def _is_local(plugin: ScorePlugin) -> bool:
    """Whether raw scores are kept: NODE rules, and ROW rules whose scores can be added up without normalisation."""
    inputs = plugin.score_inputs
    return inputs is Inputs.NODE or (inputs is Inputs.ROW and not plugin.normalizes)


def _lets_pass(result: PreFilterResult) -> bool:
    return result.node_names is None and result.status.code in {Code.SUCCESS, Code.SKIP}
