"""prometheus-adapter: custom and external metrics as queries to Prometheus, for the series that the last relist found.

A rule turns a series into a metric. Values are queried when somebody asks, so they are as old as Prometheus' samples;
but whether a series exists the adapter learns only every `relist_interval`: a new name stays unknown until then.

The APIs hide the age of a sample: custom metrics are stamped with the time of the question, and so are instant queries.
`freshness` shows the age. What happens to a value that got old is up to the rule (`when_stale`):

    lookback   as Prometheus does: it is there for five minutes, or until a staleness marker, then it is gone
    error      it is gone when older than `fresh_for`: a query with a guard such as `and (time() - timestamp(x) < 60)`
    keep       it stays for ever, as what was pushed to a Pushgateway does

Follows pkg/custom-provider, pkg/external-provider and cmd/adapter/adapter.go of prometheus-adapter (April 2025).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from stowplan_autoscaling.hpa.metrics import DEFAULT_WINDOW, MetricsError, PodMetric
from stowplan_autoscaling.hpa.objects import CrossVersionObjectReference
from stowplan_autoscaling.kernel import MINUTE, SECOND, whole_seconds
from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import EVERYTHING, LabelQuery

from .faults import Outage, lacking, outage_at
from .pod_index import PodIndex
from .prometheus import Prometheus, Sampled

WhenStale = Literal["lookback", "error", "keep"]
Aggregate = Literal["none", "sum", "max", "avg"]

_INTERNAL: Final = "Internal error occurred: unable to fetch metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a metric comes from a series.

    A custom metric belongs to a resource: `kind` and `resource` name it ("Pod", "pods"; "Ingress",
    "ingresses.networking.k8s.io"), `label` is the label of the series that holds the object's name. Without `kind` the
    metric is external.
    """

    metric: str
    series: str
    kind: str = ""
    resource: str = ""
    label: str = ""
    window: int | None = None
    """The window of rate(), in nanoseconds; None: the series' value itself."""
    aggregate: Aggregate = "sum"
    """Over the series of one object; of an external metric over all that match (none: each is a value)."""
    namespaced: bool = True
    """Whether series must have the label `namespace` of the question. Custom metrics always do."""
    when_stale: WhenStale = "lookback"
    fresh_for: int = 5 * MINUTE
    """For when_stale "error": the greatest age of a sample, in nanoseconds."""

    def __post_init__(self) -> None:
        if self.window is not None and (self.window <= 0 or self.when_stale == "keep"):
            raise ValueError(f"metric {self.metric}: a rate needs a positive window and cannot be kept when stale")
        if self.kind and not (self.resource and self.label):
            raise ValueError(f"metric {self.metric}: a custom metric of kind {self.kind} needs resource and label")

    @classmethod
    def of_pods(cls, metric: str, series: str, *, window: int | None = None) -> Rule:
        """The usual rule for a custom metric of pods."""
        return cls(metric=metric, series=series, kind="Pod", resource="pods", label="pod", window=window)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    """Flags of prometheus-adapter, in nanoseconds."""

    relist_interval: int = 10 * MINUTE
    """--metrics-relist-interval."""
    max_age: int | None = None
    """--metrics-max-age: how old a series' newest sample may be for a relist to find it; None: relist_interval."""
    outages: tuple[Outage, ...] = ()

    def __post_init__(self) -> None:
        if self.relist_interval <= 0:
            raise ValueError(f"relist_interval: must be positive, got {self.relist_interval / SECOND:g} s")
        if self.max_age is not None and self.max_age < self.relist_interval:
            raise ValueError("max_age: must not be less than relist_interval")


class Freshness(NamedTuple):
    """Of the oldest sample that an answer rests on: when it was taken, and its age; nanoseconds."""

    time: int
    age: int


class PrometheusAdapter:
    """The custom and the external metrics API."""

    def __init__(
        self,
        prometheus: Prometheus,
        rules: Sequence[Rule],
        *,
        index: PodIndex,
        start: int,
        config: AdapterConfig = AdapterConfig(),
    ) -> None:
        self.config = config
        self._prometheus = prometheus
        self._index = index
        self._rules = {(rule.kind, rule.metric): rule for rule in rules}
        self._known: set[str] = set()
        self._relist = start

    # ---- relist

    def next_event(self) -> int:
        """When the next relist is due; the first is at the start."""
        return self._relist

    def advance(self, now: int) -> None:
        """Do the relists that are due."""
        while self._relist <= now:
            age = self.config.max_age if self.config.max_age is not None else self.config.relist_interval
            self._known = self._prometheus.names(self._relist, self._relist - age)
            self._relist += self.config.relist_interval

    # ---- the APIs

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.pods."""
        self._check_outage("custom", now)
        rule = self._custom_rule("Pod", metric, "pods")
        wanted = _query(metric_selector)
        without = lacking(self.config.outages, now)
        names = [name for name in self._index.members(namespace, selector).names if name not in without]
        values = self._values(rule, namespace, names, wanted, now)
        if not values or outage_at(self.config.outages, "empty", now) is not None:
            raise MetricsError.nothing("custom")
        stamp = whole_seconds(now)
        return {name: PodMetric(stamp, DEFAULT_WINDOW, value) for name, value in values.items()}, stamp

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """See MetricsClient.object."""
        self._check_outage("custom", now)
        plural = object_ref.kind.lower() + "s"
        rule = self._custom_rule(object_ref.kind, metric, plural)
        name = namespace if object_ref.kind == "Namespace" else object_ref.name
        values = self._values(rule, namespace, [name], _query(metric_selector), now)
        if not values or outage_at(self.config.outages, "empty", now) is not None:
            reason = f"the server could not find the metric {metric} for {rule.resource} {name}"
            raise MetricsError.unavailable("custom", reason)
        return values[name], whole_seconds(now)

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient.external."""
        self._check_outage("external", now)
        rule = self._rules.get(("", metric))
        if rule is None or rule.series not in self._known:
            of = "namespaces" if namespace == "default" else ""
            raise MetricsError.unavailable("external", f"the server could not find the metric {metric} for {of}")
        values = aggregated(rule.aggregate, [s.value for s in self._external_samples(rule, namespace, selector, now)])
        if not values or outage_at(self.config.outages, "empty", now) is not None:
            raise MetricsError.nothing("external")
        return [milli(value) for value in values], whole_seconds(now)

    def freshness(self, metric: str, namespace: str, selector: LabelSelector | None, now: int) -> Freshness | None:
        """How old the oldest sample is that the external metric rests on; None where there is no value."""
        rule = self._rules.get(("", metric))
        samples = [] if rule is None else self._external_samples(rule, namespace, selector, now)
        oldest = min((sample.time for sample in samples), default=None)
        return None if oldest is None else Freshness(oldest, now - oldest)

    def _check_outage(self, api: str, now: int) -> None:
        failure = outage_at(self.config.outages, "error", now)
        if failure is not None:
            raise MetricsError.unavailable(api, failure.reason or _INTERNAL)

    def _custom_rule(self, kind: str, metric: str, plural: str) -> Rule:
        rule = self._rules.get((kind, metric))
        if rule is None or rule.series not in self._known:
            resource = plural if rule is None else rule.resource
            raise MetricsError.unavailable("custom", f"the server could not find the metric {metric} for {resource}")
        return rule

    def _values(self, rule: Rule, namespace: str, names: Sequence[str], wanted: LabelQuery, now: int) -> dict[str, int]:
        """The metric of each object that has one, in milli units."""
        found: dict[str, int] = {}
        for name in names:
            samples = self._samples(rule, {"namespace": namespace, rule.label: name}, wanted, now)
            values = aggregated("sum" if rule.aggregate == "none" else rule.aggregate, [s.value for s in samples])
            if values:
                found[name] = milli(values[0])
        return found

    def _external_samples(self, rule: Rule, namespace: str, selector: LabelSelector | None, now: int) -> list[Sampled]:
        return self._samples(rule, {"namespace": namespace} if rule.namespaced else {}, _query(selector), now)

    def _samples(self, rule: Rule, labels: Mapping[str, str], wanted: LabelQuery, now: int) -> list[Sampled]:
        prometheus = self._prometheus
        if rule.window is not None:
            samples = prometheus.rate(rule.series, labels, rule.window, now)
        elif rule.when_stale == "keep":
            samples = prometheus.last_known(rule.series, labels, now)
        else:
            samples = prometheus.instant(rule.series, labels, now)
        if rule.when_stale == "error":
            samples = [sample for sample in samples if now - sample.time <= rule.fresh_for]
        if wanted.is_empty:
            return samples
        return [sample for sample in samples if wanted.matches(sample.labels)]


def _query(selector: LabelSelector | None) -> LabelQuery:
    """An absent metric selector restricts nothing."""
    return EVERYTHING if selector is None else LabelQuery.of(selector)


def aggregated(how: Aggregate, values: Sequence[float]) -> list[float]:
    """The values of matching series as the rule puts them together; nothing stays nothing."""
    if not values or how == "none":
        return list(values)
    if how == "max":
        return [max(values)]
    total = math.fsum(values)
    return [total / len(values) if how == "avg" else total]


def milli(value: float) -> int:
    """A sample in milli units, cut to whole ones; not-a-number counts as 0 (metricFor)."""
    return 0 if math.isnan(value) else int(value * 1000.0)
