"""The path from what pods use to what an autoscaler sees: housekeeping, scrapes, windows, adapters, age.

    usage  -> housekeeping -> metrics-server -> resource metrics
    series -> Prometheus   -> adapter        -> custom and external metrics

Both together are `MetricsApis`, the client of the HPA controller.

The picture with all defaults and their sources: docs/architecture/metrics.md.
"""

from __future__ import annotations

from .adapter import AdapterConfig, Freshness, PrometheusAdapter, Rule
from .apis import ComputedExternal, MetricsApis, ResourceMetrics
from .faults import NO_FAULTS, Outage, ScrapeFaults
from .housekeeping import Housekeeping
from .metrics_server import MetricsServer, MetricsServerConfig
from .plain import PlainConfig, PlainMetricsServer
from .pod_index import Members, PodIndex
from .prometheus import Exposed, Prometheus, PrometheusConfig, Sampled
from .usage import (
    ContainerShare,
    EachPod,
    InstantUsage,
    Shares,
    UsageBatch,
    UsageSource,
    shares_by_request,
)
from .usage_history import UsageHistory

__all__ = [
    "NO_FAULTS",
    "AdapterConfig",
    "ComputedExternal",
    "ContainerShare",
    "EachPod",
    "Exposed",
    "Freshness",
    "Housekeeping",
    "InstantUsage",
    "Members",
    "MetricsApis",
    "MetricsServer",
    "MetricsServerConfig",
    "Outage",
    "PlainConfig",
    "PlainMetricsServer",
    "PodIndex",
    "Prometheus",
    "PrometheusAdapter",
    "PrometheusConfig",
    "ResourceMetrics",
    "Rule",
    "Sampled",
    "ScrapeFaults",
    "Shares",
    "UsageBatch",
    "UsageHistory",
    "UsageSource",
    "shares_by_request",
]
