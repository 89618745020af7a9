"""The operator as a process: checks, health server, leadership, and terms of acting.

Of several operators one acts, by a Lease. Whoever loses it stops its workers, and follows; whoever follows runs nothing
and waits. The workers themselves act by Leases of their own, so that even two operators that both believe to lead have
no two workers that act.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stowplan_operator.api.client import USER_AGENT, ApiClient
from stowplan_operator.api.connection import Connection
from stowplan_operator.api.events import EventWriter
from stowplan_operator.api.lease_runner import Leadership, LeaseRunner, new_identity
from stowplan_operator.api.rights import OPERATOR, WORKER
from stowplan_operator.net import DEFAULT_RULES, UrlRules
from stowplan_operator.serving import Pages, PageServer
from stowplan_scheduler.config.defaults import DEFAULT_SCHEDULER_NAME
from stowplan_scheduler.framework.handle import PluginFactory

from .children import ChildSettings, ChildWorkers
from .compiling import ProfileCompiler
from .conditions import conditions_of
from .deployments import DeployedWorkers, DeploymentSettings
from .groups import CHILD, GroupSettings, LeaseTimes
from .metrics import OperatorMetrics
from .names import COMPONENT, KINDS, LEASE
from .objects import Objects
from .runtimes import Runtime, Runtimes
from .self_check import check_cluster
from .term import Term, TermSettings

log = logging.getLogger("stowplan.operator")

BEAT_SECONDS: Final = 1.0
"""Between two signs of life."""

EVENTS_SECONDS: Final = 2.0
"""For writing the last events at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """How an operator runs. `work_dir` must exist; `worker_arguments` are handed to each child."""

    namespace: str
    runtime: str
    work_dir: Path
    host: str
    port: int
    elects: bool = True
    lease: LeaseTimes = field(default_factory=LeaseTimes)
    worker_image: str = ""
    worker_scheduler_name: str = DEFAULT_SCHEDULER_NAME
    worker_arguments: tuple[str, ...] = ()
    urls: UrlRules = DEFAULT_RULES
    """Which URLs profiles may have."""
    listening: Callable[[int], None] | None = None
    """Told the port once the server listens."""


class Operator:
    """One operator, from `run` to its end; `stop` asks for that."""

    def __init__(
        self, connection: Connection, options: OperatorOptions, third_party: Mapping[str, PluginFactory]
    ) -> None:
        self._options = options
        self._client = ApiClient(connection, user_agent=f"{USER_AGENT} operator")
        self._compiler = ProfileCompiler(third_party, options.urls)
        self._objects = Objects()
        self._metrics = OperatorMetrics(self._objects)
        self._identity = new_identity()
        self._events = EventWriter(self._client, COMPONENT, f"{COMPONENT}-{socket.gethostname()}")
        self._lease: LeaseRunner | None = None
        self._stop = asyncio.Event()
        self._leads = asyncio.Event()
        self._changed = asyncio.Event()
        self._term: Term | None = None
        self._is_checked = False
        self._beat_at = time.monotonic()

    def stop(self) -> None:
        """End: the workers are drained, the Lease is given back."""
        self._stop.set()
        self._changed.set()
        if self._term is not None:
            self._term.stop()

    async def run(self) -> None:
        """Act whenever this operator leads, until `stop`.

        Raises NotReadyError, KopfEndedError, and OSError if the address cannot be had.
        """
        options = self._options
        server = PageServer(self._pages(), options.host, options.port)
        port = await server.start()
        log.info("serving", extra={"host": options.host, "port": port})
        if options.listening is not None:
            options.listening(port)
        try:
            async with self._client:
                rights = (*OPERATOR, *WORKER) if options.runtime == CHILD else OPERATOR
                await check_cluster(self._client, options.namespace, rights)
                self._is_checked = True
                await self._act()
        finally:
            await server.stop()

    async def _act(self) -> None:
        tasks = [asyncio.create_task(self._events.run(), name="events")]
        tasks.append(asyncio.create_task(self._keep_beating(), name="heartbeat"))
        if self._options.elects:
            self._lease = self._contender()
            tasks.append(asyncio.create_task(self._lease.run(), name="election"))
        else:
            self._leads.set()
        serving = asyncio.create_task(self._terms(), name="terms")
        try:
            # A part that breaks ends the operator; the terms end by themselves when they are asked to.
            done, _ = await asyncio.wait({serving, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            if serving in done and self._lease is not None:
                # Also where the terms broke: the workers have ended by then, and another operator need not wait.
                await self._lease.release()
            for task in done:
                task.result()
            await self._events.drain(patience=EVENTS_SECONDS)
        finally:
            for task in (serving, *tasks):
                task.cancel()
            await asyncio.gather(serving, *tasks, return_exceptions=True)
        log.info("stopped")

    # ---- leadership --------------------------------------------------------------------------

    def _contender(self) -> LeaseRunner:
        settings = self._options.lease.election(self._options.namespace, LEASE, self._identity)
        log.info("contending", extra={"lease": f"{self._options.namespace}/{LEASE}", "identity": self._identity})
        return LeaseRunner(self._client, settings, self._lead_or_follow)

    def _lead_or_follow(self, leadership: Leadership) -> None:
        if leadership.leading:
            self._leads.set()
        else:
            self._leads.clear()
            if self._term is not None:
                self._term.stop()
        self._changed.set()

    def _may_write(self) -> bool:
        return self._lease is None or self._lease.leading

    async def _terms(self) -> None:
        """A term whenever we lead."""
        while not self._stop.is_set():
            self._changed.clear()
            if not self._leads.is_set():
                await self._changed.wait()
                continue
            log.info("acting", extra={"identity": self._identity})
            self._term = self._new_term()
            self._metrics.leading.set(1)
            try:
                await self._term.serve()
            finally:
                self._term = None
                self._metrics.leading.set(0)
            log.info("acting no longer")

    def _new_term(self) -> Term:
        options = self._options
        return Term(
            self._client,
            self._events,
            self._objects,
            self._metrics,
            self._compiler,
            TermSettings(
                namespace=options.namespace,
                groups=GroupSettings(namespace=options.namespace, runtime=options.runtime, lease=options.lease),
                may_write=self._may_write,
                urls=options.urls,
            ),
            self._runtime,
        )

    def _runtime(self, changed: Callable[[], None]) -> Runtime:
        options = self._options
        children = ChildSettings(folder=options.work_dir, arguments=options.worker_arguments)
        deployed = DeploymentSettings(
            namespace=options.namespace,
            image=options.worker_image,
            scheduler_name=options.worker_scheduler_name,
        )
        return Runtimes(ChildWorkers(children, changed), DeployedWorkers(self._client, deployed, changed))

    async def _keep_beating(self) -> None:
        """The Lease is renewed only while this loop turns, and no round is stuck."""
        while True:
            if self._term is None or not self._term.stuck():
                self._beat_at = time.monotonic()
                if self._lease is not None:
                    self._lease.beat()
            await asyncio.sleep(BEAT_SECONDS)

    # ---- what is served ----------------------------------------------------------------------

    def _pages(self) -> Pages:
        return Pages(
            live={"round": lambda: "" if self._term is None else self._term.stuck()},
            ready={"cluster": self._not_ready},
            metrics=self._metrics.exposition,
            worker_metrics=self._worker_metrics,
            configz=self._configz,
            status=self._status,
        )

    def _not_ready(self) -> str:
        """A follower is ready: it takes over whenever it has to."""
        if not self._is_checked:
            return "rights and kinds are not checked yet"
        if self._term is not None and not self._term.is_settled_in:
            return "not everything was read yet"
        return ""

    async def _worker_metrics(self, group: str, path: str) -> bytes | None:
        return None if self._term is None else await self._term.runtime.metrics(group, path)

    def _configz(self) -> Mapping[str, Any]:
        options = self._options
        return {
            "namespace": options.namespace,
            "runtime": options.runtime,
            "workerImage": options.worker_image,
            "workerSchedulerName": options.worker_scheduler_name,
            "leaderElection": options.elects,
            "urls": {
                "http": options.urls.http,
                "hosts": sorted(options.urls.hosts),
                "ports": sorted(options.urls.ports),
                "allowedNetworks": [str(network) for network in options.urls.allowed],
                "deniedNetworks": [str(network) for network in options.urls.refused],
            },
            "python": sys.version.partition(" ")[0],
        }

    def _status(self) -> Mapping[str, Any]:
        reports = self._term.runtime.reports() if self._term is not None else ()
        holder = self._identity if self._lease is None else self._lease.holder
        return {
            "identity": self._identity,
            "leading": self._term is not None,
            "holder": holder,
            "objects": {
                kind: {
                    each.name: {type: entry.get("status") for type, entry in conditions_of(each.status).items()}
                    for each in self._objects.of(kind)
                }
                for kind in KINDS
            },
            "workers": [
                {
                    "group": report.group,
                    "name": report.name,
                    "health": report.health.value,
                    "leading": report.is_leading,
                    "detail": report.detail,
                    "error": report.error,
                }
                for report in reports
            ],
        }


async def run_operator(operator: Operator, loop_signals: tuple[int, ...]) -> None:
    """Run it as a program does: a signal asks it to stop, a second one ends it at once.

    Raises what `Operator.run` raises, asyncio.CancelledError after a second signal.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(operator.run())
    asked: list[None] = []

    def stop() -> None:
        asked.append(None)
        if len(asked) == 1:
            operator.stop()
        else:
            task.cancel()

    with contextlib.ExitStack() as stack:
        for number in loop_signals:
            loop.add_signal_handler(number, stop)
            stack.callback(loop.remove_signal_handler, number)
        await task
