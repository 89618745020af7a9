"""Pods and latest samples of autoscaled workloads as columns, kept up to date as pods and samples come.

An autoscaler whose only metric is a resource of whole pods is then computed in one pass over arrays
(`stowplan_autoscaling.hpa.batch`), however many pods its workload has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.hpa.pod_columns import PodColumns, SampleColumns
from stowplan_autoscaling.hpa.totals import Totals, totals_of

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
        self._totals: dict[int, Totals | None] = {}
        """By workload, as long as neither its pods nor the samples have changed."""
        self._numbers: dict[int, int] = {}
        """Number of a workload by identity of its pods' mapping in the index."""
        self._mappings: list[dict[str, ClusterPod]] = []
        self._shared: set[int] = set()
        """Workloads with a pod that belongs to another one, too."""
        informers.handle("Pod", self._changed)

    def number(self, namespace: str, query: LabelQuery) -> int | None:
        """The workload of a query's pods; None if one of them belongs to two."""
        mapping = self._index.mapping(namespace, query)
        number = self._numbers.get(id(mapping))
        if number is None:
            number = self._numbers[id(mapping)] = len(self._mappings)
            self._mappings.append(mapping)
            for pod in mapping.values():
                self._put(pod)
        return None if number in self._shared else number

    def totals(self, number: int) -> Totals | None:
        """The workload summed up; None where single pods matter."""
        if number not in self._totals:
            self._totals[number] = totals_of(self.columns, self.samples, number)
        return self._totals[number]

    def _changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is not None:
            self._put(new)
        elif old is not None and old.key in self.columns.rows:
            self.forget_sample(old.key)
            self.columns.remove(old.key)

    def _put(self, pod: ClusterPod) -> None:
        numbers = [self._numbers[id(group)] for group in self._index.groups_of(pod) if id(group) in self._numbers]
        if len(numbers) > 1:
            self._shared.update(numbers)
        if numbers:
            self._totals.pop(numbers[0], None)
            row = self.columns.put(pod, numbers[0])
            if row >= len(self.samples.present):
                self.samples.resize(len(self.columns))

    # ---- samples -----------------------------------------------------------------------------

    def publish(self, keys: Sequence[str], timestamp: int, window: int, values: Int64) -> None:
        """Replace all samples: `values[i]` milli units of the pod `keys[i]`, all measured at one moment."""
        find = self.columns.rows.get
        rows = np.array([find(key, -1) for key in keys], np.int64)
        self._totals.clear()
        known = rows >= 0
        rows = rows[known]
        samples = self.samples
        samples.present[:] = False
        samples.present[rows] = True
        samples.timestamp[rows] = timestamp
        samples.window[rows] = window
        samples.value[rows] = values[known]

    def forget_sample(self, key: str) -> None:
        """The pod is gone from the API, and its sample with it."""
        row = self.columns.rows.get(key)
        if row is not None and row < len(self.samples.present):
            self.samples.present[row] = False
            self._totals.pop(int(self.columns.workload[row]), None)
