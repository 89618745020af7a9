"""The series of a worker: what the core observes has a place, and what is scraped can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stowplan_operator.worker.metric_table import KUBE_SCHEDULER, OWN, RESOURCES, exponential
from stowplan_operator.worker.metrics import Sample, WorkerMetrics
from support.metric_page import rows


def test_bounds_are_those_of_gos_exponential_buckets() -> None:
    """As kube-scheduler prints them: each is the one before times the factor, with what that does to a float."""
    assert exponential(0.00001, 1.5, 4) == (
        1e-05,
        1.5000000000000002e-05,
        2.2500000000000005e-05,
        3.375000000000001e-05,
    )
    assert exponential(1, 2, 5) == (1, 2, 4, 8, 16)


def test_every_sample_of_the_core_has_a_metric(repository: Path) -> None:
    """A name that the core observes and nobody declared would end the worker."""
    names = {metric.name for metric in (*KUBE_SCHEDULER, *OWN)}
    sources = (repository / "scheduler").rglob("*.py")
    observed = {name for path in sources for name in re.findall(r'\.observe\(\s*"(\w+)"', path.read_text("utf-8"))}
    assert {"schedule_attempts_total", "queueing_hint_errors_total"} <= observed
    assert {name for name in observed if not {f"scheduler_{name}", f"stowplan_{name}"} & names} == set()


def test_samples_of_the_core_are_counted_and_timed() -> None:
    metrics = WorkerMetrics()
    for _ in range(2):
        metrics.observe("schedule_attempts_total", 1, (("result", "scheduled"), ("profile", "dense")))
    metrics.observe("pod_scheduling_attempts", 3)
    metrics.observe("queueing_hint_errors_total", 1, (("plugin", "P"), ("event", "NodeAdd"), ("error", "KeyError")))
    lines = metrics.exposition().decode().splitlines()
    assert 'scheduler_schedule_attempts_total{profile="dense",result="scheduled"} 2' in lines
    assert 'scheduler_pod_scheduling_attempts_bucket{le="2"} 0' in lines
    assert 'scheduler_pod_scheduling_attempts_bucket{le="4"} 1' in lines
    assert 'stowplan_queueing_hint_errors_total{error="KeyError",event="NodeAdd",plugin="P"} 1' in lines


class Source:
    def samples(self) -> Iterable[tuple[str, Sequence[Sample]]]:
        yield "scheduler_pending_pods", [(("active",), 4), (("backoff",), 0)]
        yield "scheduler_queue_incoming_pods_total", [(("active", "NodeAdd"), 7)]


def test_states_are_asked_at_each_scrape() -> None:
    metrics = WorkerMetrics()
    metrics.add_states(Source())
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert families["scheduler_pending_pods"].type == "gauge"
    assert families["scheduler_queue_incoming_pods"].type == "counter"
    assert [sample.value for sample in families["scheduler_pending_pods"].samples] == [4, 0]
    # Series about the time of a series' creation would be another metric for each.
    assert not [name for name in families if name.endswith("_created")]


def test_a_name_that_nobody_declared_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        WorkerMetrics().observe("no_such_metric", 1)


def test_the_page_of_metrics_has_a_row_for_each(repository: Path) -> None:
    """docs/metrics.md: name, type and labels as in the tables."""
    served = (*KUBE_SCHEDULER, *RESOURCES, *OWN)
    assert rows(repository) == {metric.name: (metric.kind, ", ".join(metric.labels)) for metric in served}
