"""What a worker knows of the cluster: one reflector and one store for each kind, and changes in a good order.

At the start every kind is listed before anything is passed on, and pods come last: a pod whose namespace, service or
node is not known yet would be decided about otherwise. From then on each change is passed on as it comes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.decode import WatchEvent
from stowplan_operator.api.kinds import WATCHED, Resource
from stowplan_operator.api.reflector import Reflector
from stowplan_operator.api.store import Change, ChangeType, ObjectStore, number_of

from .machine import BARRIER_KINDS

log = logging.getLogger("stowplan.worker")

_LATE_GROUP: Final = "resource.k8s.io"
"""An API group that clusters before Kubernetes 1.34 do not serve in this version; they have no devices to claim."""


_PAUSE: Final = 1.0
"""Seconds between questions to an API server that is not there yet."""


class Sink(Protocol):
    """Who is told. Called in the event loop; must not block and must not raise."""

    def take(self, kind: str, changes: Sequence[Change], version: int) -> None:
        """These changes, in order, and nothing else of that kind up to `version`."""


class Informers:
    """The reflectors of one worker; also their handler."""

    def __init__(
        self,
        client: ApiClient,
        sink: Sink,
        *,
        kinds: Sequence[Resource] = WATCHED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kinds` in the order in which the sink is to be told of what is there at the start."""
        self._client = client
        self._sink = sink
        self._kinds = {resource.kind: resource for resource in kinds}
        self._stores = {kind: ObjectStore() for kind in self._kinds}
        self._clock = clock
        self._reflectors = {
            kind: Reflector(client, resource, self, clock=clock) for kind, resource in self._kinds.items()
        }
        self._listed: set[str] = set()
        self._told = False

    # ---- what is known -------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether every kind was listed and the sink was told."""
        return self._told

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The kinds that were not listed yet."""
        return tuple(kind for kind in self._kinds if kind not in self._listed)

    def ages(self) -> Mapping[str, float]:
        """Seconds since the API server last said anything, by kind that it serves."""
        now = self._clock()
        return {kind: now - reflector.last_heard for kind, reflector in self._reflectors.items()}

    def problems(self) -> Mapping[str, str]:
        """Why a kind cannot be listed or watched at the moment, by kind."""
        return {kind: reflector.last_error for kind, reflector in self._reflectors.items() if reflector.last_error}

    # ---- running -------------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch for ever."""
        await self._leave_out_what_is_not_served()
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"reflector of {kind}")

    def refresh(self, version: int) -> None:
        """Read anew what a leader before us may have changed up to `version`, unless that is known already.

        A list that is under way begins again: it may show an older state.
        """
        for kind in BARRIER_KINDS:
            reflector = self._reflectors[kind]
            if number_of(reflector.version) < version:
                reflector.refresh()

    async def _leave_out_what_is_not_served(self) -> None:
        late = [resource for resource in self._kinds.values() if resource.group == _LATE_GROUP]
        if not late:
            return
        question = Call("GET", f"/apis/{_LATE_GROUP}/{late[0].version}")
        told = ""
        while (reply := await self._client.call(question)).is_unknown or reply.status >= 500:
            if reply.message != told:
                told = reply.message
                log.warning("the API server does not answer", extra={"error": told})
            await asyncio.sleep(_PAUSE)
        if reply.status == 404:
            for resource in late:
                del self._reflectors[resource.kind]
                self._is_listed(resource.kind)

    # ---- the reflectors' handler -----------------------------------------------------------------

    def replaced(self, kind: str, objects: list[Any], version: str) -> None:
        """All objects of a kind, as of `version`."""
        changes = self._stores[kind].replace(objects, version)
        if self._told:
            self._sink.take(kind, changes, number_of(version))
        else:
            self._is_listed(kind)

    def changed(self, kind: str, type: str, object: Any, version: str) -> None:
        """One object changed."""
        changes = self._stores[kind].apply(WatchEvent(type, object))
        if self._told and changes:
            self._sink.take(kind, changes, number_of(version))

    def advanced(self, kind: str, version: str) -> None:
        """Nothing else happened up to `version`."""
        self._stores[kind].advance(version)
        if self._told:
            self._sink.take(kind, (), number_of(version))

    def _is_listed(self, kind: str) -> None:
        self._listed.add(kind)
        if len(self._listed) < len(self._kinds):
            return
        self._told = True
        for each in self._kinds:
            store = self._stores[each]
            self._sink.take(each, [Change(ChangeType.ADDED, None, object) for object in store], store.version)
