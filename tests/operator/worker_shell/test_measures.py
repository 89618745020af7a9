"""What is measured and under which label: events as kube-scheduler names them, and which attempts are sampled."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan_operator.api.store import Change, ChangeType
from stowplan_operator.worker.measures import Measures, event_labels
from stowplan_operator.worker.metrics import WorkerMetrics
from stowplan_scheduler.objects import DeviceClass, Namespace, PodStatus
from support.builders import node, pod

ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED

WAITING = pod("p").build()
BOUND = pod("p").on("n").build()
LABELLED = pod("p").on("n").labels(app="web").build()
OTHERS = replace(WAITING, spec=replace(WAITING.spec, scheduler_name="somebody-else"))
OTHERS_BOUND = replace(BOUND, spec=replace(BOUND.spec, scheduler_name="somebody-else"))
NEWER = replace(WAITING, metadata=replace(WAITING.metadata, resource_version="2", labels={"app": "web"}))
FINISHED = replace(BOUND, status=PodStatus(phase="Succeeded"))
NODE = node("n").build()
CORDONED = node("n").unschedulable().build()


@pytest.mark.parametrize(
    ("kind", "old", "new", "labels"),
    [
        (ADDED, None, WAITING, ["UnscheduledPodAdd"]),
        (ADDED, None, BOUND, ["AssignedPodAdd"]),
        (ADDED, None, OTHERS, []),
        (ADDED, None, OTHERS_BOUND, ["AssignedPodAdd"]),
        (MODIFIED, WAITING, BOUND, ["AssignedPodAdd", "UnscheduledPodDelete"]),
        (MODIFIED, OTHERS, OTHERS_BOUND, ["AssignedPodAdd"]),
        (MODIFIED, BOUND, BOUND, ["AssignedPodUpdate", "AssignedPodUpdate"]),
        (MODIFIED, BOUND, LABELLED, ["AssignedPodUpdate", "AssignedPodUpdatePodLabel"]),
        (MODIFIED, WAITING, WAITING, []),
        (MODIFIED, WAITING, NEWER, ["UnscheduledPodUpdate", "UnscheduledPodUpdatePodLabel"]),
        (MODIFIED, OTHERS, OTHERS, []),
        (MODIFIED, BOUND, FINISHED, ["AssignedPodDelete"]),
        (DELETED, BOUND, None, ["AssignedPodDelete"]),
        (DELETED, WAITING, None, ["UnscheduledPodDelete"]),
        (DELETED, OTHERS, None, []),
        (ADDED, None, NODE, ["NodeAdd"]),
        (MODIFIED, CORDONED, NODE, ["NodeUpdateNodeTaint"]),
        (MODIFIED, NODE, NODE, []),
        (DELETED, NODE, None, ["NodeDelete"]),
        (ADDED, None, DeviceClass(), ["resource.k8s.io/DeviceClassAdd"]),
        (MODIFIED, DeviceClass(), DeviceClass(), ["resource.k8s.io/DeviceClassUpdate"]),
        (DELETED, DeviceClass(), None, []),
        (ADDED, None, Namespace(), []),
    ],
)
def test_events_have_the_labels_of_kube_schedulers_handlers(
    kind: ChangeType, old: Any, new: Any, labels: list[str]
) -> None:
    """pkg/scheduler/eventhandlers.go, read by hand. The update of a pod on a node that changes nothing counts twice."""
    assert list(event_labels(Change(kind, old, new), {"default-scheduler"})) == labels


def test_one_attempt_in_ten_is_sampled_by_chance() -> None:
    measures = Measures(WorkerMetrics(), lambda: 0, random.Random(1))
    drawn = [measures.sample() for _ in range(10_000)]
    assert 900 < sum(drawn) < 1100
    # Not every tenth: a workload may have a rhythm of its own.
    assert len({tuple(drawn[start : start + 10]) for start in range(0, 10_000, 10)}) > 10


def test_hooks_become_histograms() -> None:
    metrics = WorkerMetrics()
    measures = Measures(metrics, lambda: 0)
    measures.observe("NodeName", "Filter", "Success", 20_000)
    measures.observe_point("dense", "Score", "Error", 300_000)
    measures.observe_hint("NodeResourcesFit", "NodeAdd", "QueueSkip", 10_000)
    lines = metrics.exposition().decode().splitlines()
    called = 'extension_point="Filter",plugin="NodeName",status="Success"'
    assert f"scheduler_plugin_execution_duration_seconds_sum{{{called}}} 2e-05" in lines
    point = 'extension_point="Score",profile="dense",status="Error"'
    assert f'scheduler_framework_extension_point_duration_seconds_bucket{{{point},le="0.0002"}} 0' in lines
    assert f'scheduler_framework_extension_point_duration_seconds_bucket{{{point},le="0.0004"}} 1' in lines
    hint = 'event="NodeAdd",hint="QueueSkip",plugin="NodeResourcesFit"'
    assert f'scheduler_queueing_hint_execution_duration_seconds_bucket{{{hint},le="1e-05"}} 1' in lines
