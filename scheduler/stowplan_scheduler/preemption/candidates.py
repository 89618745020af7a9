"""Candidate nodes: where preemption may help, how many of them are enough, and why the others do not help.

Follows findCandidates and DryRunPreemption of pkg/scheduler/framework/preemption/preemption.go,
NodesForStatusCode of framework/interface.go and calculateNumCandidates of plugins/defaultpreemption of Kubernetes
v1.37.2, as they behave with one worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from stowplan_scheduler.framework.diagnosis import Diagnosis, Verdicts
from stowplan_scheduler.framework.interface import FilterPlugin
from stowplan_scheduler.framework.memo import REASON_BITS
from stowplan_scheduler.framework.search import RowArray, Search
from stowplan_scheduler.framework.status import Code, Status, unresolvable

from .budgets import Budgets
from .choice import Candidate
from .lowest_priority import LowestPriorities
from .victims import DryRun, dry_runs

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL: Final = unresolvable("Preemption is not helpful for scheduling")

_NO_VICTIMS_VERDICT: Final = -1
_SMALLEST_CHUNK: Final = 32


def potential_nodes(diagnosis: Diagnosis) -> RowArray:
    """The rows whose status is Unschedulable, which removing pods may change, in snapshot order.

    Upstream takes them in the order of a map unless the status of absent nodes is Unschedulable.
    """
    resolvable = diagnosis.failed.resolvable()
    if diagnosis.absent.code is not Code.UNSCHEDULABLE:
        return resolvable
    chosen = np.ones(diagnosis.node_count, np.bool_)
    chosen[diagnosis.rows] = False
    chosen[resolvable] = True
    return np.flatnonzero(chosen)


def candidates_wanted(nodes: int, percentage: int, absolute: int) -> int:
    """How many candidates are enough among so many potential nodes."""
    return min(nodes, max(nodes * percentage // 100, absolute))


@lru_cache(maxsize=1024)
def hopeless_text(nodes: int, tried: int) -> str:
    """What `Outcome.diagnosis` says where nobody on the `tried` potential nodes is less important."""
    verdicts = np.full(tried, _NO_VICTIMS_VERDICT, np.int32)
    failed = Verdicts(np.arange(tried), verdicts, {_NO_VICTIMS_VERDICT: NO_VICTIMS})
    return Diagnosis(node_count=nodes, failed=failed, absent=NOT_HELPFUL).message()


@dataclass(slots=True)
class Outcome:
    """What the dry runs found.

    `candidates`: first those that violate no budget, each kind in visiting order. `rows` and `verdicts` are the visited
    nodes that are none, `statuses` says what the verdicts mean. `errors`: what broke, in visiting order.
    """

    candidates: list[Candidate] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    verdicts: list[int] = field(default_factory=list)
    statuses: dict[int, Status] = field(default_factory=lambda: {_NO_VICTIMS_VERDICT: NO_VICTIMS})
    errors: list[str] = field(default_factory=list)

    def diagnosis(self, node_count: int) -> Diagnosis:
        """Why there is no candidate; preemption does not help on nodes that were not tried."""
        rows, verdicts = np.array(self.rows, np.intp), np.array(self.verdicts, np.int32)
        return Diagnosis(node_count=node_count, failed=Verdicts(rows, verdicts, self.statuses), absent=NOT_HELPFUL)

    def error_text(self) -> str:
        """All different errors as one text (upstream's aggregate)."""
        texts = list(dict.fromkeys(self.errors))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


class CandidateSearch:
    """Visits potential nodes until there are enough candidates."""

    __slots__ = ("_budgets", "_lowest", "_outcome", "_plain", "_plugins", "_search", "_violating", "_wanted")

    def __init__(self, search: Search, budgets: Budgets, lowest: LowestPriorities, wanted: int) -> None:
        self._search = search
        self._budgets = budgets
        self._lowest = lowest
        self._wanted = wanted
        self._outcome = Outcome()
        self._plain: list[Candidate] = []
        self._violating: list[Candidate] = []
        self._plugins = _plugins_by_slot(search)

    def run(self, rows: RowArray) -> Outcome:
        """Visit the rows in order. Several nodes are tried at a time, yet none counts after the one that was enough."""
        outcome, position = self._outcome, 0
        while position < len(rows) and not self._is_enough():
            size = max(self._wanted - len(self._plain) - len(self._violating), _SMALLEST_CHUNK)
            self._visit(rows[position : position + size])
            position += size
        outcome.candidates = self._plain + self._violating
        return outcome

    def _is_enough(self) -> bool:
        return bool(self._plain) and len(self._plain) + len(self._violating) >= self._wanted

    def _visit(self, rows: RowArray) -> None:
        for row, result in zip(rows.tolist(), self._results(rows), strict=True):
            if result is None:
                self._reject(row, _NO_VICTIMS_VERDICT)
            elif result.verdict:
                self._fail(row, result.verdict)
            elif not result.victims:
                self._outcome.errors.append(f'expected at least one victim pod on node "{self._name(row)}"')
            else:
                self._add(result)
                if self._is_enough():
                    return

    def _results(self, rows: RowArray) -> Iterator[DryRun | None]:
        """The dry run of each row; None where there is nobody of lower priority."""
        search = self._search
        occupied = self._lowest.below(search.cluster.table, rows, search.pod.priority)
        tried = rows[occupied]
        results = iter(dry_runs(search, tried, self._budgets) if len(tried) else ())
        return (next(results) if has_victims else None for has_victims in occupied)

    def _reject(self, row: int, verdict: int) -> None:
        self._outcome.rows.append(row)
        self._outcome.verdicts.append(verdict)

    def _fail(self, row: int, verdict: int) -> None:
        statuses = self._outcome.statuses
        status = statuses.get(verdict)
        if status is None:
            reasons = self._plugins[verdict >> REASON_BITS].reasons.statuses
            status = statuses[verdict] = reasons[verdict & ((1 << REASON_BITS) - 1)]
        if status.code is Code.ERROR:
            self._outcome.errors.append(f'running "{status.plugin}" filter plugin: {status.message}')
        self._reject(row, verdict)

    def _add(self, result: DryRun) -> None:
        found = self._violating if result.violations else self._plain
        if len(found) < self._wanted:
            name = self._name(result.row)
            found.append(Candidate(result.row, name, tuple(result.victims), result.violations))

    def _name(self, row: int) -> str:
        return self._search.cluster.table.infos[row].name


def _plugins_by_slot(search: Search) -> dict[int, FilterPlugin]:
    """The filter rules that a verdict of this search may come from."""
    plan = search.plan
    found = {slot: rule.plugin for slot, rule in plan.node_rules}
    found.update((slot, plugin) for slot, plugin, _ in plan.bundle.filters)
    found.update(search.filters)
    return found


def starting_at(rows: RowArray, offset: int) -> RowArray:
    """All rows, beginning with the one at index `offset`."""
    return np.concatenate((rows[offset:], rows[:offset]))
