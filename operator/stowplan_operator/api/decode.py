"""From the bytes of a list or a watch to typed objects.

Objects are decoded straight into the core's structs, which leave out what nothing reads (managedFields above all). What
the server sends first in every line of a watch tells the type of the event; a BOOKMARK's object is no whole object of
its kind ("containers": null) and goes through a type of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from .call import Reply, reply_of_status
from .kinds import Resource

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed list."""


class UndecodableError(Exception):
    """An object, or an event, that is not what its kind says; the text says what and why."""


class WatchEvent(msgspec.Struct, frozen=True):
    """An object appeared, changed or went. `type`: ADDED, MODIFIED or DELETED."""

    type: str
    object: Any


class Bookmark(msgspec.Struct, frozen=True):
    """All events up to `version` were sent. `ends_list`: so were all objects of a streamed list."""

    version: str
    ends_list: bool = False


class WatchError(msgspec.Struct, frozen=True):
    """The server ends the watch."""

    reply: Reply


class ObjectList(msgspec.Struct, frozen=True):
    """One page of a list."""

    objects: list[Any]
    version: str
    next_page: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Any(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename={"next_page": "continue", "resource_version": "resourceVersion"}):
    resource_version: str = ""
    next_page: str | None = None


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_ENVELOPE: Final = msgspec.json.Decoder(_Any)
_BOOKMARKED: Final = msgspec.json.Decoder(_Named)
_PAGE: Final = msgspec.json.Decoder(_Page)
_OF_OBJECTS: Final = frozenset({ADDED, MODIFIED, DELETED})
_OTHERS: Final = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')


class ObjectDecoder:
    """Decodes what the server says of one kind. It keeps no state between calls."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._type = resource.type
        self._object = msgspec.json.Decoder(resource.type)
        event = msgspec.defstruct("Event", [("type", str), ("object", resource.type)], frozen=True, gc=False)
        self._event: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event)

    def object(self, data: bytes | msgspec.Raw) -> Any:
        """One object. Raises UndecodableError."""
        try:
            return self._object.decode(data)
        except msgspec.MsgspecError:
            return self._patiently(data)

    def event(self, line: bytes) -> WatchEvent | Bookmark | WatchError:
        """One line of a watch. Raises UndecodableError."""
        if not line.startswith(_OTHERS):
            try:
                found = self._event.decode(line)
            except msgspec.MsgspecError:
                pass  # looked at again below, more slowly
            else:
                if found.type in _OF_OBJECTS:
                    return WatchEvent(found.type, found.object)
        try:
            envelope = _ENVELOPE.decode(line)
        except msgspec.MsgspecError as error:
            raise UndecodableError(f"{self._resource.kind}: a watch event that is none: {error}") from None
        return self._of(envelope)

    def _of(self, envelope: _Any) -> WatchEvent | Bookmark | WatchError:
        if envelope.type == BOOKMARK:
            meta = _BOOKMARKED.decode(envelope.object).metadata
            if not meta.resource_version:
                raise UndecodableError(f"{self._resource.kind}: a bookmark without resourceVersion")
            return Bookmark(meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true")
        if envelope.type == "ERROR":
            return WatchError(reply_of_status(bytes(envelope.object)))
        if envelope.type not in _OF_OBJECTS:
            raise UndecodableError(f"{self._resource.kind}: a watch event of unknown type {envelope.type!r}")
        return WatchEvent(envelope.type, self.object(envelope.object))

    def page(self, data: bytes, skipped: Callable[[UndecodableError], None]) -> ObjectList:
        """One page of a list. An object that is not what its kind says is left out and told to `skipped`.

        Raises UndecodableError if the page itself is none.
        """
        try:
            page = _PAGE.decode(data)
        except msgspec.MsgspecError as error:
            raise UndecodableError(f"{self._resource.plural}: a list that is none: {error}") from None
        if not page.metadata.resource_version:
            # Such as a proxy's empty object, which must not be taken for "there is nothing".
            raise UndecodableError(f"{self._resource.plural}: a list without resourceVersion")
        objects = []
        for item in page.items or ():
            try:
                objects.append(self.object(item))
            except UndecodableError as error:
                skipped(error)
        return ObjectList(objects, page.metadata.resource_version, page.metadata.next_page or "")

    def _patiently(self, data: bytes | msgspec.Raw) -> Any:
        """An object in which null stands for absent, as it may wherever Go has a pointer, a list or a map."""
        try:
            raw = msgspec.json.decode(data)
            return msgspec.convert(_without_nulls(raw), self._type)
        except msgspec.MsgspecError as error:
            raise UndecodableError(f"{self._resource.kind} {_name_in(data)}: {error}") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


class _Head(msgspec.Struct, frozen=True):
    name: str = "(no name)"
    namespace: str = ""


class _Headed(msgspec.Struct, frozen=True):
    metadata: _Head = _Head()


def _name_in(data: bytes | msgspec.Raw) -> str:
    try:
        head = msgspec.json.decode(data, type=_Headed).metadata
    except msgspec.MsgspecError:
        return "(no name)"
    return f"{head.namespace}/{head.name}" if head.namespace else head.name
