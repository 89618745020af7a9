"""Counters and histograms that cost little to feed: ten histograms are fed for each pod, by one thread.

Prometheus' own library takes a lock for every bucket, which a worker with one loop does not need.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from .exposition import Family, Line, go_float
from .metric_table import Metric

LabelValues = tuple[str, ...]


class CounterSeries:
    """One series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float) -> None:
        """Count."""
        self.value += amount

    def lines(self, labels: Sequence[tuple[str, str]]) -> Iterator[Line]:
        """What is exposed."""
        yield Line("", labels, self.value)


class HistogramSeries:
    """One series of a histogram. `bounds`: upper ones, ascending; a sample on a bound belongs below it."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, amount: float) -> None:
        """Take a sample."""
        self._counts[bisect_left(self._bounds, amount)] += 1
        self._sum += amount

    def lines(self, labels: Sequence[tuple[str, str]]) -> Iterator[Line]:
        """What is exposed: a bucket holds all that is not above its bound."""
        total = 0
        for bound, count in zip((*self._bounds, _INFINITY), self._counts, strict=True):
            total += count
            yield Line("_bucket", (*labels, ("le", go_float(bound))), total)
        yield Line("_sum", labels, self._sum)
        yield Line("_count", labels, total)


_INFINITY: Final = float("inf")

Series = CounterSeries | HistogramSeries


class SeriesOf:
    """The series of one counter or histogram, by their label values in the table's order."""

    __slots__ = ("_metric", "children")

    def __init__(self, metric: Metric) -> None:
        """A metric without labels has its one series from the start, as upstream."""
        self._metric = metric
        self.children: dict[LabelValues, Series] = {}
        if not metric.labels:
            self.child(())

    def child(self, labels: LabelValues) -> Series:
        """The series with these label values. Raises ValueError for too many of them or too few."""
        found = self.children.get(labels)
        if found is None:
            if len(labels) != len(self._metric.labels):
                raise ValueError(f"{self._metric.name} has the labels {self._metric.labels}, got {labels}")
            found = CounterSeries() if self._metric.kind == "counter" else HistogramSeries(self._metric.buckets)
            self.children[labels] = found
        return found

    def family(self) -> Family:
        """What is exposed."""
        metric = self._metric
        named = [(_named(metric, labels), series) for labels, series in self.children.items()]
        named.sort(key=lambda child: child[0])
        lines = [line for labels, series in named for line in series.lines(labels)]
        return Family(metric.name, metric.kind, metric.help_text, lines)


def state_family(metric: Metric, samples: Iterable[tuple[LabelValues, float]]) -> Family:
    """A gauge, or a counter that somebody else keeps, as it is exposed."""
    order = sorted(range(len(metric.labels)), key=lambda place: metric.labels[place])
    names = [metric.labels[place] for place in order]
    ordered = sorted((tuple([labels[place] for place in order]), value) for labels, value in samples)
    lines = [Line("", list(zip(names, labels, strict=True)), value) for labels, value in ordered]
    return Family(metric.name, metric.kind, metric.help_text, lines)


def _named(metric: Metric, labels: LabelValues) -> list[tuple[str, str]]:
    """Label values with their names, in the order of the names, as Go's library writes and sorts them."""
    return sorted(zip(metric.labels, labels, strict=True))
