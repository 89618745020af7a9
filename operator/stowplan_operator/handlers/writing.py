"""Writes status where it differs from what is there, and the events that tell of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stowplan_operator.api.apply import apply_status
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ConflictError, NotFoundError
from stowplan_operator.api.events import EventRecord, EventWriter, ObjectReference

from .listing import OURS
from .names import API_VERSION, STATUS_MANAGER
from .objects import Objects
from .reconcile import StatusWrite
from .transitions import Happening
from .write_budget import WriteBudget

log = logging.getLogger("stowplan.operator")


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
