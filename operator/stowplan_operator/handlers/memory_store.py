"""The ConfigMap with the last good specifications: read at the start, written where it differs, watched in between.

Whoever deletes it, or edits it, takes from profiles what they could go back to; so it is put right at once.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from stowplan_operator.api.apply import apply_object
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import NotFoundError
from stowplan_operator.api.reflector import DELETED, Reflector
from stowplan_operator.api.store import number_of

from .accepted import Memory, Stored, decode_memory, encode_memory
from .listing import CONFIG_MAPS
from .names import MANAGED_BY, MEMORY, OPERATOR_MANAGER
from .observed import mapping, text
from .write_budget import WriteBudget

log = logging.getLogger("stowplan.operator")

_WATCHED: Final = msgspec.structs.replace(CONFIG_MAPS, field_selector=f"metadata.name={MEMORY}")


class MemoryStore:
    """`changed` is told when somebody else has changed the ConfigMap: `save` then puts it right.

    `clock`: seconds, monotonic.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._changed = changed
        self._clock = clock
        self._there = Stored()
        self._version = 0
        """The resource version at which `_there` was so."""
        self._written: Stored | None = None
        self._budget = WriteBudget()
        self.memory: Memory = {}

    async def load(self) -> None:
        """Read it. Raises ApiError, but not if it is absent: then nothing is remembered."""
        reply = await self._client.call(Call("GET", CONFIG_MAPS.path(MEMORY, self._namespace)))
        if isinstance(error := None if reply.is_success else reply.error(), NotFoundError):
            self._there = Stored()
        elif error is not None:
            raise error
        else:
            self._see(reply.json())
        self.memory = decode_memory(self._there)

    async def save(self, memory: Memory) -> float:
        """Write it if it differs; 0, or the seconds that this has to wait. Raises ApiError."""
        stored = encode_memory(memory)
        if self._written is None or stored.left_out != self._written.left_out:
            self._tell(stored.left_out)
        if stored != self._there:
            if stored == self._written:
                # Somebody else wrote it, perhaps another operator, which would do the same.
                wait = self._budget.spend(MEMORY, self._clock())
                if wait:
                    return wait
                log.warning("the last good profiles were changed by somebody else, and are put right")
            await self._write(stored)
        self._written, self.memory = stored, memory
        return 0.0

    async def watch(self) -> None:
        """Notice what others do to it, until cancelled."""
        await Reflector(self._client, _WATCHED, self, namespace=self._namespace).run()

    async def _write(self, stored: Stored) -> None:
        body: dict[str, Any] = {
            "metadata": {"labels": {MANAGED_BY: "stowplan"}},
            "data": dict(stored.data),
            "binaryData": {name: base64.b64encode(value).decode() for name, value in stored.binary.items()},
        }
        found = await apply_object(
            self._client, CONFIG_MAPS, MEMORY, OPERATOR_MANAGER, body, namespace=self._namespace, force=True
        )
        self._there, self._version = stored, _version(found)

    @staticmethod
    def _tell(left_out: tuple[str, ...]) -> None:
        if left_out:
            log.error(
                "there is no room to remember these profiles: after a refused edit and a restart they will not run",
                extra={"profiles": ", ".join(left_out)},
            )

    # ---- the reflector's handler -------------------------------------------------------------

    def replaced(self, kind: str, objects: list[Any], version: str) -> None:
        """It is there, or not."""
        if objects:
            self._heard(objects[0])
        else:
            self._gone(number_of(version))

    def changed(self, kind: str, type: str, object: Any, version: str) -> None:
        """Somebody wrote it; we, perhaps."""
        if type == DELETED:
            self._gone(number_of(version))
        else:
            self._heard(object)

    def advanced(self, kind: str, version: str) -> None:
        """Nothing happened to it."""

    def _heard(self, value: Mapping[str, Any]) -> None:
        if _version(value) > self._version and self._see(value):
            self._changed()

    def _gone(self, version: int) -> None:
        # What is older than our last write was made up for by it.
        if version > self._version and self._there != Stored():
            self._there, self._version = Stored(), version
            self._changed()

    def _see(self, value: Mapping[str, Any]) -> bool:
        """Whether that is news."""
        before, self._there, self._version = self._there, _stored(value), _version(value)
        return self._there != before


def _stored(value: Mapping[str, Any]) -> Stored:
    data = {name: text(content) for name, content in mapping(value.get("data")).items()}
    return Stored(data, {name: _bytes(content) for name, content in mapping(value.get("binaryData")).items()})


def _bytes(content: object) -> bytes:
    try:
        return base64.b64decode(text(content), validate=True)
    except binascii.Error:
        return b""


def _version(value: Mapping[str, Any]) -> int:
    return number_of(text(mapping(value.get("metadata")).get("resourceVersion")))
