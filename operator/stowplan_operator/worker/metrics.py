"""Metrics of one worker, in a registry of their own.

Counts and durations come in as they happen: from the core's Observe effects and from the shell's requests. What is a
state (queue lengths, cache sizes, the age of a watch) is read when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, cast

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from stowplan_scheduler import __version__

from .metric_table import KUBE_SCHEDULER, OWN, Metric

LabelValues = tuple[str, ...]
Sample = tuple[LabelValues, float]

_BY_NAME: Final[Mapping[str, Metric]] = {metric.name: metric for metric in (*KUBE_SCHEDULER, *OWN)}

_OBSERVED: Final[Mapping[str, str]] = {"queueing_hint_errors_total": "stowplan_queueing_hint_errors_total"}
"""Metrics of the core that kube-scheduler does not have. All others of the core get kube-scheduler's prefix."""


class _Child(Protocol):
    """One time series."""

    def inc(self, amount: float = 1) -> None: ...
    def observe(self, amount: float) -> None: ...


class StateSource(Protocol):
    """What can be asked when somebody scrapes: samples of one metric, as label values and a number."""

    def samples(self) -> Iterable[tuple[str, Sequence[Sample]]]:
        """(name of the metric, its samples); the names are those of the tables."""


class WorkerMetrics:
    """The time series of one worker."""

    def __init__(self) -> None:
        """No samples yet, except for the process's own."""
        # The library adds a second series with the time of creation to each; nothing reads it, and upstream has none.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        self._series: dict[str, Counter | Histogram] = {
            metric.name: _made(metric, self.registry)
            for metric in _BY_NAME.values()
            if metric.kind != "gauge"
            if metric.name not in _READ_AT_SCRAPE
        }
        self._children: dict[tuple[str, LabelValues], _Child] = {}
        self._states: list[StateSource] = []
        self.registry.register(_States(self._states))
        ProcessCollector(registry=self.registry)

    def add_states(self, source: StateSource) -> None:
        """Have something asked at each scrape."""
        self._states.append(source)

    # ---- feeding -----------------------------------------------------------------------------

    def count(self, name: str, *labels: str, amount: float = 1) -> None:
        """Add to a counter; label values stand in the order of the table."""
        self._child(name, labels).inc(amount)

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """A sample for a histogram; label values stand in the order of the table."""
        self._child(name, labels).observe(seconds)

    def observe(self, metric: str, value: float, labels: Sequence[tuple[str, str]] = ()) -> None:
        """The core's Observe effect: the metric's name without prefix, labels by name."""
        name = _OBSERVED.get(metric) or f"scheduler_{metric}"
        given = dict(labels)
        child = self._child(name, tuple(given[label] for label in _BY_NAME[name].labels))
        if _BY_NAME[name].kind == "counter":
            child.inc(value)
        else:
            child.observe(value)

    def _child(self, name: str, labels: LabelValues) -> _Child:
        # The library's own look-up takes a lock and checks the labels: too dear for each pod.
        key = (name, labels)
        child = self._children.get(key)
        if child is None:
            series = self._series[name]
            child = cast(_Child, series.labels(*labels) if labels else series)
            self._children[key] = child
        return child

    # ---- reading -----------------------------------------------------------------------------

    def exposition(self) -> bytes:
        """All samples in Prometheus' text format."""
        return generate_latest(self.registry)


_READ_AT_SCRAPE: Final = frozenset(
    {
        "scheduler_queue_incoming_pods_total",
        "scheduler_queue_incoming_entities_total",
        "stowplan_events_dropped_total",
    }
)
"""Counters that somebody else keeps."""


class _States(Collector):
    """Asks the sources and adds what never changes."""

    def __init__(self, sources: Sequence[StateSource]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The families of one scrape."""
        found: dict[str, list[Sample]] = {"stowplan_build_info": [((__version__,), 1.0)]}
        for source in self._sources:
            for name, samples in source.samples():
                found.setdefault(name, []).extend(samples)
        for name, samples in found.items():
            metric = _BY_NAME[name]
            make = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
            family = make(name, metric.help, labels=metric.labels)
            for labels, value in samples:
                family.add_metric(labels, value)
            yield family


def _made(metric: Metric, registry: CollectorRegistry) -> Counter | Histogram:
    if metric.kind == "counter":
        return Counter(metric.name, metric.help, metric.labels, registry=registry)
    return Histogram(metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry)
