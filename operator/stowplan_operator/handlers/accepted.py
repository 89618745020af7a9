"""The last good specification of each SchedulerProfile, kept where a restart finds it.

A profile whose newest specification is refused goes on with the last one that was good. Status says which generation
that is, but not what stood in it; so the specification itself is kept, in one ConfigMap in the operator's namespace:
one entry per profile, written in one piece and before any worker is told. A crash at any moment finds either the state
before or the state after.

A ConfigMap holds 1 MiB. As long as all entries fit as they are, they are text that people can read. If they do not, the
larger ones are compressed; that is room for more than a thousand profiles. What still does not fit is left out, the
largest first: these profiles run, but after a refused edit and a restart there is nothing that they could go back to.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .observed import integer, mapping, text

MOST_BYTES: Final = (1 << 20) - (16 << 10)
"""Of all values together. The API server's limit (MaxSecretSize in pkg/apis/core/validation) is a little more."""

READABLE_BYTES: Final = 1 << 10
"""An entry that is not longer than this is never compressed: that would save little."""

MOST_UNPACKED: Final = 4 << 20
"""Of one entry; more than any object that an API server stores."""

_FIELDS: Final = ("uid", "generation", "hash", "hashVersion", "spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A specification that was found good. `hash_version` says which function made `hash`."""

    name: str
    uid: str
    generation: int
    hash: str
    hash_version: int
    spec: Mapping[str, Any]


Memory = Mapping[str, Accepted]
"""By UID: a profile that was deleted and made anew under its name has no past."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The ConfigMap's `data` and `binaryData`, by name of the profile; what is compressed is in the latter.

    `left_out`: names of profiles for which there is no room.
    """

    data: Mapping[str, str] = field(default_factory=dict)
    binary: Mapping[str, bytes] = field(default_factory=dict)
    left_out: tuple[str, ...] = field(default=(), compare=False)


def encode_memory(memory: Memory, most: int = MOST_BYTES) -> Stored:
    """What is to stand in the ConfigMap. `most`: bytes of all values together."""
    data = {entry.name: _text(entry) for entry in sorted(memory.values(), key=lambda entry: entry.name)}
    sizes = {name: len(value.encode()) for name, value in data.items()}
    if sum(sizes.values()) <= most:
        return Stored(data)
    # No time in it: the same entries give the same bytes.
    binary = {
        name: gzip.compress(data[name].encode(), mtime=0) for name, size in sizes.items() if size > READABLE_BYTES
    }
    sizes |= {name: len(value) for name, value in binary.items()}
    left_out: list[str] = []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sum(sizes.values()) <= most:
            break
        left_out.append(name)
        del sizes[name]
    return Stored(
        {name: value for name, value in data.items() if name in sizes and name not in binary},
        {name: value for name, value in binary.items() if name in sizes},
        tuple(left_out),
    )


def _text(entry: Accepted) -> str:
    value = {
        "uid": entry.uid,
        "generation": entry.generation,
        "hash": entry.hash,
        "hashVersion": entry.hash_version,
        "spec": entry.spec,
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def decode_memory(stored: Stored) -> dict[str, Accepted]:
    """What the ConfigMap remembers. An entry that somebody spoilt is as good as none."""
    found: dict[str, Accepted] = {}
    for name, content in (*stored.data.items(), *((name, _unpacked(value)) for name, value in stored.binary.items())):
        try:
            value = mapping(json.loads(text(content)))
        except ValueError:
            continue
        if not all(key in value for key in _FIELDS) or not text(value["uid"]):
            continue
        found[text(value["uid"])] = Accepted(
            name=name,
            uid=text(value["uid"]),
            generation=integer(value["generation"]),
            hash=text(value["hash"]),
            hash_version=integer(value["hashVersion"]),
            spec=mapping(value["spec"]),
        )
    return found


def _unpacked(value: bytes) -> str:
    """The text of a compressed entry; "" if it is none, or longer than any of ours."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(value, MOST_UNPACKED)
        return found.decode() if unpacker.eof else ""
    except (zlib.error, UnicodeDecodeError):
        return ""
