"""Runs an elector: sends what it asks for, watches its fence, and renews only while the owner shows signs of life.

The owner calls `beat` whenever its loop has gone round. Once that is longer ago than the renew deadline, nothing is
renewed and nothing new is taken: a worker that hangs loses its lease to one that does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import time
import uuid
from collections.abc import Callable
from typing import Final

import msgspec

from .backoff import Chance
from .call import Call, Reply, encode
from .client import ApiClient
from .election import SECOND, ElectionSettings, Elector, LeaseCreate, LeaseRead, LeaseRequest
from .kinds import LEASES

log = logging.getLogger(__name__)

_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Leadership(msgspec.Struct, frozen=True):
    """Whether we lead. `epoch`: how often the holder has changed; `version`: the resource version of our winning write.

    What informers show of a moment after `version` includes all that earlier leaders wrote.
    """

    leading: bool
    epoch: int
    version: str


Listener = Callable[[Leadership], None]
"""Told, in the event loop, when we begin to lead and when we stop; must not block."""


def steady_clock() -> int:
    """Nanoseconds that go on while the machine sleeps, where the system has such a clock: others' clocks go on too."""
    return time.clock_gettime_ns(_STEADY)


class LeaseRunner:
    """One contender, running. `leading` is the fence: ask it directly before every write.

    `clock`: nanoseconds that never go back; `wall`: nanoseconds since 1970.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: ElectionSettings,
        listener: Listener,
        *,
        rng: Chance | None = None,
        clock: Callable[[], int] = steady_clock,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client = client
        self._settings = settings
        self._listener = listener
        self._elector = Elector(settings, rng if rng is not None else random.Random())
        self._clock = clock
        self._wall = wall
        self._patience = int(settings.renew_deadline_seconds * SECOND)
        self._beat = clock()
        self._told = False
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._releasing = False

    # ---- for the owner -----------------------------------------------------------------------

    def beat(self) -> None:
        """The owner is alive."""
        self._beat = self._clock()

    @property
    def leading(self) -> bool:
        """Whether we lead at this moment, and the owner is alive."""
        now = self._clock()
        return self._elector.leading(now) and self._is_alive(now)

    @property
    def epoch(self) -> int:
        """How often the holder has changed when we became it; -1 before."""
        return self._elector.epoch

    @property
    def valid_until(self) -> int:
        """Until when we lead without another renewal, by the clock handed in; 0: we do not."""
        return self._elector.valid_until

    @property
    def holder(self) -> str:
        """Who holds the lease, as last seen; "" if nobody, or if that is not known."""
        return self._elector.holder

    async def run(self) -> None:
        """Contend until the lease is released, or this is cancelled, which gives nothing up."""
        while not self._elector.is_released:
            now = self._clock()
            self._tell(now)
            request = self._elector.step(now, self._wall()) if self._may_step(now) else None
            if request is not None:
                reply = await self._answer(request)
                self._elector.answered(reply, self._clock())
            elif not self._elector.is_released:
                await self._sleep(self._until(now))
        self._tell(self._clock())
        self._ended.set()

    async def release(self, *, patience: float = 5.0) -> None:
        """Stop leading now, and give the lease up for others to take at once; `run`, which must be running, returns.

        Gives up after `patience` seconds; then the lease runs out by itself.
        """
        self._elector.release()
        self._releasing = True
        self._tell(self._clock())
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._ended.wait()

    # ---- inside ------------------------------------------------------------------------------

    def _is_alive(self, now: int) -> bool:
        return now - self._beat < self._patience

    def _may_step(self, now: int) -> bool:
        return self._releasing or self._is_alive(now)

    def _tell(self, now: int) -> None:
        leading = self._elector.leading(now) and self._is_alive(now)
        if leading == self._told:
            return
        self._told = leading
        elector = self._elector
        log.info("leading" if leading else "not leading any more")
        self._listener(Leadership(leading, elector.epoch, elector.version))

    def _until(self, now: int) -> float:
        """Seconds until there is something to do: an attempt, the end of the fence, or a look at the owner's beat."""
        times = [now + int(self._settings.retry_period_seconds * SECOND)]
        wake_at = self._elector.wake_at()
        if wake_at is not None and self._may_step(now):
            times.append(wake_at)
        if self._told:
            times += [self._elector.valid_until, self._beat + self._patience]
        return max(min(times) - now, 0) / SECOND

    async def _answer(self, request: LeaseRequest) -> Reply:
        """Send, and say meanwhile when the fence ends."""
        sending = asyncio.ensure_future(self._send(request))
        try:
            while True:
                await asyncio.wait({sending}, timeout=self._until(self._clock()))
                if sending.done():
                    return sending.result()
                self._tell(self._clock())
        finally:
            sending.cancel()

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _send(self, request: LeaseRequest) -> Reply:
        settings = self._settings
        # Half the deadline: after one request that hangs there is time for another.
        timeout = settings.renew_deadline_seconds / 2
        path = LEASES.path(settings.name, settings.namespace)
        if isinstance(request, LeaseRead):
            return await self._client.call(Call("GET", path, timeout=timeout))
        body = encode(request.body)
        if isinstance(request, LeaseCreate):
            return await self._client.call(
                Call("POST", LEASES.path(namespace=settings.namespace), body=body, timeout=timeout)
            )
        return await self._client.call(Call("PUT", path, body=body, timeout=timeout))


def new_identity() -> str:
    """A name that no other process has: the host's, and a random UUID; client-go's form."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
