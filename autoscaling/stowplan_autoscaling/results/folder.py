"""A folder of results, written while a run goes on.

    summary.json            the report; "complete": false until the end
    events.jsonl            one JSON object per line
    pods.csv, attempts.csv  one line per pod, per attempt
    series/*.csv            workloads, services, autoscalers, nodes, cluster

At each checkpoint everything so far is on disk, and the summary says how far it goes. The bytes depend on the
simulation and its seed alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self, TextIO

import msgspec

from stowplan_autoscaling.inputs.errors import InputError

from .lines import lines_of
from .records import EVENTS_FILE, MEASURES_FILE, SUMMARY_FILE, TABLES, EventRecord, Row, header
from .report import SCHEMA, RunReport, report_bytes

_OURS: Final = (SUMMARY_FILE, EVENTS_FILE, MEASURES_FILE, *TABLES.values())
_BUFFER: Final = 256 * 1024
_BATCH: Final = 256
"""So many rows of a table are written at once."""


class FolderSink:
    """Writes a folder. An earlier result in it is replaced; a folder with anything else is refused (InputError)."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        _claim(self._folder)
        self._files: dict[str, TextIO] = {}
        self._rows: dict[type[Row], list[Row]] = {table: [] for table in TABLES}
        """By table: those that are not written yet."""
        for table, name in TABLES.items():
            self._open(name).write(",".join(header(table)) + "\n")
        self._events = self._open(EVENTS_FILE)

    def _open(self, name: str) -> TextIO:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8", newline="", buffering=_BUFFER)
        self._files[name] = file
        return file

    def row(self, row: Row) -> None:
        """A line of its table's file."""
        rows = self._rows[type(row)]
        rows.append(row)
        if len(rows) >= _BATCH:
            self._write(rows)

    def _write(self, rows: list[Row]) -> None:
        self._files[TABLES[type(rows[0])]].write(lines_of(rows))
        rows.clear()

    def _write_all(self) -> None:
        for rows in self._rows.values():
            if rows:
                self._write(rows)

    def event(self, event: EventRecord) -> None:
        """A line of events.jsonl."""
        record = {**event._asdict(), "seconds": round(event.seconds, 6)}
        self._events.write(msgspec.json.encode(record).decode() + "\n")

    def checkpoint(self, report: RunReport) -> None:
        """Everything so far is on disk, then the summary."""
        self._write_all()
        for file in self._files.values():
            file.flush()
        self._summarise(report)

    def finish(self, report: RunReport) -> None:
        """The same, and the files are closed."""
        self.close()
        self._summarise(report)

    def close(self) -> None:
        """Closes the files; the summary stays as it is. Does nothing after `finish`."""
        self._write_all()
        for file in self._files.values():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _summarise(self, report: RunReport) -> None:
        replace_file(self._folder / SUMMARY_FILE, report_bytes(report))


def replace_file(path: Path, data: bytes) -> None:
    """In one step: a reader finds the old file or the new one. Raises OSError."""
    draft = path.with_name(f"{path.name}.part")
    draft.write_bytes(data)
    draft.replace(path)


def _claim(folder: Path) -> None:
    """Makes the folder, and removes an earlier result from it. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir())
        if found and not _is_result(folder):
            raise InputError(
                str(folder), "", "", f"holds {found[0]} and no earlier result: name an empty or a new folder"
            )
        for name in _OURS:
            for path in (folder / name, (folder / name).with_suffix(".parquet")):
                path.unlink(missing_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(str(folder), "", "", "is no folder") from None
    except OSError as error:
        raise InputError(str(folder), "", "", f"cannot be written: {error.strerror}") from None


def _is_result(folder: Path) -> bool:
    try:
        summary = msgspec.json.decode((folder / SUMMARY_FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(summary, dict) and summary.get("schema") == SCHEMA


def read_summary(folder: str) -> RunReport:
    """The report of a folder. Raises OSError, msgspec.ValidationError."""
    return msgspec.json.decode((Path(folder) / SUMMARY_FILE).read_bytes(), type=RunReport)
