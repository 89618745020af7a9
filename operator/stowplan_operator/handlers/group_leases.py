"""Takes away the Leases of groups of workers that are gone: nobody else would.

A Lease that its holder gave back goes at once. One that still names a holder, as after a crash, goes when it has not
changed for several times as long as any contender would wait. A deletion names the version that was looked at, so a
Lease that somebody takes at that moment stays.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from stowplan_operator.api.call import Call, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ConflictError, NotFoundError
from stowplan_operator.api.kinds import LEASES

from .listing import list_all
from .names import WORKER_PREFIX
from .observed import integer, mapping, text

log = logging.getLogger("stowplan.operator")

ABANDONED_DURATIONS: Final = 4
"""A Lease that was not renewed for so many of its durations has no holder any more."""

ABANDONED_SECONDS: Final = 60.0
"""But never sooner than after this."""

AGAIN_SECONDS: Final = 5.0
"""After a Lease was taken, or given back, in the moment of its deletion."""


class GroupLeases:
    """`clock`: seconds, monotonic; the times in Leases are those of other clocks, and are not looked at."""

    def __init__(self, client: ApiClient, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._groups: frozenset[str] | None = None
        """Those that there were when it was last looked; None: never."""
        self._again_at = math.inf
        self._held: dict[str, tuple[str, float]] = {}
        """Version and first sight of each Lease of a group that is gone, and that names a holder."""

    async def prune(self, groups: AbstractSet[str]) -> float:
        """Delete the Leases of all groups but these; seconds after which to call it again even so, 0: no need to.

        Asks the API server only if the groups are others than last time, or that time has come. Raises ApiError.
        """
        now = self._clock()
        if groups != self._groups or now >= self._again_at:
            waits = await self._prune(groups, now)
            self._groups, self._again_at = frozenset(groups), now + min(waits, default=math.inf)
        return 0.0 if math.isinf(self._again_at) else max(self._again_at - now, 0.001)

    async def _prune(self, groups: AbstractSet[str], now: float) -> list[float]:
        found, _ = await list_all(self._client, LEASES, self._namespace)
        held, waits = dict(self._held), []
        self._held.clear()
        for lease in found:
            name = text(mapping(lease.get("metadata")).get("name"))
            if not name.startswith(WORKER_PREFIX) or name.removeprefix(WORKER_PREFIX) in groups:
                continue
            spec, version = mapping(lease.get("spec")), text(mapping(lease.get("metadata")).get("resourceVersion"))
            if text(spec.get("holderIdentity")):
                known = held.get(name, ("", now))
                self._held[name] = known if known[0] == version else (version, now)
                patience = max(ABANDONED_DURATIONS * integer(spec.get("leaseDurationSeconds")), ABANDONED_SECONDS)
                wait = self._held[name][1] + patience - now
                if wait > 0:
                    waits.append(wait)
                    continue
            if not await self._delete(lease):
                waits.append(AGAIN_SECONDS)
        return waits

    async def _delete(self, lease: Mapping[str, Any]) -> bool:
        """Whether it is gone."""
        meta = mapping(lease.get("metadata"))
        name = text(meta.get("name"))
        unchanged = {"preconditions": {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion")}}
        reply = await self._client.call(Call("DELETE", LEASES.path(name, self._namespace), body=encode(unchanged)))
        if reply.is_success:
            log.info("deleted", extra={"kind": LEASES.kind, "object": name})
            return True
        error = reply.error()
        if isinstance(error, ConflictError):
            return False
        if isinstance(error, NotFoundError):
            return True
        raise error
