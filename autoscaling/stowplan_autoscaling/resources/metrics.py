"""spec.metrics: the way from what a pod uses to what an HPA sees, with its intervals, delays and failures."""

from __future__ import annotations

from typing import Annotated, Literal

from .base import FromList, Labels, Names, Part, needed, option, parts
from .values import Duration, Number, PositiveDuration, Share

_ADAPTER = "prometheus-adapter"


class ChanceFaults(Part):
    """What goes wrong with scrapes by chance; nothing unless it is set."""

    missing: Share = option(0, "Share of scrapes that fail.")
    late: Share = option(0, "Share of the others whose samples arrive late.")
    late_by: Duration = option("0s", "How late.")


class Housekeeping(Part):
    """cAdvisor in the kubelet: how old the figures are that a scrape finds."""

    interval: PositiveDuration = option(
        "10s", "Time between two measurements of a container.", source="kubelet v1.37.2, defaultHousekeepingInterval"
    )
    jitter: Number = option(
        1, "A wait is between interval and (1 + jitter) times interval; 0: a fixed rhythm.", source="cAdvisor"
    )


class MetricsServer(Part):
    """metrics-server, the source of Resource and ContainerResource metrics."""

    resolution: PositiveDuration = option(
        "15s",
        "Time between two scrapes (--metric-resolution), at least 10s.",
        source="the manifests of metrics-server v0.9.0 (the flag's own is 60s)",
    )
    request_timeout: PositiveDuration = option(
        "10s", "Time a kubelet has to answer (--kubelet-request-timeout).", source="metrics-server v0.9.0"
    )
    phase: Duration | None = option(
        None,
        "When the first scrape begins. Absent: drawn from the seed, since it hangs on when metrics-server started.",
    )
    chance: ChanceFaults = option({}, "Scrapes of single nodes that fail, rounds that are published late.")


class Prometheus(Part):
    """Prometheus, behind Pods, Object and External metrics."""

    scrape_interval: PositiveDuration = option(
        "1m", "Time between two scrapes of a target.", source="Prometheus' global.scrape_interval"
    )
    lookback: PositiveDuration = option(
        "5m", "A sample that is older counts as missing.", source="Prometheus' --query.lookback-delta"
    )
    chance: ChanceFaults = option({}, "Scrapes of single targets that fail or are late.")


class Adapter(Part):
    """prometheus-adapter, which offers Prometheus' series as metrics."""

    relist_interval: PositiveDuration = option(
        "10m",
        "Time between two looks for new series: a new one stays unseen until then.",
        source=f"{_ADAPTER}'s --metrics-relist-interval",
    )
    max_age: PositiveDuration | None = option(
        None,
        "How old a series' newest sample may be for a relist to find it. Absent: the relist interval, as with "
        "--metrics-max-age.",
    )


class MetricSource(Part):
    """A metric that HPAs and KEDA can ask for, and what it measures."""

    name: str = needed(
        "Name of the metric, as HPAs give it. For a trigger of KEDA: its name, or that of its external metric "
        "(s0-kafka-orders).",
        min_length=1,
        max_length=253,
    )
    type: Literal["Pods", "Object", "External"] = needed("Which kind of metric it is offered as.")
    demand: str = needed("Name of the entry in spec.demand that is measured.", min_length=1, max_length=63)
    value: Literal["Rate", "Latency", "InFlight", "QueueLength", "QueueAge"] = needed(
        "What is measured: requests or messages per second, mean latency in seconds, requests under way, messages "
        "waiting, age of the oldest message in seconds. Pods metrics are per pod."
    )
    window: PositiveDuration = option(
        "1m", "Window of rates.", source="the HPA controller: 60s for a custom metric that names none"
    )
    labels: Labels = option({}, "Labels of the series, for metric selectors.", max_length=16)
    object: str = option("", "Object metrics: Kind/name that the metric describes, as in Ingress/shop.", max_length=317)
    when_stale: Literal["Lookback", "Error", "Keep"] = option(
        "Lookback",
        "What becomes of a value that gets old. Lookback: it is gone after Prometheus' lookback. Error: gone after "
        "freshFor. Keep: it stays, as what was pushed to a Pushgateway does.",
    )
    fresh_for: PositiveDuration = option("5m", "For whenStale Error: the greatest age of a sample.")


class Outage(Part):
    """A time in which a metrics API fails."""

    at: Duration = needed("When it begins, from the start of the run.")
    duration: PositiveDuration = needed("How long it lasts.")
    api: Literal["Resource", "Custom"] = needed(
        "Resource: that of metrics-server. Custom: custom and external metrics of the adapter."
    )
    effect: Literal["Error", "Empty", "Pods"] = needed(
        "Error: it answers with an error. Empty: with nothing. Pods: without the pods below."
    )
    pods: Names = parts("namespace/name of pods, for effect Pods.", max_length=1000)


class MetricsSpec(Part):
    """All of it."""

    housekeeping: Housekeeping = option({}, "Measuring on the node.")
    server: MetricsServer = option({}, "metrics-server.")
    prometheus: Prometheus = option({}, "Prometheus.")
    adapter: Adapter = option({}, "prometheus-adapter.")
    sources: Annotated[tuple[MetricSource, ...], FromList] = parts("Custom and external metrics.", max_length=256)
    outages: Annotated[tuple[Outage, ...], FromList] = parts("Times in which an API fails.", max_length=256)
