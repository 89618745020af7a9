"""The last good specification of each SchedulerProfile, kept where a restart finds it.

A profile whose newest specification is refused goes on with the last one that was good. Status says which generation
that is, but not what stood in it; so the specification itself is kept, in one ConfigMap in the operator's namespace:
one entry per profile, written in one piece and before any worker is told. A crash at any moment finds either the state
before or the state after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .observed import integer, mapping, text

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


def encode_memory(memory: Memory) -> dict[str, str]:
    """The `data` of the ConfigMap: JSON by name of the profile."""
    return {entry.name: _text(entry) for entry in sorted(memory.values(), key=lambda entry: entry.name)}


def _text(entry: Accepted) -> str:
    value = {
        "uid": entry.uid,
        "generation": entry.generation,
        "hash": entry.hash,
        "hashVersion": entry.hash_version,
        "spec": entry.spec,
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def decode_memory(data: Mapping[str, Any]) -> dict[str, Accepted]:
    """What the ConfigMap remembers. An entry that somebody spoilt is as good as none."""
    found: dict[str, Accepted] = {}
    for name, content in data.items():
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
