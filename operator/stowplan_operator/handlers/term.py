"""One term of leadership: from the moment in which this operator acts to the one in which it stops.

It reads what it needs, has kopf watch, starts the workers, and then goes round: take in what is new, work out what
should be, write what differs, wait. However it ends, kopf and the workers have ended when `serve` returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stowplan_operator.api.backoff import Backoff
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ApiError
from stowplan_operator.api.events import EventWriter
from stowplan_operator.net import DEFAULT_RULES, UrlRules
from stowplan_operator.resources.url_checks import urls_in

from .choosing import Compiler
from .group_leases import GroupLeases
from .groups import GroupSettings
from .kopf_thread import KindGoneError, KopfThread
from .listing import OURS, list_all
from .memory_store import MemoryStore
from .metrics import OperatorMetrics
from .model_checking import ModelChecking
from .names import KINDS, NODE_POOL, PROFILE, SIMULATION
from .objects import Objects
from .observed import text
from .reconcile import Desired, Situation, reconcile
from .runtimes import Runtime
from .url_checking import UrlChecking
from .work_queue import WorkQueue
from .writing import StatusWriter

log = logging.getLogger("stowplan.operator")

LIST_SECONDS: Final = 300.0
"""Everything is listed so often, whatever the watch says."""

TOGETHER_SECONDS: Final = 0.05
"""What comes within so much time is looked at together."""

STUCK_SECONDS: Final = 120.0
"""A round that takes longer is stuck: writes are tried again for some time, but not for this long."""


class KopfEndedError(Exception):
    """kopf ended without being asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSettings:
    """What a term needs. `may_write` is the fence: asked before every write."""

    namespace: str
    groups: GroupSettings
    may_write: Callable[[], bool]
    urls: UrlRules = DEFAULT_RULES
    list_seconds: float = LIST_SECONDS


class Term:
    """Made when it begins, in the loop. `stop` ends it."""

    def __init__(
        self,
        client: ApiClient,
        events: EventWriter,
        objects: Objects,
        metrics: OperatorMetrics,
        compiler: Compiler,
        settings: TermSettings,
        runtime: Callable[[Callable[[], None]], Runtime],
    ) -> None:
        """`runtime` makes what runs the workers, given whom to tell of new reports."""
        self._client = client
        self._objects = objects
        self._metrics = metrics
        self._compiler = compiler
        self._settings = settings
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._queue = WorkQueue()
        self._runtime = runtime(self._wake.set)
        self._memory = MemoryStore(client, settings.namespace, self._wake.set)
        self._writer = StatusWriter(client, events, objects)
        self._leases = GroupLeases(client, settings.namespace)
        self._models = ModelChecking(self._wake.set)
        self._urls = UrlChecking(settings.urls, self._wake.set)
        loop = asyncio.get_running_loop()
        self._kopf = KopfThread(client.connection, self._queue.offer, lambda: _call_soon(loop, self._wake.set))
        self._backoff = Backoff(random.Random(), first=0.5, most=15.0, quiet=60.0)
        self._is_loaded = False
        self._list_at = 0.0
        self._again_at = math.inf
        self._round_began: float | None = None

    def stop(self) -> None:
        """Have it end."""
        self._stop.set()
        self._wake.set()

    @property
    def runtime(self) -> Runtime:
        """What runs the workers."""
        return self._runtime

    @property
    def is_settled_in(self) -> bool:
        """Whether everything was read once."""
        return self._is_loaded

    def stuck(self) -> str:
        """Why it counts as stuck; "" if it does not."""
        began = self._round_began
        if began is None or time.monotonic() - began < STUCK_SECONDS:
            return ""
        return f"a round takes {time.monotonic() - began:.0f} s already"

    async def serve(self) -> None:
        """Act until `stop`. Raises KopfEndedError."""
        beside = [
            asyncio.create_task(self._models.run(), name="checks of models"),
            asyncio.create_task(self._memory.watch(), name="watch of the memory"),
        ]
        try:
            while not self._stop.is_set():
                self._wake.clear()
                delay = await self._round()
                if not self._stop.is_set():
                    await self._wait(delay)
        finally:
            self._queue.close()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, self._urls.close(), return_exceptions=True)
            try:
                await self._end_kopf()
            finally:
                await self._runtime.close()

    # ---- rounds ------------------------------------------------------------------------------

    async def _round(self) -> float:
        """One round; seconds until the next one is due even if nothing happens."""
        self._round_began = time.monotonic()
        self._again_at = math.inf
        try:
            await self._take_in()
            self._check_kopf()
            desired = self._desired()
            await self._carry_out(desired)
        except KopfEndedError:
            raise
        except (ApiError, OSError) as error:
            delay = self._backoff.next(time.monotonic())
            self._metrics.errors.labels(type(error).__name__).inc()
            log.warning("not everything could be done", extra={"error": error, "again_in": round(delay, 1)})
            return delay
        except Exception as error:
            # A mistake of this program: the workers go on, and so does whatever does not meet it again.
            delay = self._backoff.next(time.monotonic())
            self._metrics.errors.labels(type(error).__name__).inc()
            log.exception("a round failed", extra={"again_in": round(delay, 1)})
            return delay
        finally:
            self._round_began = None
        self._backoff.reset()
        due = min(self._list_at, self._again_at)
        if desired.next_at is not None:
            due = min(due, time.monotonic() + (desired.next_at - time.time_ns()) / 1e9)
        return max(due - time.monotonic(), 0.0)

    async def _take_in(self) -> None:
        """All that is new. Raises ApiError."""
        if not self._is_loaded:
            await self._memory.load()
        if time.monotonic() >= self._list_at:
            for kind in KINDS:
                values, version = await list_all(self._client, OURS[kind])
                self._objects.replaced(kind, values, version)
            self._list_at = time.monotonic() + self._settings.list_seconds
        if not self._is_loaded:
            self._is_loaded = True
            self._kopf.start()
        for each in self._queue.take():
            meta = each.value["metadata"]
            if each.is_gone:
                self._objects.gone(each.kind, text(meta.get("name")), text(meta.get("uid")))
            else:
                self._objects.seen(each.kind, each.value)

    def _desired(self) -> Desired:
        models = [(kind, each) for kind in (NODE_POOL, SIMULATION) for each in self._objects.of(kind)]
        self._models.want(models)
        profiles = self._objects.of(PROFILE)
        self._urls.want(url for each in profiles if not each.is_deleting for _, url in urls_in(each.spec))
        situation = Situation(
            profiles=profiles,
            node_pools=self._objects.of(NODE_POOL),
            simulations=self._objects.of(SIMULATION),
            memory=self._memory.memory,
            reports=self._runtime.reports(),
            verdicts=self._models.verdicts,
            urls=self._urls.verdicts,
        )
        self._metrics.reconciliations.inc()
        with self._metrics.seconds.time():
            return reconcile(situation, self._compiler, self._settings.groups, time.time_ns())

    async def _carry_out(self, desired: Desired) -> None:
        """Write what differs, in the order that lets a crash at any moment be made up for. Raises ApiError, OSError."""
        if not self._may_go_on():
            return
        self._wait_for(await self._memory.save(desired.memory))
        if not self._may_go_on():
            return
        await self._runtime.apply(desired.groups)
        failed: ApiError | None = None
        for write in desired.statuses:
            if not self._may_go_on():
                return
            try:
                wait = await self._writer.write(write)
            except ApiError as error:
                # One object that cannot be written keeps no other from being written.
                log.warning("status not written", extra={"object": f"{write.kind} {write.name}", "error": error})
                failed = error
            else:
                self._wait_for(wait)
                if not wait:
                    self._metrics.writes.labels(write.kind).inc()
        if failed is not None:
            raise failed
        if self._may_go_on():
            # A worker that is being drained may still have to give its Lease back.
            groups = desired.groups.keys() | {report.group for report in self._runtime.reports()}
            self._wait_for(await self._leases.prune(groups))

    def _wait_for(self, seconds: float) -> None:
        """Another round is due by then at the latest; 0: for this nothing is to be waited for."""
        if seconds:
            self._again_at = min(self._again_at, time.monotonic() + seconds)

    def _may_go_on(self) -> bool:
        return not self._stop.is_set() and self._settings.may_write()

    async def _wait(self, seconds: float) -> None:
        """Until something happens, or the time is over."""
        wake = asyncio.ensure_future(self._wake.wait())
        queue = asyncio.ensure_future(self._queue.wait())
        try:
            await asyncio.wait({wake, queue}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wake.cancel()
            queue.cancel()
        if not self._stop.is_set():
            await asyncio.sleep(TOGETHER_SECONDS)

    # ---- kopf --------------------------------------------------------------------------------

    def _check_kopf(self) -> None:
        if self._kopf.has_ended and not self._kopf.was_stopped:
            failed = self._kopf.failed
            if isinstance(failed, KindGoneError):
                raise KopfEndedError(str(failed))
            raise KopfEndedError(f"the watch of stowplan.io ended: {failed or 'without saying why'}")

    async def _end_kopf(self) -> None:
        # One that failed may hang, which was to be expected (`KopfThread.failed`).
        if not await asyncio.to_thread(self._kopf.stop) and self._kopf.failed is None:
            log.warning("kopf did not end in time; it writes nothing, so the process goes on without it")


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """From another thread; the loop may have ended already."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)
