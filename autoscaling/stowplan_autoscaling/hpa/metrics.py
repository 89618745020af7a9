"""What the controller asks of the metrics APIs.

A client answers as pkg/controller/podautoscaler/metrics/client.go of Kubernetes v1.37.2 does: it raises MetricsError
with the texts below where an API fails or has nothing, and leaves pods without a sample out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import LabelQuery

from .objects import CrossVersionObjectReference

DEFAULT_WINDOW: Final = 60 * 10**9
"""The window of a custom metric whose API states none, in nanoseconds."""


class PodMetric(NamedTuple):
    """One sample: when it was measured, over how long (both in nanoseconds), and how much in milli units."""

    timestamp: int
    window: int
    value: int


class MetricsError(Exception):
    """No answer; the text is what the controller sees."""

    @classmethod
    def unavailable(cls, api: str, reason: str) -> MetricsError:
        """The API ("resource", "custom" or "external") answered with an error."""
        return cls(f"unable to fetch metrics from {api} metrics API: {reason}")

    @classmethod
    def nothing(cls, api: str) -> MetricsError:
        """The API answered with an empty list."""
        return cls(f"no metrics returned from {api} metrics API")


class ResourceMetricsApi(Protocol):
    """metrics.k8s.io."""

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """What pods use: the sum of their containers, or one container. A pod that lacks a sample is left out."""
        ...


class CustomMetricsApi(Protocol):
    """custom.metrics.k8s.io."""

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """A custom metric of pods."""
        ...

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """A custom metric of one object."""
        ...


class ExternalMetricsApi(Protocol):
    """external.metrics.k8s.io."""

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """All series of an external metric."""
        ...


class MetricsClient(ResourceMetricsApi, CustomMetricsApi, ExternalMetricsApi, Protocol):
    """The three metrics APIs. Pod mappings are keyed by pod names; the last int is the time of the answer.

    Every method raises MetricsError.
    """
