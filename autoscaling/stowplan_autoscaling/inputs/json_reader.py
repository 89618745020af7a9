"""Reads JSON: small files at once, large ones as a stream.

Up to `WHOLE_BYTES` a file is read into memory and each item is later decoded straight into its type. Beyond that ijson
walks through the `items` of the list, so that memory holds one item at a time beside what the earlier ones became.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import ijson  # type: ignore[import-untyped]
import msgspec
import numpy as np

from .errors import InputError
from .yaml_reader import check_utf8

WHOLE_BYTES: Final = 128 * 1024 * 1024
"""Files up to this size are decoded at once: ten times as fast, and the memory is bounded."""

MAX_DEPTH: Final = 500

_CHUNK: Final = 64 * 1024
_LIST_KIND: Final = re.compile(rb'"kind"\s*:\s*"([A-Za-z]+)List"')


class _ListHead(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    items: list[msgspec.Raw] | None = None


Item = tuple[int, str, str, Any]
"""Number from 1 (0: the file is this one object), kind and apiVersion that a list implies, value (Raw or decoded)."""


def read_json(stream: BinaryIO, source: str) -> Iterator[Item]:
    """Yields the objects of a JSON file: the items of a list, the entries of an array, or the one object.

    Raises InputError for malformed JSON.
    """
    data = stream.read(WHOLE_BYTES + 1)
    if len(data) <= WHOLE_BYTES:
        return _read_whole(data, source)
    return _read_stream(data, stream, source)


def _read_whole(data: bytes, source: str) -> Iterator[Item]:
    is_array = data.lstrip()[:1] == b"["
    try:
        if is_array:
            items, kind, version = msgspec.json.decode(data, type=list[msgspec.Raw]), "", ""
        else:
            head = msgspec.json.decode(data, type=_ListHead)
            if head.items is None or not (head.kind or "").endswith("List"):
                yield 0, "", "", msgspec.Raw(data)
                return
            items = head.items
            kind, version = _implied(head.kind or "", head.api_version or "")
    except msgspec.ValidationError as error:
        raise InputError(source, "", "", f"not a list of Kubernetes objects: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(error, data, source) from None
    for number, raw in enumerate(items, start=1):
        yield number, kind, version, raw


def _implied(list_kind: str, version: str) -> tuple[str, str]:
    """What a typed list (PodList) says about its items: the API server leaves kind and apiVersion of those away."""
    kind = list_kind.removesuffix("List")
    return (kind, version) if kind else ("", "")


def malformed(error: Exception, data: bytes, source: str) -> InputError:
    """An InputError with line and column for an error of msgspec's decoder."""
    if isinstance(error, RecursionError):
        return InputError(source, "", "", f"nested too deeply: at most {MAX_DEPTH} levels are allowed")
    if "UTF-8" in str(error):
        try:
            check_utf8(data, source)
        except InputError as exact:
            return exact
    text = str(error).removeprefix("JSON is malformed: ")
    found = re.search(r" ?\(byte (\d+)\)", text)
    if found is None:
        return InputError(source, "", "", f"not valid JSON: {text}")
    position = int(found[1])
    line = data.count(b"\n", 0, position) + 1
    column = position - data.rfind(b"\n", 0, position)
    return InputError(source, "", "", f"not valid JSON (line {line}, column {column}): {text[: found.start()]}")


def _read_stream(head: bytes, rest: BinaryIO, source: str) -> Iterator[Item]:
    is_array = head.lstrip()[:1] == b"["
    # The kind of a typed list stands before its items where the API server wrote it; kubectl's List implies none.
    found = None if is_array else _LIST_KIND.search(head.partition(b'"items"')[0])
    kind = found[1].decode() if found else ""
    reader = _DepthGuard(head, rest, source)
    number = 0
    try:
        for number, value in enumerate(
            ijson.items(reader, "item" if is_array else "items.item", use_float=True), start=1
        ):
            yield number, kind, "", value
    except ijson.JSONError as error:
        text = str(error).removeprefix("b'").split("\\n")[0].splitlines()[0]
        if "UTF8" in text:
            raise InputError(source, "", "", f"not UTF-8 text after item {number}: input must be UTF-8") from None
        raise InputError(source, "", "", f"not valid JSON after item {number}: {text}") from None
    if number == 0:
        raise InputError(source, "", "items", "a JSON file of this size must be a List with items")


class _DepthGuard:
    """Hands chunks to ijson and refuses brackets that are nested too deeply, which ijson pays for with the square.

    Strings are cut out chunk by chunk: escapes go first, then every second part between quotes is text.
    """

    _STEPS: Final = np.zeros(256, dtype=np.int8)
    _STEPS[[ord("{"), ord("[")]] = 1
    _STEPS[[ord("}"), ord("]")]] = -1
    _REST: Final = bytes(byte for byte in range(256) if byte not in b"{}[]")

    def __init__(self, head: bytes, rest: BinaryIO, source: str) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest
        self._source = source
        self._depth = 0
        self._in_string = 0
        self._carry = b""

    def read(self, size: int) -> bytes:
        """The next chunk, of whatever size is at hand; empty at the end, and where nothing is asked for."""
        if size == 0:  # ijson looks whether it gets bytes or text
            return b""
        chunk = self._head.read(_CHUNK) or self._rest.read(_CHUNK)
        self._watch(chunk)
        return chunk

    def _watch(self, chunk: bytes) -> None:
        data = self._carry + chunk
        self._carry = b""
        if b"\\" in data:
            if (len(data) - len(data.rstrip(b"\\"))) % 2:
                data, self._carry = data[:-1], b"\\"
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = data.split(b'"')
        brackets = b"".join(parts[self._in_string :: 2]).translate(None, self._REST)
        self._in_string ^= (len(parts) - 1) & 1
        if not brackets:
            return
        depths = np.cumsum(self._STEPS[np.frombuffer(brackets, dtype=np.uint8)], dtype=np.int64) + self._depth
        if int(depths.max()) > MAX_DEPTH:
            raise InputError(self._source, "", "", f"nested too deeply: at most {MAX_DEPTH} levels are allowed")
        self._depth = int(depths[-1])
