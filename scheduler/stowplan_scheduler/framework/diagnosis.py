"""Why a pod fits nowhere: verdicts of all visited nodes, and the FitError text users see.

Follows pkg/scheduler/framework/types.go (Diagnosis, FitError) of Kubernetes v1.37.2. Verdicts stay numbers, one per
row; a Status object is made only for the distinct ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.flags import all_true
from stowplan_scheduler.cache.node_table import Int32s

from .interface import ReasonTable
from .memo import REASON_BITS
from .status import SUCCESS, Code, Status

NO_NODES = "no nodes available to schedule pods"


class Verdicts:
    """Verdicts of rows that all failed, in no particular order, and the Status behind each distinct one.

    `rows` and `verdicts` have shape (n,). Not to be changed: pods that fail alike share them, and what is worked out
    from them is kept.
    """

    __slots__ = ("_counts", "_pending", "_text", "_unresolved", "rows", "statuses", "verdicts")

    def __init__(self, rows: NDArray[np.intp], verdicts: Int32s, statuses: Mapping[int, Status]) -> None:
        """`statuses` maps at least every verdict there is to its Status."""
        self.rows = rows
        self.verdicts = verdicts
        self.statuses = statuses
        self._counts: tuple[tuple[Status, int], ...] | None = None
        self._pending: tuple[frozenset[str], frozenset[str]] | None = None
        self._text: str | None = None
        self._unresolved: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def counts(self) -> tuple[tuple[Status, int], ...]:
        """Each distinct status with the number of rows that have it, in order of verdict."""
        if self._counts is None:
            kinds = distinct(self.verdicts)
            sizes = [len(self.verdicts)] if len(kinds) == 1 else [int((self.verdicts == each).sum()) for each in kinds]
            self._counts = tuple([(self.statuses[each], size) for each, size in zip(kinds, sizes, strict=True)])
        return self._counts

    def reason_counts(self) -> dict[str, int]:
        """How many rows give each reason; a row with two reasons counts for both."""
        counts: dict[str, int] = {}
        for status, count in self.counts():
            for reason in status.reasons:
                counts[reason] = counts.get(reason, 0) + count
        return counts

    def text(self) -> str:
        """`reason_text` of these rows alone."""
        if self._text is None:
            self._text = reason_text(self.reason_counts())
        return self._text

    def plugins(self) -> tuple[frozenset[str], frozenset[str]]:
        """Who rejected, and who waits for an outside party (status Pending)."""
        if self._pending is None:
            pending = [status.plugin for status, _ in self.counts() if status.code is Code.PENDING]
            others = [status.plugin for status, _ in self.counts() if status.code is not Code.PENDING]
            self._pending = frozenset(others), frozenset(pending)
        return self._pending

    def resolvable(self) -> NDArray[np.intp]:
        """The rows whose status is Unschedulable, ascending: removing pods may change it."""
        if self._unresolved is None:
            hopeful = [each for each, status in self.statuses.items() if status.code is Code.UNSCHEDULABLE]
            rows = self.rows
            if len(hopeful) < len(self.statuses):
                rows = rows[np.isin(self.verdicts, hopeful)]
            self._unresolved = np.sort(rows)
        return self._unresolved

    def status_of(self, row: int) -> Status | None:
        """The status of a row; None if it is none of these."""
        found = (self.rows == row).nonzero()[0]
        return self.statuses[int(self.verdicts[found[-1]])] if len(found) else None

    def then(self, later: Verdicts) -> Verdicts:
        """Both, where a row that was visited twice has its later verdict."""
        kept = ~np.isin(self.rows, later.rows)
        return Verdicts(
            np.concatenate([self.rows[kept], later.rows]),
            np.concatenate([self.verdicts[kept], later.verdicts]),
            {**self.statuses, **later.statuses},
        )


NO_VERDICTS = Verdicts(np.zeros(0, np.intp), np.zeros(0, np.int32), {})


class Diagnosis(msgspec.Struct):
    """Verdicts of the visited nodes that failed, and of the nodes that were left out.

    `failed` may hold a nominated node that failed first; its row may come again with the normal search, which replaces
    it. `absent` is the status of all other nodes.
    """

    node_count: int = 0
    failed: Verdicts = NO_VERDICTS
    absent: Status = SUCCESS
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the failed nodes."""
        return self.failed.rows

    def add(self, failed: Verdicts) -> None:
        """More nodes failed."""
        self.failed = self.failed.then(failed) if len(self.failed) else failed
        rejecting, pending = failed.plugins()
        self.unschedulable_plugins = self.unschedulable_plugins | rejecting if self.unschedulable_plugins else rejecting
        self.pending_plugins = self.pending_plugins | pending if self.pending_plugins else pending

    def status_of(self, row: int) -> Status:
        """The status of one node."""
        return self.failed.status_of(row) or self.absent

    def message(self) -> str:
        """FitError.Error(): "0/N nodes are available: ..."."""
        parts = [f"0/{self.node_count} nodes are available:"]
        if self.pre_filter_message:
            parts.append(f" {self.pre_filter_message}.")
        else:
            reasons = self.failed.text() if self._missing <= 0 else reason_text(self.reason_counts())
            if reasons:
                parts.append(f" {reasons}.")
        if self.post_filter_message:
            parts.append(f" {self.post_filter_message}")
        return "".join(parts)

    def reason_counts(self) -> Mapping[str, int]:
        """How many nodes give each reason; a node with two reasons counts for both."""
        counts = self.failed.reason_counts()
        if self._missing > 0:
            for reason in self.absent.reasons:
                counts[reason] = counts.get(reason, 0) + self._missing
        return counts

    @property
    def _missing(self) -> int:
        return self.node_count - len(self.failed)


def reason_text(counts: Mapping[str, int]) -> str:
    """The reasons with their counts, "" without any."""
    # Upstream sorts the finished texts by bytes, so "10 x" comes before "2 y".
    return ", ".join(sorted([f"{count} {reason}" for reason, count in counts.items()], key=str.encode))


def distinct(verdicts: Int32s) -> list[int]:
    """The distinct verdicts in ascending order; most often they are all the same."""
    if not len(verdicts):
        return []
    first = int(verdicts[0])
    return [first] if all_true(verdicts == first) else np.unique(verdicts).tolist()


def verdict_status(verdict: int, tables: Sequence[ReasonTable]) -> Status:
    """The Status of a verdict, given the reason table of every filter rule in order."""
    return tables[(verdict >> REASON_BITS) - 1].statuses[verdict & ((1 << REASON_BITS) - 1)]


class SchedulingError(Exception):
    """A cycle failed: something broke, the pod was not rejected.

    `next_start`: where the next search begins if nodes had been visited by then, None if the start index stays.
    """

    next_start: int | None = None


class FitError(Exception):
    """No node fits the pod."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        """The text is made when it is asked for: PostFilter still adds to it."""
        super().__init__()
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        """What users see in the FailedScheduling event."""
        return self.diagnosis.message()
