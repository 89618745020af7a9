"""The rule memo: what rules found for nodes is kept, and only what changed is computed again.

Three kinds of entries, all filled lazily:

* `NodeVerdicts` and `NodeScores`, per (rule, key), for rules that read only the node. Valid until a node changes.
* `NodeMask`, per set of such verdicts: which rows all of them let pass.
* `RowBundle`, per set of (rule, key) of rules that read a node and its pods: the first rejecting rule of each row, and
  the weighted sum of the scores that need no normalisation. Valid row by row until the row changes.

With the memo switched off every cycle starts with new entries; decisions are the same (tests/scheduler/test_memo.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.flags import all_true, any_true
from stowplan_scheduler.cache.node_info import Amounts
from stowplan_scheduler.cache.node_table import Bools, Int64s, NodeTable
from stowplan_scheduler.cache.node_view import NodeView, Rows

from .interface import MAX_NODE_SCORE, FilterPlugin, ReasonIds, ScorePlugin, Scores

Int32s = NDArray[np.int32]
A = TypeVar("A", ReasonIds, Scores)

MAX_MEMO_BYTES = 64 << 20
"""Bound of one profile's memo. A bundle takes 13 bytes per node: 1,000 pod shapes at 5,000 nodes."""

_FEW_ROWS = 8
"""Of so many rows the answers are recalled one by one; for more, one computation for all is the shorter way."""

_MOST_KNOWN = 96
"""Amounts of which a bundle remembers the answer; beyond that it starts anew. Some 50 kB, which the memo does
not count: only bundles that are used again and again come to it.
"""

REASON_BITS = 16
"""A verdict is `slot << REASON_BITS | reason id`; 0 means that every rule lets the row pass."""


class Entry(Protocol):
    """Anything the memo holds."""

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""


class _PerNode(Generic[A]):
    """One number per row that depends on the row's node alone."""

    __slots__ = ("_layout", "_version", "values")

    def __init__(self, empty: A) -> None:
        """Nothing computed yet."""
        self.values: A = empty
        self._version = -1
        self._layout = -1

    def follow(self, table: NodeTable, compute: Callable[[NodeView], A]) -> None:
        """Compute the rows whose node changed since the last time."""
        if self._layout != table.layout:
            self.values = compute(NodeView(table, slice(0, table.size)))
        else:
            rows = (table.node_stamp > self._version).nonzero()[0]
            self.values[rows] = compute(NodeView(table, rows))
        self._version, self._layout = table.node_version, table.layout

    @property
    def nbytes(self) -> int:
        """Memory of the array, in bytes."""
        return int(self.values.nbytes)


class NodeVerdicts(_PerNode[ReasonIds]):
    """Reason ids of one NODE filter rule with one key, for every row."""

    __slots__ = ("all_pass", "plugin", "state")

    def __init__(self, plugin: FilterPlugin, state: object) -> None:
        """Nothing computed yet."""
        super().__init__(np.zeros(0, np.int16))
        self.plugin = plugin
        self.state = state
        self.all_pass = True

    def refresh(self, table: NodeTable) -> None:
        """Follow the nodes' changes."""
        if self._version != table.node_version:
            self.follow(table, lambda view: self.plugin.filter(self.state, view))
            self.all_pass = not any_true(self.values)


class NodeScores(_PerNode[Scores]):
    """Raw scores of one NODE score rule with one key; `uniform` is the final score if all raw ones are equal."""

    __slots__ = ("plugin", "state", "uniform")

    def __init__(self, plugin: ScorePlugin, state: object) -> None:
        """Nothing computed yet."""
        super().__init__(np.zeros(0, np.int64))
        self.plugin = plugin
        self.state = state
        self.uniform: int | None = None

    def refresh(self, table: NodeTable) -> None:
        """Follow the nodes' changes."""
        if self._version == table.node_version:
            return
        self.follow(table, lambda view: self.plugin.score(self.state, view))
        raw = self.values
        self.uniform = None
        if len(raw) and (raw == raw[0]).all():
            self.uniform = int(self.plugin.normalize(self.state, raw[:1].copy(), None)[0])


class NodeMask:
    """Which rows pass all of some NODE rules; `passing` is None if every row does. `version`: that of the nodes."""

    __slots__ = ("passing", "verdicts", "version")

    def __init__(self, verdicts: tuple[NodeVerdicts, ...]) -> None:
        """Join the verdicts of these rules."""
        self.verdicts = verdicts
        self.passing: Bools | None = None
        self.version = -1

    def refresh(self, table: NodeTable) -> None:
        """Follow the nodes' changes."""
        if self.version == table.node_version:
            return
        passing: Bools | None = None
        for verdict in self.verdicts:
            verdict.refresh(table)
            if not verdict.all_pass:
                ok = verdict.values == 0
                passing = ok if passing is None else passing & ok
        self.passing = passing
        self.version = table.node_version

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return 0 if self.passing is None else self.passing.nbytes


class RowBundle:
    """ROW rules of one set of keys: `verdicts` (see REASON_BITS) and pre-summed weighted `scores` per row.

    `filters` holds (slot, plugin, state): the slot is the place of the rule among all filter rules, plus one.
    `scorers` holds (plugin, state, weight). `is_complete`: every row is valid. `version` moves with the verdicts.
    """

    __slots__ = (
        "_known",
        "_layout",
        "_position",
        "_touched",
        "_valid",
        "filters",
        "is_complete",
        "out_of_range",
        "scorers",
        "scores",
        "verdicts",
        "version",
    )

    def __init__(
        self,
        filters: tuple[tuple[int, FilterPlugin, object], ...],
        scorers: tuple[tuple[ScorePlugin, object, int], ...],
    ) -> None:
        """Nothing computed yet."""
        self.filters = filters
        self.scorers = scorers
        self.out_of_range = False
        """Some score that was added up is not in 0..100: whoever reads sums must look at each."""
        self.version = 0
        self.is_complete = False
        self._layout = -1
        self._position = 0
        self._touched = False
        self.verdicts: Int32s = np.zeros(0, np.int32)
        self.scores: Int64s = np.zeros(0, np.int64)
        self._valid: Bools = np.zeros(0, np.bool_)
        by_amounts = all(p.filter_by_amounts for _, p, _ in filters) and all(p.score_by_amounts for p, _, _ in scorers)
        self._known: dict[Amounts, tuple[int, int]] | None = {} if by_amounts else None
        """Verdict and score of nodes with these amounts, where nothing else is read: nodes that fill up alike pass
        through the same few states, and one row costs as many array operations as a thousand."""

    def refresh(self, table: NodeTable) -> None:
        """Follow the rows that changed since the last time."""
        log = table.rows
        if self._layout == table.layout:
            if self._position == log.end:
                return
            stale = log.since(self._position)
            if stale is None:
                self._valid[:] = False
                self.is_complete = False
            elif self._touched:
                self._changed(table, stale if len(stale) == 1 else list(dict.fromkeys(stale)))
        else:
            self.verdicts = np.zeros(table.size, np.int32)
            self.scores = np.zeros(table.size, np.int64)
            self._valid = np.zeros(table.size, np.bool_)
            self._layout = table.layout
            self._touched = self.is_complete = False
            self.version += 1
        self._position = log.end

    def _changed(self, table: NodeTable, stale: list[int]) -> None:
        """Recall the answers for these rows by their amounts; what is not known is computed, at once or when asked."""
        if self._known is not None and len(stale) <= _FEW_ROWS:
            stale = [row for row in stale if not self._recall(self._known, table, row)]
            if not stale:
                return
        if self.is_complete:
            self._compute(table, np.array(stale, np.intp))
        else:
            self._valid[stale] = False

    def _recall(self, known: dict[Amounts, tuple[int, int]], table: NodeTable, row: int) -> bool:
        answer = known.get(table.infos[row].amounts)
        if answer is None:
            return False
        verdict, score = answer
        if self.verdicts[row] != verdict:
            self.verdicts[row] = verdict
            self.version += 1
        self.scores[row] = score
        self._valid[row] = True
        return True

    def ensure(self, table: NodeTable, rows: Rows) -> None:
        """Compute those of `rows` that are not valid; call `refresh` first."""
        if self.is_complete:
            return
        valid = self._valid[rows]
        if all_true(valid):
            return
        if not self._touched and isinstance(rows, slice):
            self._compute(table, rows)
        elif isinstance(rows, slice):
            self._compute(table, (~valid).nonzero()[0] + rows.start)
        else:
            self._compute(table, rows[~valid])
        self.is_complete = all_true(self._valid)

    def _compute(self, table: NodeTable, rows: Rows) -> None:
        view, known = NodeView(table, rows), self._known
        # A shape of pod that never comes again need not be remembered: its bundle is filled once.
        is_worth_knowing = known is not None and self._touched and view.size <= _FEW_ROWS
        self.verdicts[rows] = self.judge(view)
        if self.scorers:
            self.scores[rows] = self.sum_scores(view)
        self._valid[rows] = True
        self._touched = True
        self.version += 1
        if known is not None and is_worth_knowing:
            if len(known) > _MOST_KNOWN:
                known.clear()
            for row in view.row_numbers().tolist():
                known[table.infos[row].amounts] = int(self.verdicts[row]), int(self.scores[row])

    def judge(self, view: NodeView) -> Int32s:
        """The verdict of each row of a view, hypothetical ones included."""
        verdicts: Int32s | None = None
        for slot, plugin, state in self.filters:
            codes = plugin.filter(state, view)
            if not any_true(codes):
                continue
            found = np.where(codes != 0, codes.astype(np.int32) | (slot << REASON_BITS), np.int32(0))
            verdicts = found if verdicts is None else np.where(verdicts == 0, found, verdicts)
        return np.zeros(view.size, np.int32) if verdicts is None else verdicts

    def sum_scores(self, view: NodeView) -> Int64s:
        """Weighted sum of the raw scores of each row of a view."""
        total: Int64s | None = None
        for plugin, state, weight in self.scorers:
            raw = plugin.score(state, view)
            if not plugin.in_range and view.size and not 0 <= raw.min() <= raw.max() <= MAX_NODE_SCORE:
                self.out_of_range = True
            if weight != 1:
                raw = raw * weight
            total = raw if total is None else total + raw
        return np.zeros(view.size, np.int64) if total is None else total

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.verdicts.nbytes + self.scores.nbytes + self._valid.nbytes


E = TypeVar("E", bound=Entry)


class Memo:
    """Entries by key, bounded in bytes; the longest unused go first."""

    __slots__ = ("_entries", "_used", "enabled", "max_bytes")

    def __init__(self, *, enabled: bool = True, max_bytes: int = MAX_MEMO_BYTES) -> None:
        """An empty memo; switched off, it makes a new entry each time it is asked."""
        self.enabled = enabled
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, tuple[Entry, int]] = OrderedDict()
        self._used = 0

    def get(self, key: Hashable, make: Callable[[], E], size: int) -> E:
        """The entry of that key; made on first use, `size` bytes are charged for it."""
        if not self.enabled:
            return make()
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            return found[0]  # type: ignore[return-value]  # keys start with the kind of entry
        entry = make()
        self._entries[key] = (entry, size)
        self._used += size
        while self._used > self.max_bytes and len(self._entries) > 1:
            _, (_, freed) = self._entries.popitem(last=False)
            self._used -= freed
        return entry

    @property
    def nbytes(self) -> int:
        """Memory charged so far, in bytes."""
        return self._used

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)
