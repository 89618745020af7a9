"""What is known of one kind: turns lists and events into changes, whatever was lost, repeated or came late.

No IO and no clock. A list is compared with what was known, so that what happened between two watches comes out as
changes too, deletions included. Versions of one kind are ordered (they are numbers since Kubernetes v1.35), so that an
event which is not newer than what was heard last says nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from stowplan_scheduler.objects import Pod, key_of

from .decode import DELETED, WatchEvent
from .sharing import with_parts_of


class ChangeType(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, frozen=True):
    """One change. `old` is None for ADDED; for DELETED `old` is what was known and `new` is None."""

    type: ChangeType
    old: Any
    new: Any


class ObjectStore:
    """The objects of one kind by key (namespace/name, or the name), and the version up to which they are known."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._version = 0

    @property
    def objects(self) -> Mapping[str, Any]:
        """The objects by key; not to be changed."""
        return self._objects

    @property
    def version(self) -> int:
        """Everything up to this resource version is known."""
        return self._version

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._objects.values())

    def replace(self, objects: Iterable[Any], version: str) -> list[Change]:
        """Take a list as it was at `version` for everything there is.

        Deletions come first, in the order in which the objects had come, then what is new or changed in the order of
        the list. A key whose UID changed is a deletion and an addition.
        """
        found = {key_of(each.metadata): each for each in objects}
        changes: list[Change] = []
        for key, old in self._objects.items():
            new = found.get(key)
            if new is None or new.metadata.uid != old.metadata.uid:
                changes.append(Change(ChangeType.DELETED, old, None))
        for key, new in found.items():
            old = self._objects.get(key)
            if old is None or old.metadata.uid != new.metadata.uid:
                changes.append(Change(ChangeType.ADDED, None, new))
            elif old.metadata.resource_version != new.metadata.resource_version:
                new = found[key] = _sharing(old, new)
                changes.append(Change(ChangeType.MODIFIED, old, new))
            else:
                # What did not change stays the same object: whoever compares by identity sees that.
                found[key] = old
        self._objects = found
        self._version = number_of(version)
        return changes

    def apply(self, event: WatchEvent) -> list[Change]:
        """Take one event: no change if it is old, two if another object has taken the name unseen."""
        new = event.object
        version = number_of(new.metadata.resource_version)
        if version <= self._version:
            return []
        self._version = version
        key = key_of(new.metadata)
        old = self._objects.get(key)
        if event.type == DELETED:
            if old is None:
                return []
            # A deletion of an unknown successor means that the known one is gone as well.
            del self._objects[key]
            return [Change(ChangeType.DELETED, old, None)]
        if old is None:
            self._objects[key] = new
            return [Change(ChangeType.ADDED, None, new)]
        if old.metadata.uid == new.metadata.uid:
            new = self._objects[key] = _sharing(old, new)
            return [Change(ChangeType.MODIFIED, old, new)]
        # Its place is at the end, as that of anything new.
        del self._objects[key]
        self._objects[key] = new
        return [Change(ChangeType.DELETED, old, None), Change(ChangeType.ADDED, None, new)]

    def advance(self, version: str) -> None:
        """A bookmark: nothing happened up to `version` that is not known."""
        self._version = max(self._version, number_of(version))


def _sharing(old: Any, new: Any) -> Any:
    return with_parts_of(old, new) if isinstance(new, Pod) else new


def number_of(version: str) -> int:
    """A resource version as a number; 0 for none, or for one that is no number."""
    return int(version) if version.isdecimal() else 0
