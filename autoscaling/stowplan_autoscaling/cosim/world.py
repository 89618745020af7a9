"""What all parts of a run share: the clock, the API server, what was asked for, and where results go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.results import EventRecord

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.client import Recorder as EventRecorder
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.resources import LoadedSimulation
    from stowplan_autoscaling.resources.simulation import SimulationSpec
    from stowplan_autoscaling.results import Recorder
    from stowplan_autoscaling.streams import Streams

SOURCE = "stowplan"
"""Source of the events of the simulation itself."""


class World:
    """The frame of one run. Times of results are seconds since `start`, which is spec.settle after the kernel's."""

    __slots__ = ("kernel", "recorder", "server", "simulation", "spec", "start", "streams")

    def __init__(
        self, simulation: LoadedSimulation, kernel: Kernel, server: ApiServer, streams: Streams, recorder: Recorder
    ) -> None:
        self.simulation = simulation
        self.spec: SimulationSpec = simulation.spec
        self.start = simulation.spec.start
        self.kernel = kernel
        self.server = server
        self.streams = streams
        self.recorder = recorder

    @property
    def seconds(self) -> float:
        """Now."""
        return (self.kernel.now - self.start) / SECOND

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun; before that, workloads come up and nothing is recorded."""
        return self.kernel.now >= self.start

    def since_start(self, time: int) -> float:
        """A time of the virtual clock as seconds since the start."""
        return (time - self.start) / SECOND

    def time_of(self, seconds: float) -> int:
        """Seconds since the start as a time of the virtual clock."""
        return self.start + round(seconds * SECOND)

    def event(
        self,
        reason: str,
        about: str,
        message: str,
        *,
        source: str = SOURCE,
        kind: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        """Record an event about an object ("Pod shop/web-1")."""
        if not self.has_begun:
            return
        self.recorder.event(EventRecord(self.seconds, source, kind, reason, about, message))

    def events_of(self, source: str) -> EventRecorder:
        """What a component of that name records its events with."""

        def record(kind: str, key: str, event_type: str, reason: str, message: str) -> None:
            self.event(
                reason, f"{kind} {key}", message, source=source, kind="Warning" if event_type == "Warning" else "Normal"
            )

        return record
