"""A small engine in the place of the virtual cluster: it makes up what happens.

So results and the command line can be tested by themselves. All of it follows from the simulation and its seed.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan_autoscaling.resources import LoadedSimulation
from stowplan_autoscaling.results import (
    INTERRUPTED,
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    EventRecord,
    NodeRecord,
    NodeSample,
    PodRecord,
    PoolSample,
    Recorder,
    ResultSink,
    RunHeader,
    RunReport,
    ServiceSample,
    SupplyRecord,
    UnfinishedError,
    Waiting,
    WorkloadSample,
)
from stowplan_autoscaling.streams import Streams

WORKLOAD = "Deployment shop/web"


def run(
    simulation: LoadedSimulation,
    *,
    progress: Callable[[float], None] | None,
    stop: Callable[[], bool] | None,
    sink: ResultSink,
) -> RunReport:
    """A pod more at every sample, each placed at once and ready ten seconds later."""
    recorder = Recorder(RunHeader.of(simulation), sink)
    streams = Streams(simulation.spec.seed)
    step, end = simulation.spec.sampling.period / 1e9, simulation.spec.duration / 1e9
    seconds, number = 0.0, 0
    while seconds < end:
        if stop is not None and stop():
            return recorder.finish(seconds, stopped=INTERRUPTED)
        number += 1
        if number > simulation.spec.bounds.pods:
            report = recorder.finish(seconds, stopped="too many pods")
            raise UnfinishedError(f"spec.bounds.pods: more than {simulation.spec.bounds.pods} pods exist", report)
        _sample(recorder, seconds, number, streams.uniform("used", str(number)))
        seconds += step
        recorder.reached(seconds)
        if progress is not None:
            progress(seconds)
    return recorder.finish(end)


def _sample(recorder: Recorder, seconds: float, number: int, used: float) -> None:
    pod, ready = f"shop/web-{number}", number - 1
    recorder.event(EventRecord(seconds, "default-scheduler", "Normal", "Scheduled", f"Pod {pod}", "Assigned: ✓"))
    recorder.row(SupplyRecord(seconds, "ScaleUp", "plain", 1, 1, "NoRoom", False, ""))
    recorder.row(PoolSample(seconds, "plain", 1, 0, 0, 0.5, number, used, 1.0, 4.0, 0.0, 0, 0, 0, 0))
    recorder.row(
        NodeRecord(
            f"plain-{number}",
            "plain",
            "m4",
            "",
            "spot",
            0.5,
            seconds,
            None,
            None,
            None,
            None,
            seconds,
            "ScaleUp",
            "Failed",
        )
    )
    recorder.row(AttemptRecord(seconds, pod, "default-scheduler", "Scheduled", "plain-1", 2, 1, "", ""))
    waiting = Waiting(metric=15, queue=0.5, image=4, readiness=5.5)
    recorder.row(
        PodRecord(
            pod,
            WORKLOAD,
            "plain-1",
            seconds,
            seconds + 0.5,
            seconds + 4.5,
            seconds + 10,
            None,
            "Running",
            1,
            0,
            waiting,
        )
    )
    recorder.row(WorkloadSample(seconds, WORKLOAD, number, number, 0, 1, ready, 0, used, number / 2, 100, 200, 0.25))
    recorder.row(ServiceSample(seconds, "visits", 10, 9, 1, 2, 0.25, 0.9, 0, 0))
    recorder.row(AutoscalerSample(seconds, "shop/web", ready, number, number, "cpu", 75, 60, 15, "ScaleUpLimit"))
    recorder.row(NodeSample(seconds, "plain-1", "Ready", number, number / 2, 4, 200, 1000))
    recorder.row(ClusterSample(seconds, 2, 2, 1, number, 0, used, number / 2, 8, 100, 200, 2000))
    recorder.count("throttled_core_seconds", WORKLOAD, 0.5)
