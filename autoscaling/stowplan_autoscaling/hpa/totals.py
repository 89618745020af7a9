"""A workload's pods and samples summed up, for the plain case: every running pod is ready for long and has a sample.

Then a sync needs no look at single pods. What `totals_of` sums up stays true until a pod or a sample changes: nothing
in it depends on the time of the sync.

The rules are those of replica_calculator.py (pkg/controller/podautoscaler/replica_calculator.go of Kubernetes v1.37.2).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from .plan import MetricPlan
from .pod_columns import COUNTED, IS_READY, NEVER, WAITING, PodColumns, SampleColumns
from .pod_groups import CPU
from .tolerance import Tolerances

_SAFE: Final = 2**62 // 100
_INT32: Final = 2**31


class Totals(NamedTuple):
    """Pods that count by their sample, and pods that are Pending; amounts in milli units."""

    counted: int
    used: int
    requested: int
    waiting: int
    waiting_requested: int
    without_request: int
    """Pods, of whatever state, that do not say what they request."""


class Proposal(NamedTuple):
    """What the metric asks for, with the numbers of its status."""

    replicas: int
    utilization: int
    average: int


def totals_of(columns: PodColumns, samples: SampleColumns, workload: int) -> Totals | None:
    """Of one workload; None where a pod needs a closer look: one without sample, or not ready, or ready too short."""
    order, bounds = columns.by_workload()
    if workload + 1 >= len(bounds):
        return None
    order = order[bounds[workload] : bounds[workload + 1]]
    state, present = columns.state[order], samples.present[order]
    values, requests = samples.value[order], columns.request[order]
    running = state == COUNTED
    counted, waiting = running & present, state == WAITING
    odd = running & ~present
    if columns.resource == CPU:
        since = columns.ready_since[order]
        is_odd = (columns.ready[order] != IS_READY) | (columns.started[order] == NEVER)
        is_odd |= samples.timestamp[order] < since + samples.window[order]
        odd |= counted & is_odd
    if odd.any():
        return None
    return Totals(
        counted=int(np.count_nonzero(counted)),
        used=int(values[counted].sum()),
        requested=int(requests[counted].sum()),
        waiting=int(np.count_nonzero(waiting)),
        waiting_requested=int(requests[waiting].sum()),
        without_request=int(np.count_nonzero(requests < 0)),
    )


def propose(totals: Totals, plan: MetricPlan, current: int, tolerances: Tolerances) -> Proposal | None:
    """The proposal of a metric of a resource of whole pods; None where the ordinary way has more to say."""
    count, used = totals.counted, totals.used
    if count == 0 or not 0 <= used < _SAFE:
        return None
    if plan.average is None:
        target = plan.utilization or 1
        if totals.without_request or totals.requested <= 0:
            return None
        utilization = usage = used * 100 // totals.requested
    else:
        target, utilization = plan.average, 0
        usage = used // count
    ratio = usage / target
    if ratio > 1.0 and totals.waiting:
        # Pods that do not run yet are taken to use nothing.
        entries = count + totals.waiting
        whole = totals.requested + totals.waiting_requested
        assumed = (used * 100 // whole if plan.average is None else used // entries) / target
        wanted = math.ceil(assumed * entries)
        keep = tolerances.is_within(assumed) or assumed < 1.0 or wanted < current
        replicas = current if keep else wanted
    else:
        replicas = current if tolerances.is_within(ratio) else math.ceil(ratio * count)
    if replicas >= _INT32 or utilization >= _INT32:
        return None
    return Proposal(replicas, utilization, used // count)
