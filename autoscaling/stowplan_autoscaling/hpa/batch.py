"""Many autoscalers that are due at one moment, with one pass over all their pods.

The pass computes the proposals of autoscalers whose only metric is a resource of whole pods, the common case, from
columns (`pod_columns`). Everything else - another metric, several metrics, a pod without request, no usable sample, a
number near an overflow - goes the ordinary way of `controller`, as do conditions, stabilisation and limits of all.
Results are equal to syncing one after the other.

The rules are those of replica_calculator.py (pkg/controller/podautoscaler/replica_calculator.go of Kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.selectors import LabelQuery

from .controller import HorizontalController, Outcome, Sync
from .metric_proposal import PodLister, resource_status
from .metrics import MetricsClient
from .objects import RESOURCE, HorizontalPodAutoscaler, Scale, ScaleError
from .pod_columns import COUNTED, IS_UNREADY, NEVER, NO_CONDITION, WAITING, Int64, PodColumns, SampleColumns
from .pod_groups import CPU

_SAFE: Final = 2**62
"""Products and sums below it cannot overflow an int64."""

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


class Due(NamedTuple):
    """An autoscaler to be synced; `workload` is the number of its target in the columns."""

    hpa: HorizontalPodAutoscaler
    scale: Scale | ScaleError
    workload: int


class _Candidate(NamedTuple):
    """A sync that has come as far as its metrics."""

    sync: Sync
    scale: Scale
    selector: LabelQuery
    workload: int


class _Proposals(NamedTuple):
    """By candidate: `valid` where the columns were enough."""

    valid: Booleans
    replicas: Int64
    utilization: Int64
    average: Int64


def asks_only(hpa: HorizontalPodAutoscaler, resource: str) -> bool:
    """Whether the only metric of an autoscaler is this resource of whole pods."""
    metrics = hpa.spec.metrics
    if len(metrics) != 1 or metrics[0].type != RESOURCE or metrics[0].resource is None:
        return False
    return metrics[0].resource.name == resource


class BatchReconciler:
    """Syncs batches; `from_columns` and `one_by_one` count how proposals were computed."""

    def __init__(self, controller: HorizontalController, columns: PodColumns) -> None:
        """The controller's memory and the pods are the caller's, too."""
        self.controller = controller
        self.columns = columns
        self.from_columns = 0
        self.one_by_one = 0

    def reconcile(
        self, due: Sequence[Due], samples: SampleColumns, pods: PodLister, metrics: MetricsClient, now: int
    ) -> list[Outcome]:
        """Outcomes in order, all writes of scales succeeding at once. `metrics` has the same samples and all others."""
        return [self.controller.finish(sync, now) for sync in self.begin(due, samples, pods, metrics, now)]

    def begin(
        self, due: Sequence[Due], samples: SampleColumns, pods: PodLister, metrics: MetricsClient, now: int
    ) -> list[Sync]:
        """The syncs up to the writes of scales, in order: `HorizontalController.begin` for many."""
        controller = self.controller
        syncs: list[Sync] = []
        candidates: list[_Candidate] = []
        for hpa, scale, workload in due:
            if isinstance(scale, ScaleError) or not self.is_common(hpa):
                syncs.append(controller.begin(hpa, scale, pods, metrics, now))
                continue
            sync = controller.start(hpa)
            syncs.append(sync)
            if controller.needs_metrics(sync, scale, now):
                selector = controller.selector(sync, scale, pods, now)
                if selector is not None:
                    candidates.append(_Candidate(sync, scale, selector, workload))
        self._compute(candidates, samples, pods, metrics, now)
        return syncs

    def is_common(self, hpa: HorizontalPodAutoscaler) -> bool:
        """Whether its only metric is the columns' resource of whole pods."""
        return asks_only(hpa, self.columns.resource)

    def _compute(
        self,
        candidates: Sequence[_Candidate],
        samples: SampleColumns,
        pods: PodLister,
        metrics: MetricsClient,
        now: int,
    ) -> None:
        if not candidates:
            return
        controller = self.controller
        found = _Pass(controller, self.columns, samples, candidates, now).proposals()
        numbers = zip(
            candidates,
            found.valid.tolist(),
            found.replicas.tolist(),
            found.utilization.tolist(),
            found.average.tolist(),
            strict=True,
        )
        for (sync, scale, selector, _), valid, replicas, utilization, average in numbers:
            if valid:
                self.from_columns += 1
                status = resource_status(sync.plan.metrics[0], utilization, average)
                controller.accept(sync, replicas, status, now)
            else:
                self.one_by_one += 1
                controller.compute(sync, scale, selector, pods, metrics, now)


class _Pass:
    """One pass over the pods of all candidates. Arrays are either by pod or by candidate."""

    def __init__(
        self,
        controller: HorizontalController,
        columns: PodColumns,
        samples: SampleColumns,
        candidates: Sequence[_Candidate],
        now: int,
    ) -> None:
        rows, counts = columns.rows_of(np.array([one.workload for one in candidates], np.int64))
        self._rules = controller.calculator.rules
        self._now = now
        self._counts = counts
        self._ends = np.cumsum(counts)
        plans = [one.sync.plan for one in candidates]
        targets = [plan.metrics[0] for plan in plans]
        self._current = np.array([one.sync.current for one in candidates], np.int64)
        self._of_average = np.array([target.average is not None for target in targets], np.bool_)
        self._target = np.array(
            [target.utilization or 1 if target.average is None else target.average for target in targets], np.int64
        )
        self._lowest = np.array([1.0 - plan.tolerances.scale_down for plan in plans])
        self._highest = np.array([1.0 + plan.tolerances.scale_up for plan in plans])
        self._is_cpu = columns.resource == CPU
        self._columns = columns
        self._samples = samples
        self._rows = rows

    def proposals(self) -> _Proposals:
        nothing = np.zeros(len(self._counts), np.int64)
        values = self._samples.value[self._rows]
        requests = self._columns.request[self._rows]
        if not len(values) or self._may_overflow(values, requests):
            return _Proposals(np.zeros(len(nothing), np.bool_), nothing, nothing, nothing)
        counted, unready, missing = self._groups()
        ready, waiting, lacking = self._sum(counted), self._sum(unready), self._sum(missing)
        used, requested = self._sum(np.where(counted, values, 0)), self._sum(np.where(counted, requests, 0))
        valid = (self._counts > 0) & (ready > 0) & (used >= 0)
        valid &= self._of_average | ((self._sum(requests < 0) == 0) & (requested > 0))
        utilization, ratio = self._usage(used, requested, ready)
        average = used // np.maximum(ready, 1)
        up_with_unready = (waiting > 0) & (ratio > 1.0)
        plain = np.where(self._within(ratio), self._current.astype(np.float64), np.ceil(ratio * ready))
        # The same under assumptions about pods of which nothing is known.
        down = ratio < 1.0
        assumed = np.where(down | (ratio > 1.0), lacking, 0)
        more_used = used + np.where(down, self._full_use(missing, requests, lacking), 0)
        valid &= more_used < _SAFE // 100
        more_requested = requested + np.where(assumed > 0, self._sum(np.where(missing, requests, 0)), 0)
        more_requested += np.where(up_with_unready, self._sum(np.where(unready, requests, 0)), 0)
        entries = ready + assumed + np.where(up_with_unready, waiting, 0)
        _, new_ratio = self._usage(more_used, more_requested, entries)
        replicas = np.where(up_with_unready | (lacking > 0), self._dampened(ratio, new_ratio, entries), plain)
        valid &= (replicas < 2.0**31) & (utilization < 2**31)
        return _Proposals(valid, np.where(valid, replicas, 0.0).astype(np.int64), utilization, average)

    def _may_overflow(self, values: Int64, requests: Int64) -> bool:
        largest = max(int(values.max()), -int(values.min()), int(requests.max()), int(self._target.max()), 1)
        factor = max(int(self._target[~self._of_average].max(initial=0)), 100)
        return largest * max(factor, len(values)) >= _SAFE

    def _sum(self, by_pod: Int64 | Booleans) -> Int64:
        """Sums by candidate."""
        running = np.zeros(len(by_pod) + 1, np.int64)
        np.cumsum(by_pod, out=running[1:])
        sums: Int64 = running[self._ends] - running[self._ends - self._counts]
        return sums

    def _groups(self) -> tuple[Booleans, Booleans, Booleans]:
        """By pod: counted with its sample, unready, missing; the others are ignored."""
        columns, samples, rows, now = self._columns, self._samples, self._rows, self._now
        state, present = columns.state[rows], samples.present[rows]
        counted = (state == COUNTED) & present
        missing = (state == COUNTED) & ~present
        unready = state == WAITING
        if not self._is_cpu:
            return counted, unready, missing
        ready, started, since = columns.ready[rows], columns.started[rows], columns.ready_since[rows]
        is_unready = ready == IS_UNREADY
        too_early = samples.timestamp[rows] < since + samples.window[rows]
        young = started + self._rules.cpu_initialization_period > now
        never_ready = is_unready & (started + self._rules.initial_readiness_delay > since)
        excluded = np.where(young, is_unready | too_early, never_ready)
        excluded |= (ready == NO_CONDITION) | (started == NEVER)
        return counted & ~excluded, unready | (counted & excluded), missing

    def _usage(self, used: Int64, requested: Int64, entries: Int64) -> tuple[Int64, Floats]:
        """Utilisation in percent (0 for targets per pod), and the ratio of usage to target."""
        utilization = np.where(self._of_average, 0, used * 100 // np.maximum(requested, 1))
        usage = np.where(self._of_average, used // np.maximum(entries, 1), utilization)
        return utilization, usage / self._target

    def _within(self, ratio: Floats) -> Booleans:
        return (self._lowest <= ratio) & (ratio <= self._highest)

    def _full_use(self, missing: Booleans, requests: Int64, lacking: Int64) -> Int64:
        """What missing pods are assumed to use before a scale-down."""
        percent = np.repeat(np.where(self._of_average, 100, np.maximum(self._target, 100)), self._counts)
        of_requests = self._sum(np.where(missing, requests * percent // 100, 0))
        return np.where(self._of_average, lacking * self._target, of_requests)

    def _dampened(self, ratio: Floats, assumed: Floats, entries: Int64) -> Floats:
        current = self._current.astype(np.float64)
        replicas = np.ceil(assumed * entries)
        keep = self._within(assumed) | ((ratio < 1.0) & (assumed > 1.0)) | ((ratio > 1.0) & (assumed < 1.0))
        keep |= ((assumed < 1.0) & (replicas > current)) | ((assumed > 1.0) & (replicas < current))
        return np.where(keep, current, replicas)
