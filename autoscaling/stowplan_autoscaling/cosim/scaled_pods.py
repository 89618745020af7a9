"""The samples of cpu that metrics-server publishes, beside the pods of autoscaled workloads: columns for quick syncs.

An autoscaler whose only metric is the cpu of whole pods is then synced by sums (`hpa.totals`). Everything else still
asks the API. Both say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan_autoscaling.cluster.workload_columns import WorkloadColumns
from stowplan_autoscaling.metrics.usage import CPU

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.selector_index import SelectorIndex
    from stowplan_autoscaling.metrics import MetricsServer

    from .pods import PodBook, PodLife
    from .roster import Ints

_LATEST = np.iinfo(np.int64).max


class ScaledPods(WorkloadColumns):
    """Columns that hold what a metrics server shows."""

    def __init__(self, informers: Informers, index: SelectorIndex, server: MetricsServer, book: PodBook) -> None:
        super().__init__(informers, index, CPU)
        self._server = server
        self._book = book
        self._row_of: Ints = np.zeros(0, np.int64)
        """By the slot of a pod in the server: its row here, -1 for none."""
        self._samples_of: list[int] | None = None
        """By workload: when its oldest sample was taken; None until somebody asks."""
        self._touched: set[int] = set()
        """Workloads with a sample more or less since that was found out."""
        self._asked: dict[int, int] = {}
        self.on_row = self._note_row

    # ---- what autoscalers ask ----------------------------------------------------------------

    def sync_asks(self, number: int) -> bool:
        """See WorkloadColumns.sync_asks; the sync sees the samples of now."""
        if number in self._shared:
            return False
        oldest = self._oldest(number)
        if oldest != _LATEST:
            self._asked[number] = oldest
        return True

    def oldest(self, number: int) -> int | None:
        """When the oldest sample was taken that the last sync of a workload saw."""
        return None if number in self._shared else self._asked.get(number)

    def _oldest(self, number: int) -> int:
        if self._samples_of is None:
            rows = np.flatnonzero(self.samples.present)
            found = np.full(len(self._mappings), _LATEST)
            np.minimum.at(found, self.columns.workload[rows], self.samples.timestamp[rows])
            self._samples_of = found.tolist()
            self._touched.clear()
        if number not in self._touched and number < len(self._samples_of):
            return self._samples_of[number]
        rows = self.columns.rows_in(number)
        shown = rows[self.samples.present[rows]]
        return int(self.samples.timestamp[shown].min(initial=_LATEST))

    # ---- what happens ------------------------------------------------------------------------

    def pod_runs(self, life: PodLife) -> None:
        """The server knows the pod from now on."""
        slot = self._server.slot(life.uid)
        if slot is None:
            return
        if slot >= len(self._row_of):
            self._row_of = np.concatenate([self._row_of, np.full(slot + 64, -1)])
        self._row_of[slot] = self.columns.rows.get(life.key, -1)

    def published(self) -> None:
        """The server shows new samples."""
        self._samples_of = None
        shown = self._server.shown(CPU)
        self.publish_rows(self._row_of[shown.slots], shown.time, shown.window, shown.value)

    def forget_sample(self, key: str) -> None:
        """See WorkloadColumns.forget_sample."""
        row = self.columns.rows.get(key)
        if row is not None:
            self._touched.add(int(self.columns.workload[row]))
        super().forget_sample(key)

    def _note_row(self, key: str, row: int) -> None:
        """A pod has another row, perhaps after the server has shown it."""
        life = self._book.lives.get(key)
        slot = None if life is None else self._server.slot(life.uid)
        if slot is None or slot >= len(self._row_of):
            return
        self._row_of[slot] = row
        sample = self._server.sample(CPU, slot)
        if row >= 0 and sample is not None:
            self.samples.put(row, sample)
            self._touched.add(int(self.columns.workload[row]))
