"""What a run leaves behind: rows and events for a sink while it runs, and a report at the end."""

from __future__ import annotations

from .folder import FolderSink, read_summary
from .recorder import INTERRUPTED, Recorder, RunHeader, UnfinishedError
from .records import (
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    EventRecord,
    NodeSample,
    PodRecord,
    Row,
    ServiceSample,
    Waiting,
    WorkloadSample,
)
from .report import SCHEMA, RunReport, report_bytes
from .sink import MemorySink, NullSink, ResultSink, SinkGroup

__all__ = [
    "INTERRUPTED",
    "SCHEMA",
    "AttemptRecord",
    "AutoscalerSample",
    "ClusterSample",
    "EventRecord",
    "FolderSink",
    "MemorySink",
    "NodeSample",
    "NullSink",
    "PodRecord",
    "Recorder",
    "ResultSink",
    "Row",
    "RunHeader",
    "RunReport",
    "ServiceSample",
    "SinkGroup",
    "UnfinishedError",
    "Waiting",
    "WorkloadSample",
    "read_summary",
    "report_bytes",
]
