"""The three metrics APIs of a cluster as one client: who answers what.

A cluster has one provider per API: a metrics server for resources, an adapter for custom metrics, an adapter or KEDA
for external ones. An API without a provider is not registered, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.hpa.metrics import (
    CustomMetricsApi,
    ExternalMetricsApi,
    MetricsError,
    PodMetric,
    ResourceMetricsApi,
)
from stowplan_autoscaling.hpa.objects import CrossVersionObjectReference
from stowplan_autoscaling.kernel import whole_seconds
from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import LabelQuery


class ResourceMetrics(ResourceMetricsApi, Protocol):
    """A metrics server: `MetricsServer` or `PlainMetricsServer`. It is told what happens to nodes and pods."""

    def next_event(self) -> int | None: ...
    def advance(self, now: int) -> object: ...
    def node_added(self, name: str) -> None: ...
    def node_lost(self, name: str) -> None: ...
    def node_removed(self, name: str) -> None: ...
    def pod_started(self, pod: ClusterPod, now: int) -> None: ...
    def container_restarted(self, uid: str, container: str | None, now: int) -> None: ...
    def pod_ended(self, uid: str) -> None: ...


class ComputedExternal:
    """External metrics that are computed when somebody asks: fresh always, without a path that could age them.

    `series` maps a metric to a function of the time (nanoseconds) that gives its values in milli units. With `missing`
    as the reason for a metric that is not there.
    """

    def __init__(
        self, series: Mapping[str, Callable[[int], Sequence[int]]], *, missing: str = "no such metric"
    ) -> None:
        self._series = series
        self._missing = missing

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient.external."""
        compute = self._series.get(metric)
        if compute is None:
            raise MetricsError.unavailable("external", self._missing)
        values = compute(now)
        if not values:
            raise MetricsError.nothing("external")
        return values, whole_seconds(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsApis:
    """The MetricsClient of a cluster."""

    resources: ResourceMetrics | None = None
    custom: CustomMetricsApi | None = None
    externals: ExternalMetricsApi | None = None

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.resource."""
        if self.resources is None:
            raise MetricsError.unavailable(
                "resource", "the server could not find the requested resource (get pods.metrics.k8s.io)"
            )
        return self.resources.resource(resource, namespace, selector, container, now)

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.pods."""
        return self._custom().pods(metric, namespace, selector, metric_selector, now)

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """See MetricsClient.object."""
        return self._custom().object(metric, namespace, object_ref, metric_selector, now)

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient.external."""
        if self.externals is None:
            raise MetricsError.unavailable(
                "external", f"the server could not find the requested resource (get {metric}.external.metrics.k8s.io)"
            )
        return self.externals.external(metric, namespace, selector, now)

    def _custom(self) -> CustomMetricsApi:
        if self.custom is None:
            raise MetricsError.unavailable("custom", "no custom metrics API (custom.metrics.k8s.io) registered")
        return self.custom
