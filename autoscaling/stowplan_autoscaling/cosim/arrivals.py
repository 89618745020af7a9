"""What comes from outside while a run goes on: Jobs at their arrivals, and objects of recorded traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError
from stowplan_autoscaling.inputs.errors import FieldError, InputError
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.resources.loads import job_of
from stowplan_autoscaling.resources.manifests import Manifest
from stowplan_autoscaling.resources.typed import TYPES, typed_object
from stowplan_scheduler.objects import key_of

from .applications import Applications, RecordedDelay, Task, run_delay

if TYPE_CHECKING:
    from stowplan_autoscaling.demand import ObjectKey, Trace, TraceEvent
    from stowplan_autoscaling.resources.demand import Demand, JobArrivals, TraceReplay

    from .pods import PodBook
    from .world import World

_NAMESPACELESS: Final = frozenset({"Node", "Namespace", "PriorityClass", "DeviceClass", "ResourceSlice"})


class JobStream:
    """One entry of spec.demand with `jobs`. `arrived`: Jobs made so far."""

    def __init__(self, world: World, book: PodBook, demand: Demand, jobs: JobArrivals) -> None:
        self._world = world
        self._book = book
        self._demand = demand
        self.workload = f"Job {jobs.namespace}/{demand.name}"
        self.arrived = 0
        self.finished = 0
        arrivals = world.simulation.loads[demand.name].arrivals
        self._times = np.zeros(0) if arrivals is None else np.repeat(arrivals.times, arrivals.weights.astype(np.int64))
        manifest = job_of(demand)
        self._template = typed_object(
            Manifest(
                kind="Job",
                api_version="batch/v1",
                namespace=jobs.namespace,
                name=demand.name,
                value=manifest,
                place=world.simulation.source,
            )
        )
        self._groups = book.job_groups

    def start(self) -> None:
        """Plan the first arrival."""
        self._plan()

    def _plan(self) -> None:
        if self.arrived < len(self._times):
            self._world.kernel.later(self._world.time_of(float(self._times[self.arrived])), self._arrive)

    def _arrive(self) -> None:
        self.arrived += 1
        meta = self._template.metadata
        job = replace(self._template, metadata=replace(meta, name=f"{self._demand.name}-{self.arrived}"))
        key = key_of(job.metadata)
        self._groups[key] = self.workload
        try:
            self._world.server.create("Job", job)
        except ApiError as failure:
            self._groups.pop(key, None)
            self._world.event("FailedCreate", f"Job {key}", str(failure), kind="Warning")
        self._plan()


def task_of(jobs: JobArrivals) -> Task:
    """What the pods of an entry do."""
    return Task(run=run_delay(jobs.run_time), cpu=jobs.cpu, memory=jobs.memory, wait=jobs.wait)


class TracePlayer:
    """One trace: its objects come, change and go as they did."""

    def __init__(
        self,
        world: World,
        applications: Applications,
        trace: Trace,
        replay: TraceReplay,
        *,
        name: str,
        complete: Callable[[str, Any], Any],
    ) -> None:
        """`complete` gives an object the API server's defaults."""
        self._world = world
        self._applications = applications
        self._trace = trace
        self._replay = replay
        self._name = name
        self._complete = complete
        for key in trace.lifecycles:
            times = trace.durations(key)
            if times:
                applications.tasks[_named(key)] = Task(
                    run=RecordedDelay(kind="log-normal", median=max(times), times=times)
                )

    def start(self) -> None:
        """Plan all events."""
        for event in self._trace.events:
            when = self._world.start + self._replay.begin + round(event.at * self._replay.stretch * SECOND)
            self._world.kernel.later(when, lambda event=event: self._play(event))  # type: ignore[misc]

    def _play(self, event: TraceEvent) -> None:
        for document in event.applied:
            self._apply(document)
        for key in event.deleted:
            kind = key.kind.rpartition(".")[2]
            try:
                self._world.server.delete(kind, f"{key.namespace}/{key.name}" if key.namespace else key.name)
            except ApiError as failure:
                self._skip(f"{kind} {key.namespace}/{key.name}", str(failure))

    def _apply(self, document: Mapping[str, Any]) -> None:
        kind = str(document.get("kind", ""))
        meta = document.get("metadata") or {}
        described = f"{kind} {meta.get('namespace', 'default')}/{meta.get('name', '')}"
        if kind not in TYPES:
            self._skip(described, "objects of this kind do nothing here")
            return
        try:
            self._store(kind, document)
        except (ApiError, InputError, FieldError) as failure:
            self._skip(described, str(failure))

    def _store(self, kind: str, document: Mapping[str, Any]) -> None:
        meta = document.get("metadata") or {}
        namespace = "" if kind in _NAMESPACELESS else str(meta.get("namespace") or "default")
        manifest = Manifest(
            kind=kind,
            api_version=str(document.get("apiVersion", "")),
            namespace=namespace,
            name=str(meta.get("name", "")),
            value=dict(document),
            place=self._name,
        )
        obj = typed_object(manifest)
        obj = replace(obj, metadata=replace(obj.metadata, uid="", owner_references=()))
        self._applications.learn(manifest.described, document)
        server = self._world.server
        if server.find(kind, manifest.key) is None:
            server.create(kind, obj)
        elif hasattr(obj, "version"):
            server.update(kind, self._complete(kind, replace(obj, version=0)))

    def _skip(self, described: str, why: str) -> None:
        self._world.event("TraceSkipped", described, why, kind="Warning")


def _named(key: ObjectKey) -> str:
    """An object of a trace as results name it: without the group of its kind."""
    return f"{key.kind.rpartition('.')[2]} {key.namespace}/{key.name}"
