"""Logs of a worker: one JSON object, or one line of text, per record.

    {"ts":"2026-11-30T10:00:00.000000Z","level":"info","logger":"stowplan.worker","msg":"leading","epoch":3}

`msg` says what happened, the other fields say to what. What comes from a cluster (names, messages) is tenants' input:
control characters are taken out and long texts are cut.

The moments of pods (story.py) are many, so they go the short way: encoded at once, written together.
"""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any, Final

import msgspec

from .story import StoryRecord

STORY: Final = "stowplan.story"
"""The logger of the moments of pods."""

MAX_FIELD: Final = 256
"""Characters of a field. Names in Kubernetes have at most 253."""

MAX_MESSAGE: Final = 1024
"""Characters of a message; those of an API server and of a scheduler are sentences."""

_LONG: Final = frozenset({"message", "error", "why"})
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; all else was given with `extra`."""


def cleaned(text: str, limit: int = MAX_FIELD) -> str:
    """The text without control characters, and cut."""
    if not text.isprintable():
        text = "".join(char for char in text if char.isprintable())
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def timestamp(nanoseconds: int) -> str:
    """RFC 3339 with microseconds, in UTC; all of one length, so that texts are ordered as times are."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was given with `extra`, cleaned."""
    return {name: _field(name, value) for name, value in vars(record).items() if name not in _PLAIN}


def _field(name: str, value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return cleaned(str(value), MAX_MESSAGE if name in _LONG else MAX_FIELD)


def _message(record: logging.LogRecord) -> str:
    text = cleaned(record.getMessage(), MAX_MESSAGE)
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        text += f": {type(error).__name__}: {cleaned(str(error), MAX_MESSAGE)}"
    return text


def _time_of(record: logging.LogRecord) -> str:
    # A float has no nanoseconds of this century.
    return timestamp(round(record.created * 1e6) * 1000)


class JsonFormatter(logging.Formatter):
    """One JSON object per record; tracebacks become a field of their own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "ts": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _message(record),
            **fields_of(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """For people: time, level, message, then name=value. A traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, or more with a traceback."""
        fields = "".join(f" {name}={_quoted(value)}" for name, value in fields_of(record).items())
        text = f"{_time_of(record)} {record.levelname.lower():7} {_message(record)}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _quoted(value: object) -> str:
    text = str(value)
    return f'"{text}"' if " " in text or not text else text


def set_up_logging(form: str, level: str, stream: IO[str] | None = None) -> None:
    """Have all loggers write to `stream` (standard error), as "json" or "text", from a level on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class StoryLog:
    """Writes the moments of pods in the format of the other logs. `write` takes one; `flush` hands on what has come."""

    def __init__(self, form: str, stream: IO[str] | None = None, *, now: int) -> None:
        """`now`: the machine's clock at this moment, which records are stamped with."""
        self._json = form == "json"
        self._stream = stream or sys.stderr
        self._offset = time.time_ns() - now
        self._lines: list[str] = []
        self._is_on = logging.getLogger(STORY).isEnabledFor(logging.INFO)

    def write(self, record: StoryRecord) -> None:
        """Take one moment."""
        if not self._is_on:
            return
        ts = timestamp(record.now + self._offset)
        data = msgspec.json.encode(record)
        # An escape is a control character, a quote or a backslash; long lines have long messages.
        if b"\\" in data or len(data) > MAX_MESSAGE:
            record = _cleaned_record(record)
            data = msgspec.json.encode(record)
        if self._json:
            head = f'{{"ts":"{ts}","level":"info","logger":"{STORY}","msg":"{record.moment}",'
            self._lines.append(f"{head}{data[1:].decode()}\n")
        else:
            self._lines.append(f"{ts} info    {_sentence(record)}\n")

    def flush(self) -> None:
        """Write what has come."""
        if self._lines:
            self._stream.write("".join(self._lines))
            self._stream.flush()
            self._lines.clear()


def _cleaned_record(record: StoryRecord) -> StoryRecord:
    return msgspec.structs.replace(
        record,
        pod=cleaned(record.pod, 2 * MAX_FIELD),
        node=cleaned(record.node),
        profile=cleaned(record.profile),
        message=cleaned(record.message, MAX_MESSAGE),
    )


def _sentence(record: StoryRecord) -> str:
    parts = [f"pod {record.moment}", f"pod={record.pod}"]
    for name in ("node", "place", "message"):
        value = getattr(record, name)
        if value:
            parts.append(f"{name}={_quoted(value)}")
    return " ".join(parts)
