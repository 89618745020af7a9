"""What a run leaves behind: rows and events for a sink while it runs, and a report at the end."""

from __future__ import annotations

from .folder import FolderSink, read_summary
from .recorder import INTERRUPTED, Recorder, RunHeader, UnfinishedError
from .records import (
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    EventRecord,
    NodeRecord,
    NodeSample,
    PodRecord,
    PoolSample,
    Row,
    ServiceSample,
    SupplyRecord,
    Waiting,
    WorkloadSample,
)
from .report import SCHEMA, LoopReport, RunReport, report_bytes
from .sink import MemorySink, NullSink, ResultSink, SinkGroup
from .supply_tallies import Paid

__all__ = [
    "INTERRUPTED",
    "SCHEMA",
    "AttemptRecord",
    "AutoscalerSample",
    "ClusterSample",
    "EventRecord",
    "FolderSink",
    "LoopReport",
    "MemorySink",
    "NodeRecord",
    "NodeSample",
    "NullSink",
    "Paid",
    "PodRecord",
    "PoolSample",
    "Recorder",
    "ResultSink",
    "Row",
    "RunHeader",
    "RunReport",
    "ServiceSample",
    "SinkGroup",
    "SupplyRecord",
    "UnfinishedError",
    "Waiting",
    "WorkloadSample",
    "read_summary",
    "report_bytes",
]
