"""The runtime of one profile: its plugins at their extension points, and one scheduling decision with them.

Follows pkg/scheduler/framework/runtime/framework.go and schedulePod in pkg/scheduler/schedule_one.go of Kubernetes
v1.37.2. Extenders and opportunistic batching (inert with the default profile) are not part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np

from stowplan_scheduler.cache.node_view import NodeView

from .cycle_state import CycleState
from .diagnosis import NO_NODES, Diagnosis, FitError, SchedulingError, Verdicts, distinct, verdict_status
from .interface import (
    BindPlugin,
    FilterPlugin,
    Inputs,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from .memo import Memo
from .plan import Plan, Planner
from .scoring import total_scores
from .search import Found, Nominations, RowArray, Search, nodes_to_find
from .selection import HeapOrder, Rng, TieBreak, choose
from .status import SUCCESS, Code, Status, unresolvable

if TYPE_CHECKING:
    from stowplan_scheduler.config import EffectiveProfile
    from stowplan_scheduler.preemption.executor import PreemptionExecutor

    from .cluster import Cluster
    from .pod_info import PodInfo

P = TypeVar("P")


class Decision(msgspec.Struct, frozen=True):
    """Where the pod goes, and how it came about."""

    node_name: str
    row: int
    evaluated_nodes: int
    feasible_nodes: int
    ties: int
    """How many nodes had the best total; 1 where nothing was scored."""
    state: CycleState


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """status of RunPreFilterPlugins; `node_names` None: all nodes; `plugins`: those that restricted the nodes."""

    status: Status
    node_names: frozenset[str] | None
    plugins: frozenset[str]


@runtime_checkable
class Preempts(Protocol):
    """A PostFilter plugin whose victims are deleted in the background."""

    executor: PreemptionExecutor


class NoNodesError(SchedulingError):
    """There is no node at all (upstream ErrNoNodesAvailable)."""


class RuleBroke(SchedulingError):  # noqa: N818 - says what happened
    """A filter rule failed on the node in `row` for another reason than the pod's not fitting there."""

    def __init__(self, status: Status, row: int) -> None:
        super().__init__(f'running "{status.plugin}" filter plugin: {status.message}')
        self.row = row


class Profile:
    """The plugins of one profile, by extension point, and the numbers that go with them."""

    def __init__(
        self,
        scheduler_name: str,
        points: Mapping[str, Sequence[str]],
        plugins: Mapping[str, Plugin],
        weights: Mapping[str, int],
        percentage: int,
        *,
        memo: Memo | None = None,
        made_of: EffectiveProfile | None = None,
    ) -> None:
        """`points` maps a configuration's extension point names (preFilter, ...) to plugin names in order.

        `percentage` is percentageOfNodesToScore, 0 for adaptive. `made_of`: the part of a configuration behind it.
        """
        self.scheduler_name = scheduler_name
        self.made_of = made_of
        self.percentage = percentage
        self.memo = Memo() if memo is None else memo
        self._plugins = dict(plugins)
        self._points = points
        self.pre_enqueue = self._at("preEnqueue", PreEnqueuePlugin)
        self.queue_sort = self._at("queueSort", QueueSortPlugin)[0]
        self.pre_filters = self._at("preFilter", FilterPlugin)
        self._asked = tuple(p for p in self.pre_filters if p.filter_inputs is Inputs.CLUSTER)
        self.filters = self._at("filter", FilterPlugin)
        self.post_filters = self._at("postFilter", PostFilterPlugin)
        self.preempting = tuple(plugin for plugin in self.post_filters if isinstance(plugin, Preempts))
        self.preemption: PreemptionExecutor | None = next((plugin.executor for plugin in self.preempting), None)
        self.scores = tuple((plugin, weights[plugin.name]) for plugin in self._at("score", ScorePlugin))
        self.reserve = self._at("reserve", ReservePlugin)
        self.permit = self._at("permit", PermitPlugin)
        self.pre_bind = self._at("preBind", PreBindPlugin)
        self.bind = self._at("bind", BindPlugin)
        self.post_bind = self._at("postBind", PostBindPlugin)
        self._planner = Planner(self.pre_filters, self.filters, self.scores, self.memo)
        self._reasons = [plugin.reasons for plugin in self.filters]
        self._heap_order = HeapOrder()

    def _at(self, point: str, kind: type[P]) -> tuple[P, ...]:
        """Plugins of one point that have something of their own to do there."""
        found = (self._plugins[name] for name in self._points.get(point, ()) if name in self._plugins)
        return tuple(plugin for plugin in found if isinstance(plugin, kind))

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """All plugins by name."""
        return self._plugins

    def plan(self, pod: PodInfo, cluster: Cluster) -> Plan:
        """What this profile does for such a pod."""
        return self._planner.plan(pod, cluster)

    # ---- PreFilter ---------------------------------------------------------------------------

    def run_pre_filter(self, pod: PodInfo, plan: Plan, state: CycleState, cluster: Cluster) -> PreFilterOutcome:
        """All PreFilter plugins; fills `state.filters` for the rules that are asked in every cycle."""
        if plan.simple and self._ask_cluster_rules(pod, plan, state, cluster):
            return _NOTHING_SAID
        names: frozenset[str] | None = None
        said: list[str] = []
        state.said = said
        restricting: list[str] = []
        rejected: Status | None = None
        for plugin in self.pre_filters:
            result = plan.result(plugin)
            if result is None:
                result = plugin.pre_filter(pod, cluster)
                if result.status.is_success:
                    state.filters[plugin.name] = result.state
            status = result.status
            if status.is_skip:
                continue
            said.append(plugin.name)
            if not status.is_success:
                if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    state.not_asked = _names_after(self.pre_filters, plugin)
                    return PreFilterOutcome(status.of(plugin.name), None, frozenset())
                if status.code is Code.UNSCHEDULABLE:
                    rejected = status.of(plugin.name)
                    continue
                raise SchedulingError(f'running PreFilter plugin "{plugin.name}": {status.message}')
            if result.node_names is None:
                continue
            restricting.append(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                state.not_asked = _names_after(self.pre_filters, plugin)
                return PreFilterOutcome(_empty_set(restricting), names, frozenset(restricting))
        return PreFilterOutcome(rejected or SUCCESS, names, frozenset(restricting))

    def _ask_cluster_rules(self, pod: PodInfo, plan: Plan, state: CycleState, cluster: Cluster) -> bool:
        """PreFilter where the pod alone raises no objection: only the rules that are asked in every cycle remain.

        False if one of them objects; the whole sequence is then run for its exact outcome.
        """
        for plugin in self._asked:
            result = plugin.pre_filter(pod, cluster)
            code = result.status.code
            if code is Code.SKIP:
                continue
            if code is not Code.SUCCESS or result.node_names is not None:
                state.filters.clear()
                return False
            state.filters[plugin.name] = result.state
        return True

    # ---- one decision ------------------------------------------------------------------------

    def search(
        self, pod: PodInfo, state: CycleState, cluster: Cluster, nominations: Nominations
    ) -> tuple[Search, PreFilterOutcome]:
        """PreFilter, and a search that is ready to run."""
        plan = self.plan(pod, cluster)
        outcome = self.run_pre_filter(pod, plan, state, cluster)
        return Search(pod, plan, state, cluster, nominations), outcome

    def schedule(
        self,
        pod: PodInfo,
        cluster: Cluster,
        nominations: Nominations,
        start: int,
        tie_break: TieBreak,
        rng: Rng,
    ) -> tuple[Decision | FitFailure, int]:
        """Decide for one pod; returns the decision and the next start index. Raises SchedulingError, which has it too.

        Upstream schedulePod with findNodesThatFitPod.
        """
        table = cluster.table
        if not table.size:
            raise NoNodesError(NO_NODES)
        state = CycleState()
        search, outcome = self.search(pod, state, cluster, nominations)
        if not outcome.status.is_success:
            return FitFailure(self._rejected(outcome, table.size), search, state), start
        diagnosis = Diagnosis(node_count=table.size, unschedulable_plugins=outcome.plugins)
        nominated = pod.pod.status.nominated_node_name
        if nominated and self._nominated_fits(search, nominated, diagnosis):
            row = table.row_of[nominated]
            return Decision(nominated, row, 1, 1, 1, state), start
        candidates = None
        if outcome.node_names is not None:
            rows = [table.row_of[name] for name in outcome.node_names if name in table.row_of]
            candidates = np.array(sorted(rows), np.intp)
            # Upstream prints the set of rejectors as it is by now: those of a failed nominated node are in it.
            listed = " ".join(sorted(diagnosis.unschedulable_plugins))
            diagnosis.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}]")
        found = self._find(search, candidates, start)
        if found.count == 0 or len(diagnosis.rows) or (found.failed_count and self._may_break()):
            try:
                self._diagnose(diagnosis, search, found, candidates)
            except RuleBroke as failure:
                failure.next_start = (start + _visited_before(failure.row, diagnosis, candidates, start)) % table.size
                raise
            failed = len(diagnosis.rows)
        else:
            # Nobody asks why nodes failed if others fit.
            failed = found.failed_count
        self._searched(search, found, diagnosis, table.size if candidates is None else len(candidates))
        start = (start + found.count + failed) % table.size
        if found.count == 0:
            return FitFailure(diagnosis, search, state), start
        try:
            return self._select(search, found, failed, state, tie_break, rng), start
        except SchedulingError as failure:
            failure.next_start = start
            raise

    def _find(self, search: Search, candidates: RowArray | None, start: int) -> Found:
        count = search.cluster.table.size if candidates is None else len(candidates)
        want = nodes_to_find(count, self.percentage) if self.scores else 1
        return search.find(candidates, start, want)

    def _nominated_fits(self, search: Search, name: str, diagnosis: Diagnosis) -> bool:
        """Try the nominated node alone; if it fails its status stays in the diagnosis."""
        row = search.cluster.table.row_of.get(name)
        if row is None:
            return False
        alone = np.array([row], np.intp)
        found = search.find(alone, 0, 1)
        if not found.count:
            with suppress(RuleBroke):
                # Upstream logs the error of this one node and goes on with the normal search.
                self._diagnose(diagnosis, search, found, alone)
        self._searched(search, found, diagnosis, 1)
        return found.count > 0

    def _searched(self, search: Search, found: Found, diagnosis: Diagnosis, candidates: int) -> None:
        """A search among so many candidates has ended, and if anything was asked, why nodes failed. For measuring."""

    def _may_break(self) -> bool:
        """Whether some filter rule has ever failed on a node; that must be seen even if other nodes fit."""
        return any(reasons.has_errors for reasons in self._reasons)

    def _diagnose(self, diagnosis: Diagnosis, search: Search, found: Found, candidates: RowArray | None) -> None:
        """Add failed nodes to the diagnosis; raises RuleBroke for the first visited node on which a rule broke.

        Where every row failed, and single nodes alone decided that, the next pod for which nothing else counts fails
        just so.
        """
        if not found.failed_count:
            return
        is_plain = candidates is None and not found.count and search.fitting() is not None
        known = search.plan.fitting.refused if is_plain else None
        if known is None:
            known = self._verdicts(search, found.failed)
            if is_plain:
                search.plan.fitting.refused = known
        diagnosis.add(known)

    def _verdicts(self, search: Search, failed: RowArray) -> Verdicts:
        """What the rules say of rows that failed. Raises RuleBroke."""
        verdicts = search.verdicts(failed)
        statuses = {verdict: verdict_status(verdict, self._reasons) for verdict in distinct(verdicts)}
        broken = [verdict for verdict, status in statuses.items() if status.code is Code.ERROR]
        if broken:
            first = int(np.flatnonzero(np.isin(verdicts, broken))[0])
            raise RuleBroke(statuses[int(verdicts[first])], int(failed[first]))
        return Verdicts(failed, verdicts, statuses)

    def _rejected(self, outcome: PreFilterOutcome, node_count: int) -> Diagnosis:
        status = outcome.status
        plugins = outcome.plugins | ({status.plugin} if status.plugin else frozenset())
        return Diagnosis(
            node_count=node_count,
            absent=status,
            pre_filter_message=status.message,
            unschedulable_plugins=plugins,
        )

    def _select(
        self,
        search: Search,
        found: Found,
        failed: int,
        state: CycleState,
        tie_break: TieBreak,
        rng: Rng,
    ) -> Decision:
        rows, table = found.rows, search.cluster.table
        index, ties = 0, 1
        if found.count > 1:
            view = NodeView(table, rows)
            totals = self._totals(search, view)
            index, ties = choose(totals, found.shift, tie_break, self._heap_order, rng)
        row = rows.start + index if isinstance(rows, slice) else int(rows[index])
        name = table.infos[row].name
        return Decision(name, row, found.count + failed, found.count, ties, state)

    def _totals(self, search: Search, view: NodeView) -> Scores:
        """What the feasible nodes are worth; see `total_scores`."""
        return total_scores(search.plan, search.pod, search.cluster, view)

    def status(self, verdict: int) -> Status:
        """The Status behind a verdict; success for 0."""
        return verdict_status(verdict, self._reasons) if verdict else SUCCESS


class FitFailure(msgspec.Struct, frozen=True):
    """The pod fits nowhere; PostFilter goes on from here."""

    diagnosis: Diagnosis
    search: Search
    state: CycleState

    def error(self) -> FitError:
        """The error users see."""
        return FitError(self.diagnosis)


_NOTHING_SAID = PreFilterOutcome(SUCCESS, None, frozenset())


def _visited_before(row: int, diagnosis: Diagnosis, candidates: RowArray | None, start: int) -> int:
    """How many nodes had a verdict when the search came to `row`, a failed nominated node among them."""
    if candidates is None:
        order = (np.arange(diagnosis.node_count) + start) % diagnosis.node_count
    else:
        order = np.roll(candidates, -(start % len(candidates)))
    visited = order[: int(np.flatnonzero(order == row)[0])]
    return len(visited) + int(np.count_nonzero(~np.isin(diagnosis.rows, visited)))


def _names_after(pre_filters: Sequence[FilterPlugin], plugin: FilterPlugin) -> frozenset[str]:
    names = [other.name for other in pre_filters]
    return frozenset(names[names.index(plugin.name) + 1 :])


def _empty_set(plugins: Sequence[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously")


__all__ = ["Decision", "FitFailure", "NoNodesError", "PreFilterOutcome", "Profile"]
