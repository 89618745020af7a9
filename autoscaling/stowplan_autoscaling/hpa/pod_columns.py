"""Pods and samples of many workloads as columns, one row per pod, for `batch`.

A workload is a number from 0; its pods may lie in any rows. What the grouping rules read of a pod stands in columns and
is written when the pod changes, so that a sync touches no pod object. Times are nanoseconds, amounts milli units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, TRUE, ClusterPod
from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import LabelQuery

from .metrics import MetricsError, PodMetric
from .objects import CrossVersionObjectReference
from .requests import MissingRequestError, RequestCache

Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]

COUNTED, WAITING, IGNORED = range(3)
"""State of a pod: it counts by its sample; Pending; deleting or Failed."""

NO_CONDITION, IS_READY, IS_UNREADY, IS_UNKNOWN = range(4)
"""The condition Ready."""

_READINESS: Final = {TRUE: IS_READY, FALSE: IS_UNREADY, "": NO_CONDITION}
"""By the condition's status; any other is unknown."""

NEVER: Final = -(2**62)
"""No start time."""

NO_REQUEST: Final = -1

_FIRST_CAPACITY: Final = 64


class PodColumns:
    """The pods of workloads, with their requests of one resource."""

    def __init__(self, resource: str) -> None:
        """No pods yet."""
        self.resource = resource
        self.workload: Int64 = np.full(_FIRST_CAPACITY, -1, np.int64)
        self.state: Int8 = np.zeros(_FIRST_CAPACITY, np.int8)
        self.ready: Int8 = np.zeros(_FIRST_CAPACITY, np.int8)
        self.started: Int64 = np.zeros(_FIRST_CAPACITY, np.int64)
        self.ready_since: Int64 = np.zeros(_FIRST_CAPACITY, np.int64)
        self.request: Int64 = np.zeros(_FIRST_CAPACITY, np.int64)
        self._rows: dict[str, int] = {}
        self._free: list[int] = list(range(_FIRST_CAPACITY - 1, -1, -1))
        self._requests = RequestCache()
        self._order: tuple[Int64, Int64] | None = None
        self._members: dict[int, dict[int, None]] = {}
        """Rows by workload."""
        self._rows_in: dict[int, Int64] = {}
        """The same as arrays, of workloads that were asked for since they changed."""

    def __len__(self) -> int:
        """Rows in use and free ones: the length of the columns."""
        return len(self.workload)

    @property
    def rows(self) -> Mapping[str, int]:
        """Row by "namespace/name" of the pod."""
        return self._rows

    def put(self, pod: ClusterPod, workload: int) -> int:
        """Add a pod, or write down what has changed of it; returns its row."""
        key = pod.key
        row = self._rows.get(key)
        if row is None:
            if not self._free:
                self._grow()
            row = self._rows[key] = self._free.pop()
        before = int(self.workload[row])
        if before != workload:
            if before >= 0:
                self._leave(before, row)
            self.workload[row] = workload
            self._members.setdefault(workload, {})[row] = None
            self._rows_in.pop(workload, None)
            self._order = None
        self.write(row, pod)
        return row

    def write(self, row: int, pod: ClusterPod) -> int:
        """Write down what has changed of the pod in a row; returns its workload."""
        gone = pod.deleted is not None or pod.status.phase == FAILED
        self.state[row] = IGNORED if gone else WAITING if pod.status.phase == PENDING else COUNTED
        self.ready[row] = _READINESS.get(pod.ready, IS_UNKNOWN)
        self.started[row] = NEVER if pod.started is None else pod.started
        self.ready_since[row] = pod.ready_since
        try:
            self.request[row] = self._requests.request(pod, self.resource, "")
        except MissingRequestError:
            self.request[row] = NO_REQUEST
        return int(self.workload[row])

    def remove(self, key: str) -> None:
        """The pod "namespace/name" is gone; its row may be given to another."""
        row = self._rows.pop(key)
        self._leave(int(self.workload[row]), row)
        self.workload[row] = -1
        self._free.append(row)
        self._order = None

    def _leave(self, workload: int, row: int) -> None:
        del self._members[workload][row]
        self._rows_in.pop(workload, None)

    def rows_in(self, workload: int) -> Int64:
        """The rows of one workload, in no order that means anything."""
        found = self._rows_in.get(workload)
        if found is None:
            rows = self._members.get(workload, {})
            found = self._rows_in[workload] = np.fromiter(rows, np.int64, len(rows))
        return found

    def _grow(self) -> None:
        old = len(self.workload)
        for name in ("workload", "state", "ready", "started", "ready_since", "request"):
            column = getattr(self, name)
            longer = np.full(2 * old, -1 if name == "workload" else 0, column.dtype)
            longer[:old] = column
            setattr(self, name, longer)
        self._free.extend(range(2 * old - 1, old - 1, -1))
        self._order = None

    def rows_of(self, workloads: Int64) -> tuple[Int64, Int64]:
        """The rows of workloads one after the other, and the number of rows of each."""
        order, bounds = self.by_workload()
        known = np.clip(workloads, 0, len(bounds) - 2)
        starts = bounds[known]
        counts = np.where(known == workloads, bounds[known + 1] - starts, 0)
        ends = np.cumsum(counts)
        offsets = np.repeat(starts - (ends - counts), counts)
        return order[offsets + np.arange(len(offsets))], counts

    def by_workload(self) -> tuple[Int64, Int64]:
        """All rows in use by workload, and where the rows of each begin, with the end behind the last."""
        if self._order is None:
            order = np.argsort(self.workload, kind="stable")
            numbers = self.workload[order]
            most = int(numbers[-1]) if len(numbers) else -1
            self._order = (order, np.searchsorted(numbers, np.arange(max(most, 0) + 2)))
        return self._order


class SampleColumns:
    """The latest samples of the pods, row by row; `present` says which pods have one."""

    def __init__(self, length: int) -> None:
        """No samples."""
        self.present: NDArray[np.bool_] = np.zeros(length, np.bool_)
        self.timestamp: Int64 = np.zeros(length, np.int64)
        self.window: Int64 = np.zeros(length, np.int64)
        self.value: Int64 = np.zeros(length, np.int64)

    def resize(self, length: int) -> None:
        """Room for more pods."""
        for name in ("present", "timestamp", "window", "value"):
            column = getattr(self, name)
            longer = np.zeros(length, column.dtype)
            longer[: len(column)] = column
            setattr(self, name, longer)

    def put(self, row: int, sample: PodMetric) -> None:
        """Set one sample."""
        self.present[row] = True
        self.timestamp[row], self.window[row], self.value[row] = sample


class ColumnMetrics:
    """A MetricsClient that reads the samples of one resource from columns, pod by pod.

    What `batch` leaves to the ordinary way of computing gets the same samples through it.
    """

    def __init__(self, columns: PodColumns, samples: SampleColumns, pods: Sequence[ClusterPod] | None = None) -> None:
        """`pods`: all pods, to find those of a selector."""
        self._columns = columns
        self._samples = samples
        self._pods = pods if pods is not None else ()

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient."""
        if resource != self._columns.resource or container is not None:
            raise MetricsError.unavailable("resource", f"no samples of {resource}")
        samples, rows = self._samples, self._columns.rows
        found: dict[str, PodMetric] = {}
        for pod in self._pods:
            row = rows.get(pod.key)
            of_workload = pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)
            if row is not None and of_workload and samples.present[row]:
                found[pod.metadata.name] = PodMetric(
                    int(samples.timestamp[row]), int(samples.window[row]), int(samples.value[row])
                )
        if not found:
            raise MetricsError.nothing("resource")
        return found, next(iter(found.values())).timestamp

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient."""
        raise MetricsError.unavailable("custom", f"no samples of {metric}")

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """See MetricsClient."""
        raise MetricsError.unavailable("custom", f"no samples of {metric}")

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient."""
        raise MetricsError.unavailable("external", f"no samples of {metric}")
