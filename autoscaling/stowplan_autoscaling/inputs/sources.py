"""Finds and opens the files behind CLUSTER arguments: files, folders, `-` for standard input; plain or gzip.

What a file holds is recognised by its first bytes: JSON starts with a bracket, OpenB lists with their header;
everything else is YAML. The names `.yaml`, `.yml` and `.csv` settle it beforehand.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final, cast

from .errors import InputError

STDIN: Final = "-"
MANIFEST_SUFFIXES: Final = (".yaml", ".yml", ".json")
"""The files that are read inside a folder."""

MAX_YAML_BYTES: Final = 50 * 10**6
MAX_JSON_BYTES: Final = 10**9
MAX_CSV_BYTES: Final = 50 * 10**6

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PEEK: Final = 8192
_BUFFER: Final = 256 * 1024


class Format(Enum):
    """What a file holds."""

    YAML = "YAML"
    JSON = "JSON"
    CSV = "CSV"


_LIMITS: Final = {Format.YAML: MAX_YAML_BYTES, Format.JSON: MAX_JSON_BYTES, Format.CSV: MAX_CSV_BYTES}
"""Bytes after decompression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An open file: its name for messages, its format, and its bytes, decompressed and bounded."""

    name: str
    format: Format
    stream: BinaryIO


class Progress:
    """Adds up what has been read over all files and tells a callback: (bytes done, bytes in all, 0 if unknown)."""

    def __init__(self, callback: Callable[[int, int], None] | None, total: int) -> None:
        self._callback = callback
        self._total = total
        self._before = 0
        self.size = 0
        self._done = 0
        self.reading = 0.5
        """What reading the bytes of the current file counts for; making objects of them is the rest."""

    def start(self, size: int) -> None:
        """A file of `size` bytes on disk begins."""
        self._before += self.size
        self.size = size
        self._done = self._before
        self.reading = 0.5

    def at(self, fraction: float) -> None:
        """That fraction of the current file is done."""
        done = self._before + int(fraction * self.size)
        if self._callback is not None and done > self._done:
            self._done = done
            self._callback(done, self._total)


def find_files(sources: Sequence[str]) -> list[str]:
    """The files that the arguments name, in order; folders are walked in order of name, hidden files left out.

    Raises InputError for what does not exist, for a folder with nothing to read, and for no argument at all.
    """
    if not sources:
        raise InputError("", "", "", "no input: name a file, a folder, or - for standard input")
    if list(sources).count(STDIN) > 1:
        raise InputError(STDIN, "", "", "standard input can only be read once")
    found: list[str] = []
    for source in sources:
        if source != STDIN and Path(source).is_dir():
            found.extend(_files_in(source))
        else:
            found.append(source)
    return found


def _files_in(folder: str) -> list[str]:
    found: list[str] = []
    for parent, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found.extend(str(Path(parent, name)) for name in files if _is_manifest(name))
    if not found:
        raise InputError(folder, "", "", f"the folder holds no {', '.join(MANIFEST_SUFFIXES)} file, plain or gzipped")
    return sorted(found, key=lambda path: Path(path).parts)


def _is_manifest(name: str) -> bool:
    """OpenB lists are not picked up: their folder holds several that exclude each other."""
    return name.removesuffix(".gz").endswith(MANIFEST_SUFFIXES) and not name.startswith(".")


def _refuse(error: OSError) -> None:
    raise InputError(str(error.filename), "", "", f"cannot be read: {error.strerror}")


def size_of(name: str) -> int:
    """Bytes on disk; 0 for standard input, pipes and files that are not there."""
    try:
        return 0 if name == STDIN else Path(name).stat().st_size
    except (OSError, ValueError):
        return 0


@contextmanager
def open_source(name: str, *, max_bytes: int | None, stdin: BinaryIO | None, progress: Progress) -> Iterator[Opened]:
    """Opens a file for reading, decompressed. Reading it may raise InputError (too large, corrupt, unreadable).

    `max_bytes` replaces the limit of the format.
    """
    shown_name = "standard input" if name == STDIN else name
    try:
        with _raw(name, stdin) as raw:
            size = size_of(name)
            progress.start(size)
            stream = _decompressed(io.BufferedReader(_Counted(raw, size, progress), _BUFFER), shown_name)
            yield _opened(stream, shown_name, max_bytes)
    except OSError as error:
        message = (
            "no such file or folder" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        )
        raise InputError(shown_name, "", "", message) from None


@contextmanager
def _raw(name: str, stdin: BinaryIO | None) -> Iterator[BinaryIO]:
    if name != STDIN:
        try:
            file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - closed below
        except ValueError:  # a NUL in the name
            raise InputError(name, "", "", "no such file or folder") from None
        with file:
            yield cast("BinaryIO", file)
    elif stdin is None:
        raise InputError("standard input", "", "", "is not available here")
    else:
        yield stdin


def _decompressed(stream: io.BufferedReader, name: str) -> io.BufferedReader:
    if not stream.peek(2).startswith(_GZIP_MAGIC):
        return stream
    return io.BufferedReader(_Gunzipped(stream, name), _BUFFER)


def _opened(stream: io.BufferedReader, name: str, max_bytes: int | None) -> Opened:
    start = stream.peek(_PEEK)[:_PEEK]
    if start.startswith(_BYTE_ORDER_MARK):
        stream.read(len(_BYTE_ORDER_MARK))
        start = start.removeprefix(_BYTE_ORDER_MARK)
    if b"\0" in start:
        raise InputError(name, "", "", "is a binary file: YAML, JSON, or OpenB CSV in UTF-8 is expected")
    kind = _format(start, name.removesuffix(".gz"))
    limit = _LIMITS[kind] if max_bytes is None else max_bytes
    bounded = io.BufferedReader(_Bounded(stream, name, kind, limit), _BUFFER)
    return Opened(name=name, format=kind, stream=cast("BinaryIO", bounded))


def _format(start: bytes, name: str) -> Format:
    if name.endswith((".yaml", ".yml")):
        return Format.YAML
    if name.endswith(".csv"):
        return Format.CSV
    text = start.lstrip()
    if text.startswith((b"{", b"[")):
        return Format.JSON
    first_line = text.partition(b"\n")[0]
    return Format.CSV if b"," in first_line and b":" not in first_line and b"#" not in first_line else Format.YAML


class _Filter(io.RawIOBase):
    """A raw stream made from another one by `_next(size)`."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    @abstractmethod
    def _next(self, size: int) -> bytes:
        """The next bytes, at most `size` of them; none at the end."""


class _Counted(_Filter):
    """Passes bytes on and tells the progress how far the file is."""

    def __init__(self, stream: BinaryIO, size: int, progress: Progress) -> None:
        self._stream = stream
        self._size = size
        self._progress = progress
        self._read = 0

    def _next(self, size: int) -> bytes:
        data = self._stream.read(size) or b""
        self._read += len(data)
        if self._size:
            self._progress.at(self._read / self._size * self._progress.reading)
        return data


class _Gunzipped(_Filter):
    """Decompresses gzip; corrupt data becomes an InputError."""

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._file = gzip.GzipFile(fileobj=stream, mode="rb")
        self._name = name

    def _next(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(self._name, "", "", f"is not valid gzip: {error}") from None


class _Bounded(_Filter):
    """Refuses to read beyond a limit."""

    def __init__(self, stream: io.BufferedReader, name: str, kind: Format, limit: int) -> None:
        self._stream = stream
        self._name = name
        self._kind = kind
        self._left = limit
        self._limit = limit

    def _next(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            message = (
                f"is larger than {_size_text(self._limit)}, the limit for {self._kind.value}; --max-input changes it"
            )
            raise InputError(self._name, "", "", message)
        return data


def _size_text(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} bytes"
