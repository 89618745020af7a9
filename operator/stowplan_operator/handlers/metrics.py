"""Metrics of the operator, in a registry of their own. Those of workers are served by the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stowplan_scheduler import __version__

from .conditions import conditions_of
from .names import KINDS
from .objects import Objects

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class OperatorMetrics:
    """The time series of one operator."""

    def __init__(self, objects: Objects) -> None:
        # The library adds a second series with the time of creation to each; nothing reads it.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        made: dict[str, Any] = {"registry": self.registry}
        Gauge("stowplan_build_info", "1, with the version.", ["version"], **made).labels(__version__).set(1)
        self.leading = Gauge("stowplan_operator_leading", "Whether this operator acts.", **made)
        self.reconciliations = Counter("stowplan_operator_reconciliations", "Looks at the whole state.", **made)
        self.errors = Counter(
            "stowplan_operator_reconcile_errors", "Looks that ended with an error, by what failed.", ["error"], **made
        )
        self.seconds = Histogram(
            "stowplan_operator_reconcile_duration_seconds",
            "Time to work out what should be, without writing it.",
            buckets=_BUCKETS,
            **made,
        )
        self.writes = Counter("stowplan_operator_status_writes", "Status that was written, by kind.", ["kind"], **made)
        self.registry.register(_Conditions(objects))
        ProcessCollector(registry=self.registry)

    def exposition(self) -> bytes:
        """All samples in Prometheus' text format."""
        return generate_latest(self.registry)


class _Conditions(Collector):
    """Reads the objects when somebody scrapes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample per object and condition: 1 for True, 0 for anything else."""
        family = GaugeMetricFamily(
            "stowplan_condition", "Whether a condition of an object is True.", labels=("kind", "name", "type")
        )
        for kind in KINDS:
            for each in self._objects.of(kind):
                for type, status in _statuses(each.status):
                    family.add_metric((kind, each.name, type), float(status == "True"))
        yield family


def _statuses(status: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return ((type, str(entry.get("status"))) for type, entry in conditions_of(status).items() if type)
