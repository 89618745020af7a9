"""Rows add up to the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import (
    AttemptRecord,
    MemorySink,
    NodeSample,
    NullSink,
    PodRecord,
    Recorder,
    RunHeader,
    ServiceSample,
    Waiting,
    WorkloadSample,
)
from stowplan_autoscaling.results.report import InputsReport, WorkCounts
from support.run_engine import WORKLOAD, run
from support.simulations import small, write

INPUTS = InputsReport(name="a", digest="d", seed=0, start="2026-01-05T00:00:00Z", version="0", kubernetes="v1.37.2")


def recorder(**header: Any) -> Recorder:
    return Recorder(RunHeader(inputs=INPUTS, duration=100, **header), NullSink())


def pod(name: str, created: float, ready: float | None, ended: float | None = None, **waiting: float) -> PodRecord:
    return PodRecord(name, WORKLOAD, "n", created, created, created, ready, ended, "Running", 1, 0, Waiting(**waiting))


def test_attempts_add_up_to_the_work_counts() -> None:
    """M over all attempts, K over those that placed their pod."""
    records = recorder()
    records.row(AttemptRecord(0, "a", "p", "Scheduled", "n", 5, 3, "", ""))
    records.row(AttemptRecord(1, "b", "p", "Unschedulable", "", 10, 0, "n", "0/10 nodes are available"))
    found = records.report(100).scheduling
    assert (found.attempts, found.scheduled, found.unschedulable) == (2, 1, 1)
    assert found.evaluated == WorkCounts(total=15, mean=7.5, maximum=10)
    assert found.feasible == WorkCounts(total=3, mean=3, maximum=3)


def test_waiting_begins_with_the_change_of_demand() -> None:
    """15 s metric + 5 s HPA before the pod, 10 s from then to ready: 30 s; the other waited 10 s in the queue."""
    records = recorder()
    records.row(pod("a", 50, 60, metric=15, autoscaler=5, image=10))
    records.row(pod("b", 50, 60, queue=10))
    records.row(pod("c", 50, None))
    found = records.report(100).waiting
    assert (found.ready.count, found.ready.mean, found.ready.maximum) == (2, 20, 30)
    assert (found.split["metric"], found.split["queue"], found.split["image"]) == (7.5, 5, 5)
    assert found.never_ready == 1


def test_what_is_served_is_a_sum_over_time() -> None:
    """10/s for 40 s and then 20/s for 60 s are 1,600 requests. Mean latency: (400 x 1 + 1,200 x 2) / 1,600."""
    records = recorder()
    records.row(ServiceSample(0, "v", 0, 0, 0, 1, 1.0, 1, 0, 0))
    records.row(ServiceSample(40, "v", 10, 10, 0, 1, 1.0, 1, 7, 3))
    records.row(ServiceSample(100, "v", 20, 20, 0, 1, 2.0, 1, 7, 3))
    (found,) = records.report(100).services
    assert (found.offered, found.served, found.latency, found.worst_latency) == (1600, 1600, 1.75, 2)
    assert (found.queue_length.maximum, found.worst_queue_age) == (7, 3)


def test_an_objective_about_pending_counts_pods() -> None:
    """Within 20 s: one pod is, one is not, one still waits too long, one is too young to tell, one was removed."""
    from stowplan_autoscaling.results.recorder import PendingObjective

    objective = ("starts", PendingObjective(workload=WORKLOAD, within=20))
    records = recorder(objectives=(("starts", 0.5),), pending=(objective,))
    records.reached(100)
    for row in (pod("a", 0, 20), pod("b", 0, 21), pod("c", 70, None), pod("d", 90, None), pod("e", 10, None, ended=15)):
        records.row(row)
    (found,) = records.report(100).objectives
    assert (found.total, found.missed, found.met) == (3, 2, False)
    assert found.share == pytest.approx(1 / 3, abs=1e-6)


def test_an_objective_that_the_engine_measures_adds_up() -> None:
    """Requests and the time in which they were too slow."""
    records = recorder(objectives=(("fast", 0.9),))
    records.objective("fast", total=100, missed=0)
    records.objective("fast", total=100, missed=30, missed_seconds=10)
    (found,) = records.report(100).objectives
    assert (found.share, found.met, found.missed_seconds) == (0.85, False, 10)


def test_a_node_row_that_says_nothing_new_is_left_out() -> None:
    """A thousand nodes sampled every 15 s for a day would be 5.8 million rows."""
    sink = MemorySink()
    records = Recorder(RunHeader(inputs=INPUTS, duration=100), sink)
    for seconds, pods in ((0, 1), (10, 1), (20, 2)):
        records.row(NodeSample(seconds, "n", "Ready", pods, pods, 4, 0, 8))
    assert [row[0] for row in sink.rows] == [0, 20]
    (node,) = records.report(40).cluster.packing
    assert node.cpu.mean == 0.375  # a quarter for 20 s, half for 20 s


def test_a_node_that_has_gone_counts_while_it_was_there() -> None:
    """Its share does not sink after its end."""
    records = recorder()
    records.row(NodeSample(0, "n", "Ready", 1, 2, 4, 0, 8))
    records.row(NodeSample(50, "n", "Gone", 0, 0, 4, 0, 8))
    (node,) = records.report(100).cluster.packing
    assert node.cpu.mean == 0.5


def test_checkpoints_come_at_fixed_virtual_times() -> None:
    """48 in a run, and one before it begins; none of them is complete."""
    sink = MemorySink()
    records = Recorder(RunHeader(inputs=INPUTS, duration=96), sink)
    for seconds in range(1, 97):
        records.reached(seconds)
    records.finish(96)
    assert [report.reached for report in sink.reports] == [0, *range(2, 97, 2), 96]
    assert [report.complete for report in sink.reports] == [False] * 49 + [True]


def test_counts_belong_to_a_workload_and_to_all() -> None:
    """An OOM kill is in both."""
    records = recorder()
    records.row(WorkloadSample(0, WORKLOAD, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    records.count("oom_kills", WORKLOAD)
    records.count("evictions", WORKLOAD, 2)
    records.count("throttled_core_seconds", WORKLOAD, 1.5)
    records.preempted(3)
    report = records.report(100)
    (workload,) = report.workloads
    assert (workload.oom_kills, workload.evictions, workload.throttled_core_seconds) == (1, 2, 1.5)
    assert (report.contention.oom_kills, report.contention.preempted, report.scheduling.preemptions) == (1, 3, 1)


def test_the_header_says_what_was_simulated(tmp_path: Path) -> None:
    """Name, digest, seed, start and versions, for whoever finds a result a year later."""
    loaded = load_simulation(write(tmp_path, small()), seed=3)
    report = run(loaded, progress=None, stop=None, sink=NullSink())
    assert (report.inputs.name, report.inputs.seed, report.inputs.kubernetes) == ("small", 3, "v1.37.2")
    assert report.inputs.digest == loaded.digest
    assert report.complete
