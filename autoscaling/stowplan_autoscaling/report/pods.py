"""The pods of a run as columns: when they were made, placed, ready and gone, and where their waiting went."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.experiment.run_tables import Floats, read_rows
from stowplan_autoscaling.results.records import TABLES, PodRecord, Waiting

PARTS: Final = Waiting._fields
_TIMES: Final = ("created", "scheduled", "ready", "ended")
_COLUMNS: Final = (*_TIMES, *(f"waiting_{part}" for part in PARTS))


class Waits(NamedTuple):
    """Seconds until something happened to each pod; where it is not over, it had not happened by then."""

    seconds: Floats
    is_over: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pods:
    """N pods. Times in seconds of the run, NaN for what has not come. waiting: N x 10, in the order of PARTS."""

    created: Floats
    scheduled: Floats
    ready: Floats
    ended: Floats
    waiting: Floats

    def until_placed(self, end: float) -> Waits:
        """From creation to a node; of pods that never had one, until they or the run were over."""
        return _until(self.scheduled, self.ended, self.created, end)

    def until_ready(self, end: float) -> Waits:
        """From the change of demand (for pods of an autoscaler; else creation) until ready, in the same way."""
        before = self.waiting[:, : PARTS.index("queue")].sum(axis=1)
        return _until(self.ready, self.ended, self.created - before, end)

    def split(self, slowest: float = 1.0) -> tuple[Floats, int]:
        """The mean of each part over the pods that became ready, or over the slowest share of them; and how many."""
        parts = self.waiting[~np.isnan(self.ready)]
        if not len(parts):
            return np.zeros(len(PARTS)), 0
        count = max(1, round(len(parts) * slowest))
        order = np.argsort(-parts.sum(axis=1), kind="stable")[:count]
        return np.asarray(parts[order].mean(axis=0), dtype=np.float64), count


def _until(came: Floats, ended: Floats, since: Floats, end: float) -> Waits:
    is_over = ~np.isnan(came)
    seconds = np.where(is_over, came, np.where(np.isnan(ended), end, ended)) - since
    return Waits(np.maximum(seconds, 0.0), is_over)


def read_pods(folder: Path) -> Pods:
    """The pods of a run; none if the table is not there."""
    cells = array("d")
    for row in read_rows(str(folder), TABLES[PodRecord], *_COLUMNS):
        cells.extend(float(cell or "nan") for cell in row)
    table = np.array(cells, dtype=np.float64).reshape(-1, len(_COLUMNS))
    return Pods(table[:, 0], table[:, 1], table[:, 2], table[:, 3], np.nan_to_num(table[:, len(_TIMES) :]))


def joined(several: list[Pods]) -> Pods:
    """The pods of several runs as one."""
    return Pods(
        np.concatenate([one.created for one in several]),
        np.concatenate([one.scheduled for one in several]),
        np.concatenate([one.ready for one in several]),
        np.concatenate([one.ended for one in several]),
        np.concatenate([one.waiting for one in several]),
    )
