"""Writes what should be, where it differs from what is there: the memory, status, events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stowplan_operator.api.apply import apply_object, apply_status
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ConflictError, NotFoundError
from stowplan_operator.api.events import EventRecord, EventWriter, ObjectReference

from .accepted import Memory, decode_memory, encode_memory
from .listing import CONFIG_MAPS, OURS
from .names import API_VERSION, MANAGED_BY, MEMORY, OPERATOR_MANAGER, STATUS_MANAGER
from .objects import Objects
from .reconcile import StatusWrite
from .transitions import Happening
from .write_budget import WriteBudget

log = logging.getLogger("stowplan.operator")


class MemoryStore:
    """The ConfigMap with the last good specifications."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._data: dict[str, str] = {}
        self.memory: Memory = {}

    async def load(self) -> None:
        """Read it. Raises ApiError, but not if it is absent: then nothing is remembered."""
        reply = await self._client.call(Call("GET", CONFIG_MAPS.path(MEMORY, self._namespace)))
        if isinstance(error := None if reply.is_success else reply.error(), NotFoundError):
            self._data, self.memory = {}, {}
            return
        if error is not None:
            raise error
        self._data = dict(reply.json().get("data") or {})
        self.memory = decode_memory(self._data)

    async def save(self, memory: Memory) -> None:
        """Write it if it differs. Raises ApiError."""
        data = encode_memory(memory)
        if data != self._data:
            body = {"metadata": {"labels": {MANAGED_BY: "stowplan"}}, "data": data}
            await apply_object(
                self._client, CONFIG_MAPS, MEMORY, OPERATOR_MANAGER, body, namespace=self._namespace, force=True
            )
            self._data = data
        self.memory = memory


class StatusWriter:
    """Applies status, and has `objects` know what came of it. `clock`: seconds, monotonic."""

    def __init__(
        self,
        client: ApiClient,
        events: EventWriter,
        objects: Objects,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._events = events
        self._objects = objects
        self._clock = clock
        self._budget = WriteBudget()
        self._held_back: set[str] = set()
        """UIDs of objects of which that was said: once is enough."""

    async def write(self, write: StatusWrite) -> float:
        """Apply one status, and tell what there is to tell about it; 0, or the seconds that it has to wait.

        Raises ApiError if it may be tried again later.
        """
        wait = self._budget.spend(write.uid, self._clock())
        if wait:
            if write.uid not in self._held_back:
                self._held_back.add(write.uid)
                about = {"object": f"{write.kind} {write.name}"}
                log.warning("status changes too often: does somebody else write it, too?", extra=about)
            return wait
        await self._apply(write)
        return 0.0

    async def _apply(self, write: StatusWrite) -> None:
        try:
            # By force: what we write there is ours, whoever edited it by hand. Conditions of others are not touched.
            found = await apply_status(
                self._client,
                OURS[write.kind],
                write.name,
                write.uid,
                STATUS_MANAGER,
                {"status": write.status},
                force=True,
            )
        except NotFoundError:
            self._objects.gone(write.kind, write.name, write.uid)
            return
        except ConflictError:
            # Another object has its name now; the watch brings it.
            return
        self._objects.seen(write.kind, found)
        for each in write.happenings:
            log.info(
                "condition", extra={"object": f"{each.kind} {each.name}", "condition": each.action, "why": each.note}
            )
            self._events.emit(event_of(each))


def event_of(happening: Happening) -> EventRecord:
    """The event that tells of it."""
    return EventRecord(
        regarding=ObjectReference(api_version=API_VERSION, kind=happening.kind, name=happening.name, uid=happening.uid),
        type=happening.type,
        reason=happening.reason,
        action=happening.action,
        note=happening.note,
    )
