"""The pods and samples of one workload summed up, and the proposal that follows from the sums.

One pass over a few columns takes the place of a look at each pod: for a sync of one autoscaler with many pods. `batch`
does the same for many autoscalers at once.

The rules are those of replica_calculator.py (pkg/controller/podautoscaler/replica_calculator.go of Kubernetes v1.37.2).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .plan import MetricPlan
from .pod_columns import COUNTED, IS_READY, IS_UNREADY, NEVER, NO_CONDITION, WAITING, Int64, PodColumns, SampleColumns
from .pod_groups import CPU, ReadinessRules
from .tolerance import Tolerances

_SAFE: Final = 2**62
_EXACT: Final = 2**53
"""Up to here sums of floats are those of whole numbers."""
_INT32: Final = 2**31
_KINDS: Final = 4
_ODD: Final = 3
"""Beside the states of a pod: it lacks its sample, or has not been ready for long."""


class Totals(NamedTuple):
    """Pods of a workload by how they count; amounts in milli units."""

    counted: int
    """With a sample that counts."""
    used: int
    requested: int
    unready: int
    """Pending, or too young for their sample to count."""
    unready_requested: int
    missing: int
    """Without a sample."""
    missing_requested: int
    missing_full: int
    """What those are taken to use before a scale-down to a target of utilisation."""
    without_request: int
    """Pods, of whatever state, that do not say what they request."""


class Proposal(NamedTuple):
    """What the metric asks for, with the numbers of its status."""

    replicas: int
    utilization: int
    average: int


def totals_of(
    columns: PodColumns, samples: SampleColumns, workload: int, plan: MetricPlan, rules: ReadinessRules, now: int
) -> Totals | None:
    """Of one workload at one moment; None where a sum might not fit an int64, and for numbers beyond the last one."""
    rows = columns.rows_in(workload)
    if not rows.size and workload > int(np.maximum.reduce(columns.workload)):
        return None
    state, present = columns.state[rows], samples.present[rows]
    values, requests = samples.value[rows], columns.request[rows]
    percent = max(plan.utilization or 0, 100)
    if _may_overflow(values, requests, max(percent, len(rows))):
        return None
    running = state == COUNTED
    counted, missing, unready = running & present, running & ~present, state == WAITING
    if columns.resource == CPU:
        excluded = counted & _is_excluded(columns, samples, rows, rules, now)
        unready |= excluded
        counted &= ~excluded
    without = requests[missing]
    return Totals(
        counted=int(np.count_nonzero(counted)),
        used=int(np.add.reduce(values[counted])),
        requested=int(np.add.reduce(requests[counted])),
        unready=int(np.count_nonzero(unready)),
        unready_requested=int(np.add.reduce(requests[unready])),
        missing=len(without),
        missing_requested=int(np.add.reduce(without)),
        missing_full=int(np.add.reduce(without * percent // 100)),
        without_request=int(np.count_nonzero(requests < 0)),
    )


def plain_totals(columns: PodColumns, samples: SampleColumns) -> list[Totals | None]:
    """Of all workloads at once; None where a pod lacks its sample or is not ready for long.

    For the others nothing depends on the moment: the sums hold until a pod of theirs or the samples change.
    """
    values, requests = samples.value, columns.request
    if _may_overflow(values, requests, max(len(values), 100), _EXACT):
        return []
    counts = columns.state == COUNTED
    plain = samples.present
    if columns.resource == CPU:
        due = columns.ready_since + samples.window
        plain = plain & (columns.ready == IS_READY) & (columns.started != NEVER) & (samples.timestamp >= due)
    kind = columns.state.astype(np.int64)
    kind[counts & ~plain] = _ODD
    # One cell per workload and kind of pod; rows without a workload, -1, come first.
    cells = (columns.workload + 1) * _KINDS + kind
    size = (int(np.maximum.reduce(columns.workload)) + 2) * _KINDS
    found = np.zeros((4, size), np.int64)
    found[0] = np.bincount(cells, None, size)
    found[1] = np.bincount(cells, values, size)
    found[2] = np.bincount(cells, requests, size)
    if np.minimum.reduce(requests) < 0:
        found[3] = np.bincount(cells, requests < 0, size)
    numbers, used, requested, without = found.reshape(4, -1, _KINDS)[:, 1:].tolist()
    return [
        None if count[_ODD] else Totals(
            count[COUNTED], use[COUNTED], request[COUNTED], count[WAITING], request[WAITING], 0, 0, 0, sum(bare)
        )
        for count, use, request, bare in zip(numbers, used, requested, without, strict=True)
    ]  # fmt: skip


def _may_overflow(values: Int64, requests: Int64, factor: int, most: int = _SAFE) -> bool:
    if not len(values):
        return False
    largest = max(int(np.maximum.reduce(values)), -int(np.minimum.reduce(values)), int(np.maximum.reduce(requests)), 1)
    return largest * factor >= most


def _is_excluded(
    columns: PodColumns, samples: SampleColumns, rows: Int64, rules: ReadinessRules, now: int
) -> NDArray[np.bool_]:
    """Whose samples of CPU do not count yet; see `pod_groups`."""
    ready, started, since = columns.ready[rows], columns.started[rows], columns.ready_since[rows]
    too_early = samples.timestamp[rows] < since + samples.window[rows]
    plain: NDArray[np.bool_] = (ready == IS_READY) & ~too_early & (started != NEVER)
    if np.logical_and.reduce(plain):
        return ~plain
    is_unready = ready == IS_UNREADY
    young = started + rules.cpu_initialization_period > now
    never_ready = is_unready & (started + rules.initial_readiness_delay > since)
    excluded: NDArray[np.bool_] = np.where(young, is_unready | too_early, never_ready)
    excluded |= (ready == NO_CONDITION) | (started == NEVER)
    return excluded


def propose(totals: Totals, plan: MetricPlan, current: int, tolerances: Tolerances) -> Proposal | None:
    """The proposal of a metric of a resource of whole pods; None where the ordinary way has more to say."""
    count, used = totals.counted, totals.used
    of_average = plan.average is not None
    if count == 0 or not 0 <= used < _SAFE // 100:
        return None
    if not of_average and (totals.without_request or totals.requested <= 0):
        return None
    target = plan.average if plan.average is not None else plan.utilization or 1
    utilization = 0 if of_average else used * 100 // totals.requested
    ratio = (used // count if of_average else utilization) / target
    if totals.missing or (totals.unready and ratio > 1.0):
        replicas = _dampened(totals, target, ratio, current, tolerances, of_average=of_average)
    else:
        replicas = current if tolerances.is_within(ratio) else math.ceil(ratio * count)
    if replicas is None or replicas >= _INT32 or utilization >= _INT32:
        return None
    return Proposal(replicas, utilization, used // count)


def _dampened(
    totals: Totals, target: int, ratio: float, current: int, tolerances: Tolerances, *, of_average: bool
) -> int | None:
    """The proposal under assumptions about pods of which nothing is known."""
    used, requested, entries = totals.used, totals.requested, totals.counted
    if ratio != 1.0:
        entries += totals.missing
        requested += totals.missing_requested
    if ratio < 1.0:
        used += totals.missing * target if of_average else totals.missing_full
    if ratio > 1.0:
        entries += totals.unready
        requested += totals.unready_requested
    if used >= _SAFE // 100:
        return None
    assumed = (used // entries if of_average else used * 100 // requested) / target
    wanted = math.ceil(assumed * entries)
    turned = (ratio < 1.0 < assumed) or (assumed < 1.0 < ratio)
    against = (assumed < 1.0 and wanted > current) or (assumed > 1.0 and wanted < current)
    return current if turned or against or tolerances.is_within(assumed) else wanted
