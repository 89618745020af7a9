"""Metrics of one worker, in a registry of their own.

Counts and durations come in as they happen: from the core's Observe effects and from the shell's requests. What is a
state (queue lengths, cache sizes, the age of a watch) is read when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client import ProcessCollector

from stowplan_scheduler import __version__

from .exposition import Family, Line, exposition
from .metric_table import KUBE_SCHEDULER, OWN, Metric
from .series import LabelValues, Series, SeriesOf, state_family

Sample = tuple[LabelValues, float]

_BY_NAME: Final[Mapping[str, Metric]] = {metric.name: metric for metric in (*KUBE_SCHEDULER, *OWN)}

_OBSERVED: Final[Mapping[str, str]] = {"queueing_hint_errors_total": "stowplan_queueing_hint_errors_total"}
"""Metrics of the core that kube-scheduler does not have. All others of the core get kube-scheduler's prefix."""

_READ_AT_SCRAPE: Final = frozenset(
    {
        "scheduler_plugin_evaluation_total",
        "scheduler_queue_incoming_pods_total",
        "scheduler_queue_incoming_entities_total",
        "stowplan_events_dropped_total",
    }
)
"""Counters that somebody else keeps."""


class StateSource(Protocol):
    """What can be asked when somebody scrapes: samples of one metric, as label values and a number."""

    def samples(self) -> Iterable[tuple[str, Sequence[Sample]]]:
        """(name of the metric, its samples); the names are those of the tables."""


class WorkerMetrics:
    """The time series of one worker."""

    def __init__(self) -> None:
        """No samples yet, except for the process's own and for counts without labels."""
        self._series = {
            metric.name: SeriesOf(metric)
            for metric in _BY_NAME.values()
            if metric.kind != "gauge"
            if metric.name not in _READ_AT_SCRAPE
        }
        self._children: dict[tuple[str, LabelValues], Series] = {}
        self._states: list[StateSource] = []
        self._process = ProcessCollector(registry=None)

    def add_states(self, source: StateSource) -> None:
        """Have something asked at each scrape."""
        self._states.append(source)

    # ---- feeding -----------------------------------------------------------------------------

    def count(self, name: str, *labels: str, amount: float = 1) -> None:
        """Add to a counter; label values stand in the order of the table."""
        self._child(name, labels).add(amount)

    def time(self, name: str, seconds: float, *labels: str) -> None:
        """A sample for a histogram; label values stand in the order of the table."""
        self._child(name, labels).add(seconds)

    def observe(self, metric: str, value: float, labels: Sequence[tuple[str, str]] = ()) -> None:
        """The core's Observe effect: the metric's name without prefix, labels by name."""
        name = _OBSERVED.get(metric) or f"scheduler_{metric}"
        given = dict(labels)
        self._child(name, tuple(given[label] for label in _BY_NAME[name].labels)).add(value)

    def _child(self, name: str, labels: LabelValues) -> Series:
        key = (name, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._series[name].child(labels)
        return child

    # ---- reading -----------------------------------------------------------------------------

    def exposition(self) -> bytes:
        """All samples in Prometheus' text format."""
        return exposition(self._families())

    def _families(self) -> Iterator[Family]:
        for series in self._series.values():
            yield series.family()
        found: dict[str, list[Sample]] = {"stowplan_build_info": [((__version__,), 1.0)]}
        for source in self._states:
            for name, samples in source.samples():
                found.setdefault(name, []).extend(samples)
        for name, samples in found.items():
            yield state_family(_BY_NAME[name], samples)
        for family in self._process.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            lines = [Line("", list(sample.labels.items()), sample.value) for sample in family.samples]
            yield Family(name, family.type, family.documentation, lines)
