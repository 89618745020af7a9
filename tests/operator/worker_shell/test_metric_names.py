"""The worker's metrics against the list of kube-scheduler's: each is served in the same way, or has a reason.

`kube_scheduler_metrics.json` has all that Kubernetes v1.37.2 declares in pkg/scheduler/metrics, its volume binding, the
resource metrics, and for rest_client_ and leader_election_ in component-base/metrics/prometheus, whatever feature gates
are on. tests/integration/test_worker_metrics.py holds it to a kube-scheduler that runs.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from stowplan_operator.worker.metric_table import KUBE_SCHEDULER, RESOURCES, Metric
from support.metric_page import reasons

SERVED = {metric.name: metric for metric in (*KUBE_SCHEDULER, *RESOURCES)}


@pytest.fixture(scope="module")
def declared() -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name("kube_scheduler_metrics.json")
    return {metric["name"]: metric for metric in json.loads(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("metric", SERVED.values(), ids=lambda metric: metric.name)
def test_a_metric_is_declared_as_kube_scheduler_declares_it(
    metric: Metric, declared: dict[str, dict[str, Any]]
) -> None:
    """Type, stability, labels in their order, bounds and help."""
    assert declared[metric.name] == {
        "name": metric.name,
        "type": metric.kind,
        "stability": metric.stability,
        "labels": list(metric.labels),
        "buckets": list(metric.buckets),
        "help": metric.help,
    }


def test_what_is_not_served_has_its_reason_on_the_page(declared: dict[str, dict[str, Any]], repository: Path) -> None:
    """Each metric of kube-scheduler is either served or listed, never both."""
    patterns = reasons(repository)
    listed = {name for name in declared if any(fnmatchcase(name, pattern) for pattern in patterns)}
    assert listed == declared.keys() - SERVED.keys()


def test_no_reason_is_given_for_what_is_not_kube_schedulers(
    declared: dict[str, dict[str, Any]], repository: Path
) -> None:
    """A row about metrics of the scheduler must be about some that exist."""
    ours = ("scheduler_", "rest_client_", "leader_election_", "dynamic_resource_allocation_")
    for pattern in reasons(repository):
        if pattern.startswith(ours):
            assert any(fnmatchcase(name, pattern) for name in declared), pattern
