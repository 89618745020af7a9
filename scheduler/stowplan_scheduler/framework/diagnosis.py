"""Why a pod fits nowhere: verdicts of all visited nodes, and the FitError text users see.

Follows pkg/scheduler/framework/types.go (Diagnosis, FitError) of Kubernetes v1.37.2. Verdicts stay numbers, one per
row; a Status object is made only for the distinct ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.cache.node_table import Int32s

from .memo import REASON_BITS
from .status import SUCCESS, Status

NO_NODES = "no nodes available to schedule pods"

_NO_ROWS: NDArray[np.intp] = np.zeros(0, np.intp)
_NO_VERDICTS: Int32s = np.zeros(0, np.int32)


class Diagnosis(msgspec.Struct):
    """Verdicts of the visited nodes that failed, and of the nodes that were left out.

    `rows` and `verdicts` run in visiting order (a failed nominated node first; its row may come again with the normal
    search, which replaces it). `statuses` maps a verdict to its Status. `absent` is the status of all other nodes.
    """

    node_count: int = 0
    rows: NDArray[np.intp] = _NO_ROWS
    verdicts: Int32s = _NO_VERDICTS
    statuses: dict[int, Status] = {}
    absent: Status = SUCCESS
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()

    def counts(self) -> Iterator[tuple[Status, int]]:
        """Each distinct status with the number of nodes that have it, in order of verdict."""
        kinds = distinct(self.verdicts)
        if len(kinds) == 1:
            yield self.statuses[kinds[0]], len(self.verdicts)
            return
        for verdict in kinds:
            yield self.statuses[verdict], int(np.count_nonzero(self.verdicts == verdict))

    def status_of(self, row: int) -> Status:
        """The status of one node."""
        found = np.flatnonzero(self.rows == row)
        return self.statuses[int(self.verdicts[found[-1]])] if len(found) else self.absent

    def message(self) -> str:
        """FitError.Error(): "0/N nodes are available: ..."."""
        parts = [f"0/{self.node_count} nodes are available:"]
        if self.pre_filter_message:
            parts.append(f" {self.pre_filter_message}.")
        else:
            reasons = self.reason_counts()
            if reasons:
                # Upstream sorts the finished texts by bytes, so "10 x" comes before "2 y".
                texts = sorted((f"{count} {reason}" for reason, count in reasons.items()), key=str.encode)
                parts.append(f" {', '.join(texts)}.")
        if self.post_filter_message:
            parts.append(f" {self.post_filter_message}")
        return "".join(parts)

    def reason_counts(self) -> Mapping[str, int]:
        """How many nodes give each reason; a node with two reasons counts for both."""
        counts: dict[str, int] = {}
        for status, count in self.counts():
            for reason in status.reasons:
                counts[reason] = counts.get(reason, 0) + count
        missing = self.node_count - len(self.rows)
        if missing > 0:
            for reason in self.absent.reasons:
                counts[reason] = counts.get(reason, 0) + missing
        return counts


def distinct(verdicts: Int32s) -> list[int]:
    """The distinct verdicts in ascending order; most often they are all the same."""
    if not len(verdicts):
        return []
    first = int(verdicts[0])
    return [first] if (verdicts == first).all() else np.unique(verdicts).tolist()


def verdict_status(verdict: int, tables: Sequence[Sequence[Status]]) -> Status:
    """The Status of a verdict, given the reason table of every filter rule in order."""
    return tables[(verdict >> REASON_BITS) - 1][verdict & ((1 << REASON_BITS) - 1)]


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
