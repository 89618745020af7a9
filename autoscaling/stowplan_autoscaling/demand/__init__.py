"""Demand: load over time, and what it does to pods: CPU, memory, queues, latency.

`series` and `recorded` say how much arrives when, `arrivals` and `simkube` which single things happen; `service`,
`worker` and `batch` turn it into use. See docs/architecture/demand.md.
"""

from __future__ import annotations

from .arrivals import Arrivals, poisson_arrivals
from .batch import BatchModel, BatchRun
from .ceilings import ApiQuota, Bound, Ceiling, Connections, Partitions, PodIps
from .fleet import Fleet
from .ledger import Ledger
from .pods import PodColumns, PodModel, Startup
from .recorded import ReadOptions, Recording, read_recording
from .series import Piecewise, Repeated, Series, constant, diurnal, pulse, ramp, steps, total
from .service import Service, ServiceModel, ServiceSample
from .simkube import ObjectKey, Trace, TraceEvent, read_trace
from .worker import QueueSample, WorkerModel, WorkQueue

__all__ = [
    "ApiQuota",
    "Arrivals",
    "BatchModel",
    "BatchRun",
    "Bound",
    "Ceiling",
    "Connections",
    "Fleet",
    "Ledger",
    "ObjectKey",
    "Partitions",
    "Piecewise",
    "PodColumns",
    "PodIps",
    "PodModel",
    "QueueSample",
    "ReadOptions",
    "Recording",
    "Repeated",
    "Series",
    "Service",
    "ServiceModel",
    "ServiceSample",
    "Startup",
    "Trace",
    "TraceEvent",
    "WorkQueue",
    "WorkerModel",
    "constant",
    "diurnal",
    "poisson_arrivals",
    "pulse",
    "ramp",
    "read_recording",
    "read_trace",
    "steps",
    "total",
]
