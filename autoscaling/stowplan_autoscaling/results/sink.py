"""Where a run puts its results while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .records import EventRecord, Row
from .report import RunReport


class ResultSink(Protocol):
    """Takes results in the order of virtual time."""

    def row(self, row: Row) -> None:
        """One row of one of the tables."""

    def event(self, event: EventRecord) -> None:
        """One event."""

    def checkpoint(self, report: RunReport) -> None:
        """The state so far; it is not complete. Whatever came before must be readable from here on."""

    def finish(self, report: RunReport) -> None:
        """The end, complete or not. Nothing comes after it."""


class NullSink:
    """Keeps nothing; the report is all one gets."""

    def row(self, row: Row) -> None:
        """Not kept."""

    def event(self, event: EventRecord) -> None:
        """Not kept."""

    def checkpoint(self, report: RunReport) -> None:
        """Not kept."""

    def finish(self, report: RunReport) -> None:
        """Not kept."""


class MemorySink:
    """Keeps everything, for tests and notebooks."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.events: list[EventRecord] = []
        self.reports: list[RunReport] = []

    def row(self, row: Row) -> None:
        """Kept in `rows`."""
        self.rows.append(row)

    def event(self, event: EventRecord) -> None:
        """Kept in `events`."""
        self.events.append(event)

    def checkpoint(self, report: RunReport) -> None:
        """Kept in `reports`."""
        self.reports.append(report)

    def finish(self, report: RunReport) -> None:
        """Kept in `reports`."""
        self.reports.append(report)


class SinkGroup:
    """Passes everything on to several sinks."""

    def __init__(self, sinks: Sequence[ResultSink]) -> None:
        self._sinks = tuple(sinks)

    def row(self, row: Row) -> None:
        """To each."""
        for sink in self._sinks:
            sink.row(row)

    def event(self, event: EventRecord) -> None:
        """To each."""
        for sink in self._sinks:
            sink.event(event)

    def checkpoint(self, report: RunReport) -> None:
        """To each."""
        for sink in self._sinks:
            sink.checkpoint(report)

    def finish(self, report: RunReport) -> None:
        """To each."""
        for sink in self._sinks:
            sink.finish(report)
