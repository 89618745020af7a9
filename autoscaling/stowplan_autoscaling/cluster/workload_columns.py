"""Pods and latest samples of autoscaled workloads as columns, kept up to date as pods and samples come.

An autoscaler whose only metric is a resource of whole pods is then computed in one pass over arrays
(`stowplan_autoscaling.hpa.batch`), however many pods its workload has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.hpa.pod_columns import PodColumns, SampleColumns
from stowplan_autoscaling.hpa.requests import ask_alike
from stowplan_autoscaling.hpa.totals import Totals, plain_totals

from .pods import ClusterPod
from .selector_index import SelectorIndex

if TYPE_CHECKING:
    from stowplan_scheduler.selectors import LabelQuery

    from .informers import Informers

Int64 = NDArray[np.int64]


class WorkloadColumns:
    """The pods of every query that was asked for, one row each, and their samples of one resource."""

    def __init__(self, informers: Informers, index: SelectorIndex, resource: str = "cpu") -> None:
        """`index` must hear of pods before: it was made before this."""
        self._index = index
        self.columns = PodColumns(resource)
        self.samples = SampleColumns(len(self.columns))
        self._numbers: dict[int, int] = {}
        """Number of a workload by identity of its pods' mapping in the index."""
        self._known: dict[tuple[str, int], tuple[LabelQuery, int]] = {}
        """The same by namespace and identity of the query, which is kept so that no other one takes it."""
        self._plain: list[Totals | None] | None = None
        """Sums of the plain workloads since the last publication; None as long as nobody has asked."""
        self._changed_since: set[int] = set()
        """Workloads whose pods have changed since those sums were made."""
        self.on_row: Callable[[str, int], None] | None = None
        """Told the key of a pod and its row, -1 when it has none any more: for who publishes by rows."""
        self._mappings: list[dict[str, ClusterPod]] = []
        self._shared: set[int] = set()
        """Workloads with a pod that belongs to another one, too."""
        informers.handle("Pod", self._changed)

    def number(self, namespace: str, query: LabelQuery) -> int:
        """The workload of a query's pods; the number holds from then on."""
        known = self._known.get((namespace, id(query)))
        return self._find(namespace, query) if known is None else known[1]

    def _find(self, namespace: str, query: LabelQuery) -> int:
        mapping = self._index.mapping(namespace, query)
        number = self._numbers.get(id(mapping))
        if number is None:
            number = self._numbers[id(mapping)] = len(self._mappings)
            self._mappings.append(mapping)
            for pod in mapping.values():
                self._put(pod)
        self._known[namespace, id(query)] = query, number
        return number

    def sync_asks(self, number: int) -> bool:
        """A sync looks at a workload; returns whether all of its pods belong to it alone."""
        return number not in self._shared

    def plain_totals(self, number: int) -> Totals | None:
        """The workload summed up, where nothing depends on the moment; None otherwise."""
        if self._plain is None:
            self._plain = plain_totals(self.columns, self.samples)
            self._changed_since.clear()
        if number in self._changed_since or number >= len(self._plain):
            return None
        return self._plain[number]

    def _changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is None:
            if old is not None:
                self._remove(old.key)
            return
        if old is not None:
            if new.metadata.labels is not old.metadata.labels:
                self._relabelled(new)
            elif (row := self.columns.rows.get(new.key)) is not None:
                # Its workload is the same: others with the same labels are known.
                if not _count_alike(old, new):
                    self._changed_since.add(self.columns.write(row, new))
                return
        self._put(new)

    def _relabelled(self, pod: ClusterPod) -> None:
        """It may have left its workload, for another one or for none."""
        row = self.columns.rows.get(pod.key)
        if row is None:
            return
        self._changed_since.add(int(self.columns.workload[row]))
        if not any(id(group) in self._numbers for group in self._index.groups_of(pod)):
            self._remove(pod.key)

    def _remove(self, key: str) -> None:
        if key in self.columns.rows:
            self.forget_sample(key)
            self.columns.remove(key)
            if self.on_row is not None:
                self.on_row(key, -1)

    def _put(self, pod: ClusterPod) -> None:
        groups = self._index.groups_of(pod)
        numbers = [self._numbers[id(group)] for group in groups if id(group) in self._numbers]
        if len(numbers) > 1:
            self._shared.update(numbers)
        if numbers:
            self._changed_since.add(numbers[0])
            known = len(self.columns.rows)
            row = self.columns.put(pod, numbers[0])
            if row >= len(self.samples.present):
                self.samples.resize(len(self.columns))
            if self.on_row is not None and len(self.columns.rows) > known:
                self.on_row(pod.key, row)

    # ---- samples -----------------------------------------------------------------------------

    def publish(self, keys: Sequence[str], timestamp: int, window: int, values: Int64) -> None:
        """Replace all samples: `values[i]` milli units of the pod `keys[i]`, all measured at one moment."""
        find = self.columns.rows.get
        self.publish_rows(np.array([find(key, -1) for key in keys], np.int64), timestamp, window, values)

    def publish_rows(self, rows: Int64, timestamp: int | Int64, window: int | Int64, values: Int64) -> None:
        """The same by rows, perhaps each with a moment of its own; row -1 stands for a pod that has none."""
        self._plain = None
        known = rows >= 0
        rows = rows[known]
        samples = self.samples
        samples.present[:] = False
        samples.present[rows] = True
        samples.timestamp[rows] = timestamp if isinstance(timestamp, int) else timestamp[known]
        samples.window[rows] = window if isinstance(window, int) else window[known]
        samples.value[rows] = values[known]

    def forget_sample(self, key: str) -> None:
        """The pod is gone from the API, and its sample with it."""
        row = self.columns.rows.get(key)
        if row is not None and row < len(self.samples.present):
            self.samples.present[row] = False
            self._changed_since.add(int(self.columns.workload[row]))


def _count_alike(old: ClusterPod, new: ClusterPod) -> bool:
    """Whether nothing has changed of what `PodColumns` hold, as when a pod is bound."""
    return (
        new.started == old.started
        and new.ready == old.ready
        and new.ready_since == old.ready_since
        and new.deleted == old.deleted
        and new.status.phase == old.status.phase
        and ask_alike(new.spec, old.spec)
    )
