"""Which events are written: the first of its kind is, of those that follow only their number and the last one's time.

Pure: told of events with the time, it says what to write. Follows client-go's tools/events/event_broadcaster.go
(v0.37.2): the second event makes a series of the first (one patch), further ones are only counted, the count is written
every 30 minutes and once more when a series has ended, that is, when nothing came for 6 minutes. Unlike there, what is
remembered is bounded: the oldest is forgotten first.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .kinds import EVENTS
from .micro_time import micro_time

MINUTE: Final = 60_000_000_000
FINISH_TIME: Final = 6 * MINUTE
REFRESH_TIME: Final = 30 * MINUTE

REMEMBERED: Final = 10_000
"""Events that a repetition can still find; some 10 MB."""

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_NOTE_BYTES: Final = 1024
_NAME_LENGTH: Final = 253
_DEFAULT_NAMESPACE: Final = "default"


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an event is about. `namespace` "" for an object that has none."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `type`: Normal or Warning; `reason` and `action` must not be empty; `note` is cut to 1024 bytes.

    `controller`: who reports it, as the profile's schedulerName; "" for the writer's own name.
    """

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    related: ObjectReference | None = None
    controller: str = ""


class EventWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One write. `patch` None: create `body`; else patch the event, and create `body` should it be gone."""

    namespace: str
    name: str
    body: dict[str, Any]
    patch: dict[str, Any] | None = None


class _Known(msgspec.Struct):
    """An event that was written, and what came after it."""

    record: EventRecord
    name: str
    time: int
    count: int = 1
    last: int = 0
    written: int = 1


_Key = tuple[str, str, str, str, ObjectReference, ObjectReference | None]


class EventSeries:
    """The events of one reporter. `controller` and `instance`: reportingController and reportingInstance.

    Times are nanoseconds since 1970.
    """

    def __init__(self, controller: str, instance: str, *, remembered: int = REMEMBERED) -> None:
        self._controller = controller
        self._instance = instance
        self._remembered = remembered
        self._known: dict[_Key, _Known] = {}
        self._last_stamp = 0
        self._refreshed: int | None = None
        self._finished: int | None = None

    def __len__(self) -> int:
        return len(self._known)

    def record(self, record: EventRecord, now: int) -> list[EventWrite]:
        """Take one event. Usually one write, or none; a second one for what has to be forgotten."""
        # The note is not part of it, as upstream: a series keeps the note of its first event.
        key = (record.type, record.action, record.reason, record.controller, record.regarding, record.related)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(record, self._name(record.regarding.name, now), now)
            return [self._write(known), *self._forget_oldest()]
        known.count += 1
        known.last = now
        return [self._series(known)] if known.count == 2 else []

    def tick(self, now: int) -> list[EventWrite]:
        """What is due: call about once a minute."""
        if self._finished is None or self._refreshed is None:
            self._finished = self._refreshed = now
        writes = []
        if now - self._finished >= FINISH_TIME:
            self._finished = now
            for key, known in list(self._known.items()):
                if now - max(known.time, known.last) > FINISH_TIME:
                    del self._known[key]
                    writes += self._outstanding(known)
        if now - self._refreshed >= REFRESH_TIME:
            self._refreshed = now
            # Written even if nothing came since: it keeps the server from throwing the event away.
            writes += [self._series(known) for known in self._known.values() if known.count > 1]
        return writes

    def close(self) -> list[EventWrite]:
        """The counts that are still to be written, at the end."""
        writes = [write for known in self._known.values() for write in self._outstanding(known)]
        self._known.clear()
        return writes

    def _forget_oldest(self) -> list[EventWrite]:
        if len(self._known) <= self._remembered:
            return []
        return self._outstanding(self._known.pop(next(iter(self._known))))

    def _outstanding(self, known: _Known) -> list[EventWrite]:
        return [self._series(known)] if known.count > known.written else []

    def _series(self, known: _Known) -> EventWrite:
        known.written = known.count
        return self._write(known)

    def _name(self, name: str, now: int) -> str:
        """As upstream's GenerateEventName: the object's name and the time, in hex; never the same twice."""
        self._last_stamp = max(self._last_stamp + 1, now)
        suffix = f".{self._last_stamp:x}"
        return name[: _NAME_LENGTH - len(suffix)].rstrip("-.") + suffix

    def _write(self, known: _Known) -> EventWrite:
        record = known.record
        namespace = record.regarding.namespace or _DEFAULT_NAMESPACE
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": known.name, "namespace": namespace},
            "eventTime": micro_time(known.time),
            "reportingController": record.controller or self._controller,
            "reportingInstance": self._instance,
            "type": record.type,
            "reason": record.reason,
            "action": record.action,
            "note": record.note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "regarding": record.regarding,
        }
        if record.related is not None:
            body["related"] = record.related
        if known.count == 1:
            return EventWrite(namespace=namespace, name=known.name, body=body)
        series = {"count": known.count, "lastObservedTime": micro_time(known.last)}
        patch = {"series": series}
        return EventWrite(namespace=namespace, name=known.name, body={**body, "series": series}, patch=patch)
