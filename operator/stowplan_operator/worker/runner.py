"""The asyncio shell of a worker: watches in, requests out, one loop for time and scheduling cycles.

    reflectors -> Informers -> machine -> Carrier -> API server
                                  ^                     |
                                  +------- answers -----+

The machine is told of a change or an answer in the very call that brings it, so whatever has arrived is known before
the next cycle. The loop runs cycles for a few milliseconds and then lets the network have its turn: requests leave and
answers come while the next pods are being tried.

A task that breaks ends the worker: it is started again by whoever runs it, and begins with a fresh view.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from stowplan_operator.api.client import USER_AGENT, ApiClient
from stowplan_operator.api.connection import Connection
from stowplan_operator.api.election import ElectionSettings
from stowplan_operator.api.events import EventWriter
from stowplan_operator.api.lease_runner import Leadership, LeaseRunner, new_identity
from stowplan_operator.api.store import Change, number_of
from stowplan_operator.garbage import relax_collector
from stowplan_operator.serving import Pages, PageServer
from stowplan_scheduler.config import ConfigurationError
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.profiles import plugin_traits

from .carrier import Carrier
from .configuration import LoadedConfiguration
from .informers import Informers
from .logs import StoryLog
from .machine import WorkerMachine
from .measures import MachineStates, Measures
from .metrics import WorkerMetrics
from .pod_resources import pod_resources
from .reload import ConfigurationFile
from .requests import Answer, Request
from .self_check import SelfCheck
from .states import WorkerStates
from .story import StoryRecord

log = logging.getLogger("stowplan.worker")

TURN: Final = 4_000_000
"""Nanoseconds of cycles before the network has its turn. Answers wait no longer than this."""

LONGEST_WAIT: Final = 0.5
"""Seconds; the loop comes round at least so often, and says so: it is the worker's heartbeat."""

STUCK: Final = 30.0
"""Seconds without a heartbeat after which the worker counts as stuck. The first list of a large cluster takes some."""

LOOK: Final = 1.0
"""Seconds between looks at the configuration's file."""

DRAIN: Final = 15.0
"""Seconds that binds under way get to be answered at the end: a request takes at most ten, then it is read back."""


EVENT_WRITERS: Final = 16
"""Events that are written at a time: every pod that is bound has one, so they must keep up with the binds."""

EVENTS_QUEUED: Final = 10_000
"""Events that may wait, some 10 MB; those of a burst are written after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs. `host` and `port`: where it serves; port 0 takes a free one."""

    config: Path
    host: str
    port: int
    ready_file: Path | None = None
    log_format: str = "json"
    seed: int | None = None
    """Of what is random in decisions; None for a new one."""


class Worker:
    """One worker, from `run` to its end. Signals are the caller's to hand on: `stop`, `reload`."""

    def __init__(
        self,
        loaded: LoadedConfiguration,
        connection: Connection,
        options: WorkerOptions,
        *,
        third_party: Mapping[str, PluginFactory] | None = None,
    ) -> None:
        """Raises ConfigurationError."""
        third_party = third_party or {}
        self._options = options
        self._connection = connection
        self._clock = time.monotonic_ns
        self._identity = new_identity()
        self._file = ConfigurationFile(options.config, loaded, plugin_traits(third_party))
        self._metrics = WorkerMetrics()
        self._measures = Measures(self._metrics, self._clock)
        now = self._clock()
        self._story = StoryLog(options.log_format, now=now)
        self._machine = WorkerMachine(
            loaded.for_machine(),
            np.random.default_rng(options.seed),
            start=now,
            third_party=third_party,
            hooks=self._measures,
            on_story=self._told,
            on_observe=self._measures.on_observe,
            on_failure=self._broke,
        )
        self._client = ApiClient(connection, user_agent=f"{USER_AGENT} worker/{loaded.name}")
        instance = f"stowplan-worker-{loaded.name}-{self._identity.partition('_')[0]}"
        self._events = EventWriter(
            self._client, "stowplan-worker", instance, writers=EVENT_WRITERS, queued=EVENTS_QUEUED
        )
        self._informers = Informers(self._client, self)
        self._carrier = Carrier(
            self._client, self._events, self._answered, may_write=self._may_write, metrics=self._metrics
        )
        self._lease: LeaseRunner | None = None
        self._check = SelfCheck(self._client, loaded.lease)
        self._states = WorkerStates(
            name=loaded.name,
            lease_name=loaded.lease.name,
            identity=self._identity,
            machine=self._machine,
            informers=self._informers,
            events=self._events,
            file=self._file,
            check=self._check,
        )
        self._metrics.add_states(
            MachineStates(self._machine, self._informers, self._carrier, self._measures.evaluations)
        )
        self._metrics.add_states(self._states)
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._look = asyncio.Event()
        self._warm = False

    # ---- from outside --------------------------------------------------------------------------

    def stop(self) -> None:
        """End gracefully: no pod is tried any more, what was decided is carried out, the Lease is given back."""
        self._stop.set()
        self._wake.set()

    def reload(self) -> None:
        """Look at the configuration's file now."""
        self._look.set()

    async def run(self) -> None:
        """Work until `stop`. Raises OSError if the address cannot be had, ExceptionGroup if a part breaks."""
        server = PageServer(self._pages(), self._options.host, self._options.port)
        port = await server.start()
        try:
            log.info("serving", extra={"host": self._options.host, "port": port})
            self._write_ready_file(port)
            async with self._client:
                await self._work()
        finally:
            await server.stop()
            self._remove_ready_file()
            self._story.flush()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            parts = [
                group.create_task(self._informers.run(), name="informers"),
                group.create_task(self._events.run(), name="events"),
                group.create_task(self._keep_looking(), name="configuration"),
                group.create_task(self._check.run(), name="self-check"),
            ]
            election = self._begin_election(group)
            await self._loop()
            log.info("stopping", extra={"binds_under_way": self._machine.binds_under_way})
            await self._drain()
            if self._lease is not None and election is not None:
                await self._lease.release()
                parts.append(election)
            await self._events.drain(patience=2.0)
            for task in parts:
                task.cancel()
        self._story.flush()
        log.info("stopped")

    # ---- the loop --------------------------------------------------------------------------------

    async def _loop(self) -> None:
        """Cycles and timers, until `stop`."""
        while not self._stop.is_set():
            await self._turn()

    async def _turn(self) -> None:
        """Run what is due, or wait until something is."""
        now = self._clock()
        self._beat()
        due = self._machine.wake_at()
        if due is not None and due <= now:
            self._run_cycles(now)
            self._story.flush()
            # Everything that the network has brought is dealt with before this comes back.
            await asyncio.sleep(0)
            return
        self._story.flush()
        wait = LONGEST_WAIT if due is None else min((due - now) / 1e9, LONGEST_WAIT)
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()

    def _run_cycles(self, now: int) -> None:
        """Cycles, and timers that are due, for about `TURN`."""
        machine, measures, queue = self._machine, self._measures, self._machine.scheduler.queue
        end = now + TURN
        while True:
            tried = queue.scheduling_cycle
            measures.cycle_begins(now)
            requests = machine.tick(now, cycles=1)
            measures.cycle_ends(queue.scheduling_cycle != tried)
            self._send(requests)
            now = self._clock()
            due = machine.wake_at()
            if due is None or due > now or now >= end:
                return

    def _beat(self) -> None:
        self._states.beat(self._clock())
        if self._lease is not None:
            self._lease.beat()
        if self._carrier.failure is not None:
            raise self._carrier.failure

    # ---- what happens ----------------------------------------------------------------------------

    def take(self, kind: str, changes: Sequence[Change], version: int) -> None:
        """The informers' changes."""
        machine, measures, clock = self._machine, self._measures, self._clock
        profiles = machine.scheduler.profiles
        now = clock()
        for change in changes:
            self._send(machine.changed(change, now))
            began, now = now, clock()
            measures.event(change, now - began, profiles)
        self._send(machine.heard(kind, version, now))
        self._wake.set()
        if not self._warm and machine.synced:
            self._warm = True
            log.info("informers are synced", extra={"nodes": machine.node_count})
            # What was listed lives long: the collector need not look at it again and again.
            relax_collector()

    def _answered(self, answer: Answer) -> None:
        self._send(self._machine.answered(answer, self._clock()))
        self._wake.set()

    def _send(self, requests: list[Request]) -> None:
        for request in requests:
            self._carrier.send(request)

    def _told(self, record: StoryRecord) -> None:
        self._measures.on_story(record)
        self._story.write(record)

    def _broke(self, failure: Exception) -> None:
        self._metrics.count("stowplan_cycle_errors_total", type(failure).__name__)
        log.error("an object or a plugin is broken; the worker goes on", exc_info=failure)

    # ---- leadership ------------------------------------------------------------------------------

    def _begin_election(self, group: asyncio.TaskGroup) -> asyncio.Task[None] | None:
        lease = self._file.current.lease
        if not lease.enabled:
            log.info("leading without a Lease")
            self._send(self._machine.lead(0, 0, self._clock()))
            return None
        settings = ElectionSettings(
            namespace=lease.namespace,
            name=lease.name,
            identity=self._identity,
            lease_duration_seconds=lease.duration,
            renew_deadline_seconds=lease.renew_deadline,
            retry_period_seconds=lease.retry_period,
        )
        self._lease = LeaseRunner(self._client, settings, self._lead_or_follow)
        self._states.lease = self._lease
        log.info("contending", extra={"lease": f"{lease.namespace}/{lease.name}", "identity": self._identity})
        return group.create_task(self._lease.run(), name="election")

    def _lead_or_follow(self, leadership: Leadership) -> None:
        now = self._clock()
        if leadership.leading:
            log.info("the Lease is ours", extra={"epoch": leadership.epoch, "barrier": leadership.version})
            barrier = number_of(leadership.version)
            self._send(self._machine.lead(leadership.epoch, barrier, now))
            # Whatever a leader before us wrote must be known before anything is decided.
            self._informers.refresh(barrier)
        else:
            self._send(self._machine.follow(now))
        self._wake.set()

    def _may_write(self) -> bool:
        return self._lease is None or self._lease.leading

    # ---- the end ---------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Have what was decided carried out, for `DRAIN` seconds at most."""
        self._send(self._machine.drain(self._clock()))
        end = time.monotonic() + DRAIN
        while not self._machine.is_drained and time.monotonic() < end:
            await self._turn()
        if not self._machine.is_drained:
            log.warning("not everything was answered in time", extra={"binds": self._machine.binds_under_way})
        self._send(self._machine.follow(self._clock()))
        await self._carrier.cancel()

    # ---- configuration ---------------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._look.wait()
            self._look.clear()
            before = self._file.error
            loaded = self._file.look()
            if loaded is not None:
                self._reconfigure(loaded)
            elif self._file.error and self._file.error != before:
                self._metrics.count("stowplan_configuration_reloads_total", "refused")

    def _reconfigure(self, loaded: LoadedConfiguration) -> None:
        now = self._clock()
        try:
            requests = self._machine.reconfigure(loaded.for_machine(), now)
        except ConfigurationError as error:
            self._file.refuse(loaded, str(error))
            self._metrics.count("stowplan_configuration_reloads_total", "refused")
            return
        self._file.accept(loaded)
        self._metrics.count("stowplan_configuration_reloads_total", "applied")
        log.info("configuration applied", extra={"profiles": ", ".join(p.scheduler_name for p in loaded.profiles)})
        self._send(requests)
        self._wake.set()

    # ---- what is served --------------------------------------------------------------------------

    def _pages(self) -> Pages:
        states = self._states
        return Pages(
            live={"loop": lambda: states.stuck(self._clock(), STUCK)},
            ready={"cluster": states.cannot_work, "informers": states.not_synced},
            metrics=self._metrics.exposition,
            resources=self._resources,
            configz=states.configz,
            status=states.status,
        )

    async def _resources(self) -> bytes:
        """Of a large cluster that is a million lines: they are made beside the loop. A follower has none."""
        if not self._machine.leading:
            return b""
        return await asyncio.to_thread(pod_resources, self._machine.scheduler.pods.objects())

    def _write_ready_file(self, port: int) -> None:
        path = self._options.ready_file
        if path is not None:
            scratch = path.with_name(f".{path.name}.{os.getpid()}")
            scratch.write_text(json.dumps({"pid": os.getpid(), "port": port}), encoding="utf-8")
            scratch.replace(path)

    def _remove_ready_file(self) -> None:
        if self._options.ready_file is not None:
            self._options.ready_file.unlink(missing_ok=True)


async def run_worker(worker: Worker) -> None:
    """Run it as a program does: SIGTERM and SIGINT stop it, a second one at once; SIGHUP makes it read its file.

    Raises what `Worker.run` raises, asyncio.CancelledError after a second signal.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(worker.run())
    asked: list[Any] = []

    def stop() -> None:
        asked.append(None)
        if len(asked) == 1:
            worker.stop()
        else:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, worker.reload)
    try:
        await task
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
