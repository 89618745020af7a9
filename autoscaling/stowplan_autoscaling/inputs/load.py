"""Reads CLUSTER arguments into one ClusterInput."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import msgspec

from .collect import ClusterInput, Collector, Place
from .errors import FieldError, InputError
from .json_reader import WHOLE_BYTES, read_json
from .openb import read_openb
from .sources import Format, Opened, Progress, find_files, open_source, size_of
from .yaml_reader import read_yaml

_REPORT_EVERY = 1000


def load_cluster(
    sources: Sequence[str],
    *,
    max_input_bytes: int | None = None,
    stdin: BinaryIO | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ClusterInput:
    """Reads files, folders and standard input (`-`): manifests, dumps of kubectl, OpenB lists, in any mix.

    `max_input_bytes` replaces the limits on the size of each file after decompression (YAML and CSV 50 MB, JSON 1 GB).
    `progress` is told the bytes done and the bytes in all (0 where a size is not known).

    Raises InputError for whatever cannot be used.
    """
    files = find_files(sources)
    sizes = [size_of(name) for name in files]
    meter = Progress(progress, sum(sizes))
    collector = Collector()
    for name in files:
        with open_source(name, max_bytes=max_input_bytes, stdin=stdin, progress=meter) as opened:
            _READERS[opened.format](opened, collector, meter)
        meter.at(1.0)
    return collector.build(sources[0] if len(sources) == 1 else "input")


def _load_yaml(opened: Opened, collector: Collector, meter: Progress) -> None:
    data = opened.stream.read()
    if (value := _json_in_yaml(data)) is not None:
        collector.add(value, Place(opened.name, "document", 1))
        return
    for document in read_yaml(data, opened.name):
        collector.add(document.value, Place(opened.name, "document", document.number))
        meter.at((1 + document.end) / 2)


def _json_in_yaml(data: bytes) -> Any:
    """The value of a file that is named YAML and holds JSON, else None. YAML reads almost all JSON too, but slowly."""
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _load_json(opened: Opened, collector: Collector, meter: Progress) -> None:
    if meter.size > WHOLE_BYTES:
        meter.reading = 1.0  # what is read is made into objects at once
    for number, kind, version, value in read_json(opened.stream, opened.name):
        collector.add(value, Place(opened.name, "item", number) if number else Place(opened.name), kind, version)


def _load_csv(opened: Opened, collector: Collector, meter: Progress) -> None:
    for count, (line, obj) in enumerate(read_openb(opened.stream, opened.name, collector.warn)):
        place = Place(opened.name, "line", line)
        kind = type(obj).__name__
        try:
            collector.add_object(kind, obj, place, dumped=True)
        except FieldError as error:
            raise InputError.of(str(place), f"{kind} {obj.metadata.name}", error) from None
        if count % _REPORT_EVERY == 0:
            meter.at(0.5)


_READERS: dict[Format, Callable[[Opened, Collector, Progress], None]] = {
    Format.YAML: _load_yaml,
    Format.JSON: _load_json,
    Format.CSV: _load_csv,
}
