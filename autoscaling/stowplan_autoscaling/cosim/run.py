"""Runs a simulation in virtual time: the engine of `stowplan simulate -f`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan_autoscaling.kernel import LivelockError
from stowplan_autoscaling.resources.loop_reports import loop_reports
from stowplan_autoscaling.results import INTERRUPTED, Recorder, ResultSink, RunHeader, RunReport, UnfinishedError

from .assembly import Assembly

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation


def run(
    simulation: LoadedSimulation,
    *,
    progress: Callable[[float], None] | None = None,
    stop: Callable[[], bool] | None = None,
    sink: ResultSink,
) -> RunReport:
    """Run it to its end, or until `stop` says yes.

    `progress` is told the virtual seconds reached. `stop` is asked between two things that happen. Rows and events go
    to `sink` as they come. The same simulation with the same seed gives the same rows. Raises UnfinishedError, with
    what was finished, if spec.bounds is passed.
    """
    return Run(simulation, progress, stop, sink).go()


class Run:
    """One run. `assembly` holds all of its parts, for tests and notebooks."""

    def __init__(
        self,
        simulation: LoadedSimulation,
        progress: Callable[[float], None] | None,
        stop: Callable[[], bool] | None,
        sink: ResultSink,
    ) -> None:
        self._bounds = simulation.spec.bounds
        self._end = simulation.spec.start + simulation.spec.duration
        self._progress = progress
        self._stop = stop
        self.recorder = Recorder(RunHeader.of(simulation, loop_reports(simulation)), sink)
        self.assembly = Assembly(simulation, self.recorder, self._sampled)

    def go(self) -> RunReport:
        """All of it."""
        assembly = self.assembly
        try:
            assembly.start()
            is_done = assembly.kernel.run(self._end, stop=self._is_to_stop)
        except LivelockError as error:
            raise self._unfinished("it never settles", f"spec.bounds.eventsPerInstant: {error}") from None
        if self._has_too_many_pods():
            raise self._unfinished("too many pods", f"spec.bounds.pods: more than {self._bounds.pods} pods exist")
        if not is_done:
            return self._finish(INTERRUPTED)
        assembly.observations.sample()
        return self._finish("")

    def _sampled(self, seconds: float) -> None:
        self.recorder.reached(seconds)
        if self._progress is not None:
            self._progress(seconds)

    def _is_to_stop(self) -> bool:
        return self._has_too_many_pods() or (self._stop is not None and self._stop())

    def _has_too_many_pods(self) -> bool:
        return len(self.assembly.book.lives) > self._bounds.pods

    def _finish(self, stopped: str) -> RunReport:
        """The pods that are there get their rows, too."""
        seconds = max(self.assembly.world.seconds, 0.0)
        self.recorder.reached(seconds)
        self.assembly.observations.rest()
        return self.recorder.finish(seconds, stopped=stopped)

    def _unfinished(self, stopped: str, message: str) -> UnfinishedError:
        return UnfinishedError(message, self._finish(stopped))
