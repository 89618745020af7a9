"""SimKube traces (`.sktrace`, version 2): which objects were applied and deleted when, and how long their pods ran.

The file is one MessagePack map. Objects stay documents (mappings with apiVersion and kind), as a manifest would hold
them: whoever replays the trace decodes them like any other input. Times become seconds since the first event.

The format follows acrlabs/simkube (sk-core, exporter and store); the traces say which kinds they tracked.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown

from .series import Piecewise, held

VERSION: Final = 2
MAX_BYTES: Final = 200 * 10**6
_GZIP_MAGIC: Final = b"\x1f\x8b"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Which object: its kind as the trace writes it ("apps/v1.Deployment", "v1.Pod"), namespace and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """What happened at one moment: objects created or replaced, then objects deleted. `at`: seconds."""

    at: float
    applied: tuple[Document, ...]
    deleted: tuple[ObjectKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRun:
    """How long a pod ran, in seconds since the first event; `end` is None for one that still ran."""

    start: float
    end: float | None

    @property
    def duration(self) -> float | None:
        """Seconds; None for one that still ran."""
        return None if self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace that was read."""

    began: int
    """Time of the first event, nanoseconds since 1970."""
    tracked: tuple[str, ...]
    """The kinds that were recorded."""
    events: tuple[TraceEvent, ...]
    lifecycles: Mapping[ObjectKey, Mapping[int, tuple[PodRun, ...]]]
    """Owner -> hash of the pod's spec -> its runs: the k-th pod of that owner and hash ran like the k-th entry."""

    @property
    def duration(self) -> float:
        """Seconds from the first event to the last."""
        return self.events[-1].at

    def replicas(self, key: ObjectKey) -> Piecewise:
        """spec.replicas of an object over time: 1 where it says nothing, 0 while it is absent. Raises FieldError."""
        points: dict[float, float] = {0.0: 0.0}
        for event in self.events:
            for document in event.applied:
                if object_key(document) == key:
                    points[event.at] = _replicas(document)
            if key in event.deleted:
                points[event.at] = 0.0
        return held(list(points), list(points.values()))

    def durations(self, key: ObjectKey) -> tuple[float, ...]:
        """How long the finished pods of an owner ran, in order of their start. Empty: they run for ever."""
        runs = [run for group in self.lifecycles.get(key, {}).values() for run in group]
        runs.sort(key=lambda run: run.start)
        return tuple(run.duration for run in runs if run.duration is not None)


def read_trace(source: str) -> Trace:
    """Reads a trace, plain or gzip. Raises InputError with the file and the place in it."""
    try:
        document = msgspec.msgpack.decode(_bytes(source))
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise InputError(source, "", "", f"is not a SimKube trace (MessagePack): {error}") from None
    try:
        return _trace(document)
    except FieldError as error:
        raise InputError.of(source, "", error) from None


def _bytes(source: str) -> bytes:
    try:
        with Path(source).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(source, "", "", "no such file or folder") from None
    except (OSError, ValueError) as error:
        raise InputError(source, "", "", f"cannot be read: {error}") from None
    if data.startswith(_GZIP_MAGIC):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
                data = unpacked.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(source, "", "", f"is not valid gzip: {error}") from None
    if not data:
        raise InputError(source, "", "", "the file is empty")
    if len(data) > MAX_BYTES:
        raise InputError(source, "", "", f"is larger than {MAX_BYTES // 10**6} MB, the limit for traces")
    return data


def _trace(document: object) -> Trace:
    top = _mapping(document, "")
    version = top.get("version")
    if version != VERSION or isinstance(version, bool):
        raise FieldError("version", f"{shown(version)}: must be {VERSION}")
    raw = _list(top.get("events"), "events")
    if not raw:
        raise FieldError("events", "must have at least one event")
    began = _stamp(_mapping(raw[0], "events[0]").get("ts"), "events[0].ts")
    config = _mapping(top.get("config", {}), "config")
    tracked = _mapping(config.get("trackedObjects", {}), "config.trackedObjects")
    return Trace(
        began=began * 10**9,
        tracked=tuple(sorted(str(kind) for kind in tracked)),
        events=_events(raw, began),
        lifecycles=_lifecycles(top.get("pod_lifecycles", {}), began),
    )


def _events(raw: list[object], began: int) -> tuple[TraceEvent, ...]:
    events: list[TraceEvent] = []
    before = began
    for i, entry in enumerate(raw):
        place = f"events[{i}]"
        event = _mapping(entry, place)
        stamp = _stamp(event.get("ts"), f"{place}.ts")
        if stamp < before:
            raise FieldError(f"{place}.ts", f"{stamp} is {before - stamp} s before the event before it: must ascend")
        before = stamp
        events.append(
            TraceEvent(
                at=float(stamp - began),
                applied=tuple(_documents(event.get("applied_objs"), f"{place}.applied_objs")),
                deleted=tuple(
                    object_key(document) for document in _documents(event.get("deleted_objs"), f"{place}.deleted_objs")
                ),
            )
        )
    return tuple(events)


def _documents(raw: object, place: str) -> list[Document]:
    documents: list[Document] = []
    for i, entry in enumerate(_list(raw or [], place)):
        document = _mapping(entry, f"{place}[{i}]")
        try:
            object_key(document)
        except FieldError as error:
            raise FieldError(f"{place}[{i}].{error.field}", error.message) from None
        documents.append(document)
    return documents


def object_key(document: Document) -> ObjectKey:
    """The key of an object of a trace. Raises FieldError where apiVersion, kind or name are missing."""
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise FieldError(field, f"{shown(document.get(field))}: must be a text")
    metadata = _mapping(document.get("metadata"), "metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    if not isinstance(name, str) or not name:
        raise FieldError("metadata.name", f"{shown(name)}: must be a text")
    return ObjectKey(f"{document['apiVersion']}.{document['kind']}", str(namespace), name)


def _replicas(document: Document) -> float:
    spec = document.get("spec")
    count = spec.get("replicas", 1) if isinstance(spec, dict) else 1
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise FieldError("spec.replicas", f"{shown(count)}: must be a whole number of at least 0")
    return float(count)


def _lifecycles(raw: object, began: int) -> dict[ObjectKey, dict[int, tuple[PodRun, ...]]]:
    result: dict[ObjectKey, dict[int, tuple[PodRun, ...]]] = {}
    for owner, groups in _mapping(raw, "pod_lifecycles").items():
        place = f"pod_lifecycles[{shown(str(owner))}]"
        if not (isinstance(owner, tuple) and len(owner) == 2 and all(isinstance(part, str) for part in owner)):
            raise FieldError(place, "must be a kind and a namespace/name")
        namespace, _, name = owner[1].rpartition("/")
        key = ObjectKey(owner[0], namespace, name)
        result[key] = {
            _hash(number, place): tuple(_run(entry, f"{place}[{number}][{i}]", began) for i, entry in enumerate(runs))
            for number, runs in ((n, _list(r, f"{place}[{n}]")) for n, r in _mapping(groups, place).items())
        }
    return result


def _hash(number: object, place: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise FieldError(place, f"{shown(number)}: the hash of a pod's spec must be a whole number")
    return number


def _run(raw: object, place: str, began: int) -> PodRun:
    entry = _mapping(raw, place)
    if "Finished" in entry:
        times = _list(entry["Finished"], f"{place}.Finished")
        if len(times) != 2:
            raise FieldError(f"{place}.Finished", f"{len(times)} times: must be start and end")
        start, end = (_stamp(time, f"{place}.Finished[{i}]") for i, time in enumerate(times))
        if end < start:
            raise FieldError(f"{place}.Finished", f"ends {start - end} s before it starts")
        return PodRun(start=float(start - began), end=float(end - began))
    if "Running" in entry:
        return PodRun(start=float(_stamp(entry["Running"], f"{place}.Running") - began), end=None)
    raise FieldError(place, "must be Finished or Running")


def _stamp(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**11:
        raise FieldError(place, f"{shown(value)}: must be a time in whole seconds since 1970")
    return value


def _mapping(value: object, place: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise FieldError(place, f"{shown(value)}: must be a mapping")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise FieldError(place, f"{shown(value)}: must be a list")
    return list(value)
