"""The node search: which nodes are visited, which of them fit, and why the others do not.

Nodes are visited in snapshot order from a rotating start until one more feasible node than wanted is found (upstream
cancels its workers when it sees that node), or all have been visited. Follows findNodesThatFitPod and
findNodesThatPassFilters in pkg/scheduler/schedule_one.go of Kubernetes v1.37.2, as they behave with one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.flags import all_true, any_true
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.cache.node_table import Bools, Int32s
from stowplan_scheduler.cache.node_view import NodeView, Rows

from .cycle_state import CycleState
from .interface import FilterPlugin
from .memo import REASON_BITS

if TYPE_CHECKING:
    from .cluster import Cluster
    from .plan import Plan
    from .pod_info import PodInfo

RowArray = NDArray[np.intp]

_SMALLEST_PIECE = 64


class Nominations(Protocol):
    """What the search asks the nominator."""

    def nominated_nodes(self) -> Sequence[str]:
        """Names of the nodes that pods are nominated to, in a fixed order."""

    def nominated_pods_for_node(self, node: str) -> Sequence[PodInfo]:
        """The pods nominated to a node, in order of nomination."""


def nodes_to_find(count: int, percentage: int) -> int:
    """How many feasible nodes are enough among `count` (upstream numFeasibleNodesToFind); 0 percent: adaptive."""
    if count < 100:
        return count
    if percentage == 0:
        percentage = max(5, 50 - count // 125)
    return max(100, count * percentage // 100)


class Found:
    """Feasible rows, how many of them, and how many of the visited rows failed.

    `rows` is in row order where `shift` > 0: the first visited row is then rows[shift], and so on around.
    """

    __slots__ = ("_failed", "count", "failed_count", "rows", "shift")

    def __init__(
        self, rows: Rows, count: int, shift: int, failed_count: int, failed: RowArray | Callable[[], RowArray]
    ) -> None:
        self.rows = rows
        self.count = count
        self.shift = shift
        self.failed_count = failed_count
        self._failed = failed

    @property
    def failed(self) -> RowArray:
        """The visited rows that failed, in visiting order; few ask for them."""
        if callable(self._failed):
            self._failed = self._failed()
        return self._failed


_NO_ROWS: RowArray = np.zeros(0, np.intp)

HypothesesSink = Callable[["Search", RowArray, Sequence[NodeInfo], Sequence[CycleState], Int32s], None]


class Search:
    """One pod against one snapshot: the rules of its plan with their states."""

    __slots__ = ("_nominated", "_nominations", "cluster", "filters", "on_hypotheses", "plan", "pod", "state")

    def __init__(self, pod: PodInfo, plan: Plan, state: CycleState, cluster: Cluster, nominations: Nominations) -> None:
        """`state.filters` holds the states of the CLUSTER rules that PreFilter did not skip."""
        self.pod = pod
        self.plan = plan
        self.state = state
        self.cluster = cluster
        self._nominations = nominations
        self._nominated: RowArray | None = None
        self.on_hypotheses: HypothesesSink | None = None
        """Told the arguments and the outcome of `hypothetical`, for those who count."""
        self.filters: tuple[tuple[int, FilterPlugin], ...] = ()
        if state.filters:
            self.filters = tuple(step for step in plan.cluster_filters if step[1].name in state.filters)
        table = cluster.table
        plan.mask.refresh(table)
        plan.bundle.refresh(table)

    # ---- nodes as they are -------------------------------------------------------------------

    def passing(self, rows: Rows) -> Bools:
        """Which of the rows pass every filter, nominated pods considered."""
        plan, table = self.plan, self.cluster.table
        plan.bundle.ensure(table, rows)
        passing: Bools = plan.bundle.verdicts[rows] == 0
        if plan.mask.passing is not None:
            passing &= plan.mask.passing[rows]
        if self.filters:
            view = NodeView(table, rows)
            for _, plugin in self.filters:
                passing &= plugin.filter(self.state.filters[plugin.name], view) == 0
        for index, row in self._nominated_among(rows):
            passing[index] = self.verdict(row, self.cluster.table.infos[row], self.state) == 0
        return passing

    def verdicts(self, rows: RowArray) -> Int32s:
        """The verdict of each row (see memo.REASON_BITS), nominated pods considered."""
        verdicts = self._judge(rows, None, None)
        for index, row in self._nominated_among(rows):
            verdicts[index] = self.verdict(row, self.cluster.table.infos[row], self.state)
        return verdicts

    def _nominated_rows(self) -> RowArray:
        """The rows with nominated pods that this pod must yield to, ascending."""
        nominated = self._nominated
        if nominated is None:
            nominated, row_of = _NO_ROWS, self.cluster.table.row_of
            names = self._nominations.nominated_nodes()
            if names:
                found = [row_of[name] for name in names if name in row_of and self._yields_to(name)]
                nominated = np.array(sorted(found), np.intp)
            self._nominated = nominated
        return nominated

    def _nominated_among(self, rows: Rows) -> list[tuple[int, int]]:
        """(index, row) of those rows with nominated pods that this pod must yield to."""
        nominated = self._nominated_rows()
        if not len(nominated):
            return []
        if isinstance(rows, slice):
            return [(int(r) - rows.start, int(r)) for r in nominated if rows.start <= r < rows.stop]
        indexes = np.flatnonzero(np.isin(rows, nominated))
        return [(int(i), int(rows[i])) for i in indexes]

    def _yields_to(self, node: str) -> list[PodInfo]:
        priority, uid = self.pod.priority, self.pod.uid
        pods = self._nominations.nominated_pods_for_node(node)
        return [p for p in pods if p.priority >= priority and p.uid != uid]

    # ---- nodes as they would be --------------------------------------------------------------

    def with_pods(
        self, state: CycleState, added: Sequence[PodInfo], removed: Sequence[PodInfo], node: NodeInfo
    ) -> CycleState:
        """The cycle state if pods were added to and removed from a node."""
        if not self.filters:
            return state
        changed: CycleState | None = None
        for _, plugin in self.filters:
            old = state.filters[plugin.name]
            new = plugin.with_pods(old, self.pod, added, removed, node)
            if new is not old:
                changed = changed or state.clone()
                changed.filters[plugin.name] = new
        return changed or state

    def verdict(self, row: int, info: NodeInfo, state: CycleState) -> int:
        """The verdict of one (changed) node: upstream RunFilterPluginsWithNominatedPods.

        If pods of at least this priority are nominated to the node it must fit with them and without them.
        """
        return self._with_nominated(row, info, state) or int(self._judge(np.array([row], np.intp), [info], [state])[0])

    def _with_nominated(self, row: int, info: NodeInfo, state: CycleState) -> int:
        """The verdict of a node with the pods that are nominated to it; 0 if there are none to yield to."""
        node = info.node
        nominated = self._yields_to(node.metadata.name) if node is not None else []
        if not nominated:
            return 0
        fuller = info.clone()
        for pod in nominated:
            fuller.add_pod(pod)
        with_them = self.with_pods(state, nominated, (), fuller)
        return int(self._judge(np.array([row], np.intp), [fuller], [with_them])[0])

    @property
    def yields(self) -> bool:
        """After a search: whether this pod must yield to nominated pods anywhere."""
        return self._nominated is not None and len(self._nominated) > 0

    def first_passes(
        self, rows: RowArray, infos: Sequence[NodeInfo] | None, states: Sequence[CycleState] | None
    ) -> list[int]:
        """The verdicts, nominated pods included, of those of the (changed) nodes where this pod must yield to some."""
        table = self.cluster.table
        return [
            self._with_nominated(
                row,
                table.infos[row] if infos is None else infos[index],
                self.state if states is None else states[index],
            )
            for index, row in self._nominated_among(rows)
        ]

    def hypothetical(self, rows: RowArray, infos: Sequence[NodeInfo], states: Sequence[CycleState]) -> Int32s:
        """Verdicts of many changed nodes at once; `states` holds one cycle state per node."""
        verdicts = self._judge(rows, infos, states)
        for index, row in self._nominated_among(rows):
            verdicts[index] = self.verdict(row, infos[index], states[index])
        if self.on_hypotheses is not None:
            self.on_hypotheses(self, rows, infos, states, verdicts)
        return verdicts

    def _judge(self, rows: RowArray, infos: Sequence[NodeInfo] | None, states: Sequence[CycleState] | None) -> Int32s:
        """First rejecting rule of each row, in the profile's order."""
        plan, table = self.plan, self.cluster.table
        view = NodeView(table, rows, infos)
        if infos is None:
            plan.bundle.ensure(table, rows)
            verdicts = plan.bundle.verdicts[rows].copy()
        else:
            verdicts = plan.bundle.judge(view).copy()
        for slot, rule in plan.node_rules:
            rule.refresh(table)
            if not rule.all_pass:
                _take_earlier(verdicts, slot, rule.values[rows])
        for slot, plugin in self.filters:
            if states is None:
                codes = plugin.filter(self.state.filters[plugin.name], view)
            else:
                codes = _each_with_its_state(plugin, states, view)
            _take_earlier(verdicts, slot, codes)
        return verdicts

    # ---- the search --------------------------------------------------------------------------

    def find(self, candidates: RowArray | None, start: int, want: int) -> Found:
        """Visit the candidates (None: every row) from index `start` (modulo their number) on."""
        count = self.cluster.table.size if candidates is None else len(candidates)
        if not count:
            return Found(_NO_ROWS, 0, 0, 0, _NO_ROWS)
        start %= count
        fitting = self.fitting() if candidates is None else None
        if want >= count:
            return self._find_all(candidates, start, count) if fitting is None else _all_known(fitting, start, count)
        if fitting is not None:
            return self._some_known(fitting, start, count, want)
        return self._find_some(candidates, start, count, want)

    def fitting(self) -> RowArray | None:
        """The rows that pass, where NODE and ROW rules alone decide and have seen every row; else None."""
        return None if self.filters or len(self._nominated_rows()) else self.plan.fitting.rows()

    def _some_known(self, fitting: RowArray, start: int, count: int, want: int) -> Found:
        """What `_find_some` finds, read off the rows that fit."""
        size = len(fitting)
        first = int(fitting.searchsorted(start))
        if size <= want:
            found, visited = size, count
            rows = fitting if first in {0, size} else np.concatenate((fitting[first:], fitting[:first]))
        else:
            # The row after the wanted ones ends the search; it is not among those visited.
            found, last = want, first + want
            if last < size:
                rows, visited = fitting[first:last], int(fitting[last]) - start
            else:
                last -= size
                visited = count - start + int(fitting[last])
                rows = np.concatenate((fitting[first:], fitting[:last])) if last else fitting[first:]
        self.plan.visited = visited
        return Found(_shortened(rows), found, 0, visited - found, lambda: _others(fitting, start, visited, count))

    def _find_all(self, candidates: RowArray | None, start: int, count: int) -> Found:
        rows: Rows = slice(0, count) if candidates is None else candidates
        passing = self.passing(rows)
        if all_true(passing):
            return Found(rows, count, start, 0, _NO_ROWS)
        indexes = passing.nonzero()[0]
        others = np.concatenate((np.arange(start, count), np.arange(start)))
        others = others[~passing[others]]
        shift = int(np.searchsorted(indexes, start)) if len(indexes) else 0
        if candidates is not None:
            indexes, others = candidates[indexes], candidates[others]
        return Found(indexes, len(indexes), shift % max(1, len(indexes)), len(others), others)

    def _find_some(self, candidates: RowArray | None, start: int, count: int, want: int) -> Found:
        pieces: list[Rows] = []
        failed: list[RowArray] = []
        found, position, left = 0, start, count
        # Looking at some rows too many costs less than a second look.
        size = max(want + 1, self.plan.visited)
        while left and found <= want:
            size = min(size, left, count - position)
            rows: Rows = slice(position, position + size)
            if candidates is not None:
                rows = candidates[rows]
            passing = self.passing(rows)
            hits = int(np.count_nonzero(passing))
            if hits == size and found + hits <= want:
                pieces.append(rows)
            else:
                indexes = passing.nonzero()[0]
                visited = size
                if found + hits > want:
                    visited = int(indexes[want - found])
                    indexes = indexes[: want - found]
                pieces.append(_pick(rows, indexes, visited if len(indexes) == visited else -1))
                if len(indexes) < visited:
                    failed.append(_pick_array(rows, np.flatnonzero(~passing[:visited])))
            found += hits
            left -= size
            position = (position + size) % count
            size = max(want + 1 - found, _SMALLEST_PIECE, count - left)
        rows = pieces[0] if len(pieces) == 1 else _join([as_array(piece) for piece in pieces])
        self.plan.visited = count - left
        missed = _join(failed)
        return Found(rows, min(found, want), 0, len(missed), missed)


def _all_known(fitting: RowArray, start: int, count: int) -> Found:
    """What `_find_all` finds, read off the rows that fit."""
    size = len(fitting)
    if size == count:
        return Found(slice(0, count), count, start, 0, _NO_ROWS)
    shift = int(fitting.searchsorted(start)) % max(1, size)
    return Found(fitting, size, shift, count - size, lambda: _others(fitting, start, count, count))


def _others(fitting: RowArray, start: int, visited: int, count: int) -> RowArray:
    """Those of the `visited` rows from `start` on that do not fit."""
    order = np.arange(start, start + visited) % count
    fits = np.zeros(count, np.bool_)
    fits[fitting] = True
    return order[~fits[order]]


def _shortened(rows: RowArray) -> Rows:
    """Rows that follow each other as a slice: reading columns is then cheaper."""
    size = len(rows)
    if size and int(rows[-1]) - int(rows[0]) == size - 1:
        first = int(rows[0])
        return slice(first, first + size)
    return rows


def _take_earlier(verdicts: Int32s, slot: int, codes: NDArray[np.int16]) -> None:
    """Put the verdicts of the rule in `slot` where no rule before it has rejected."""
    if not any_true(codes):
        return
    earlier = (codes != 0) & ((verdicts == 0) | (verdicts >> REASON_BITS > slot))
    verdicts[earlier] = codes[earlier].astype(np.int32) | (slot << REASON_BITS)


def _each_with_its_state(plugin: FilterPlugin, states: Sequence[CycleState], view: NodeView) -> NDArray[np.int16]:
    name = plugin.name
    first = states[0].filters[name]
    if all(state.filters[name] is first for state in states):
        return plugin.filter(first, view)
    rows = view.row_numbers()
    codes = np.zeros(view.size, np.int16)
    for index, state in enumerate(states):
        one = NodeView(view.table, rows[index : index + 1], [view.info(index)])
        codes[index] = plugin.filter(state.filters[name], one)[0]
    return codes


def _pick(rows: Rows, indexes: RowArray, whole: int) -> Rows:
    """The rows at `indexes`; the first `whole` of them as a slice if that is what the indexes are."""
    if isinstance(rows, slice):
        return slice(rows.start, rows.start + whole) if whole >= 0 else indexes + rows.start
    return rows[indexes]


def _pick_array(rows: Rows, indexes: RowArray) -> RowArray:
    return indexes + rows.start if isinstance(rows, slice) else rows[indexes]


def as_array(rows: Rows) -> RowArray:
    """Row numbers, whatever they are given as."""
    return np.arange(rows.start, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows


def _join(parts: list[RowArray]) -> RowArray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else _NO_ROWS
