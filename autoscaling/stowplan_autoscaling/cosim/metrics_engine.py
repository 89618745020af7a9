"""The metrics path of a run: metrics-server, Prometheus and its adapter, fed by the loads.

Each part says when it acts next; a timer of the agenda wakes it then. Before a round of metrics-server is published
there is a full look at the loads, so that the history of use reaches up to now. A target of Prometheus is read by
itself: only the model that it measures is brought up to date.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.demand import WorkQueue
from stowplan_autoscaling.hpa.metrics import MetricsError
from stowplan_autoscaling.kernel import Timer
from stowplan_autoscaling.metrics import (
    Exposed,
    MetricsApis,
    MetricsServer,
    MetricsServerConfig,
    PodIndex,
    Prometheus,
    PrometheusAdapter,
    Rule,
    UsageHistory,
)
from stowplan_autoscaling.resources.wiring import adapter_config, metrics_server_config, prometheus_config

from .groups import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.resources.metrics import MetricSource

    from .load_engine import LoadEngine
    from .pods import PodBook, PodLife
    from .scaled_pods import ScaledPods
    from .world import World

_STALE: Final = {"Lookback": "lookback", "Error": "error", "Keep": "keep"}
_WARM_UP: Final = "stowplan/names"
"""A target that shows all series once at the start: the adapter has known their names for long."""


def history_of(config: MetricsServerConfig) -> int:
    """How far back metrics-server asks (MetricsServer.history), nanoseconds."""
    return 3 * config.resolution + config.housekeeping.longest + config.faults.late_by


class MetricsEngine:
    """All of it. `apis` is what the HPA controller asks."""

    def __init__(self, world: World, book: PodBook, loads: LoadEngine, *, has_resources: bool) -> None:
        """`has_resources`: whether anybody asks for resource metrics."""
        self._world = world
        self._loads = loads
        self._sources = world.spec.metrics.sources
        self.index = PodIndex()
        start = world.start
        metrics = world.spec.metrics
        self.server: MetricsServer | None = None
        if has_resources:
            config = metrics_server_config(metrics, start)
            loads.history = loads.tasks.history = UsageHistory(history_of(config))
            self.server = MetricsServer(
                config, usage=loads.history, index=self.index, streams=world.streams, start=start
            )
        self.prometheus = Prometheus(prometheus_config(metrics), streams=world.streams)
        self.adapter = PrometheusAdapter(
            self.prometheus,
            [rule_of(source) for source in self._sources],
            index=self.index,
            start=start,
            config=adapter_config(metrics, start),
        )
        self.apis = MetricsApis(
            resources=self.server,
            custom=self.adapter if any(each.type != "External" for each in self._sources) else None,
            externals=self.adapter if any(each.type == "External" for each in self._sources) else None,
        )
        self.scaled: ScaledPods | None = None
        """The same samples as columns, if somebody wants them."""
        self._scrape_timer: Timer | None = None
        self._of_pods: dict[str, list[MetricSource]] = {}
        for source in self._sources:
            if source.type == "Pods":
                loads.entries[source.demand].counts_by_pod = True
                target = str(loads.entries[source.demand].demand.target)
                self._of_pods.setdefault(target, []).append(source)
        book.listeners.append(self._pod_changed)

    def start(self) -> None:
        """Plan the first rounds."""
        kernel = self._world.kernel
        if self.server is not None:
            for name in self._world.server.all("Node"):
                self.server.node_added(name)
            kernel.later(self.server.next_event(), self._round)
        if not self._sources:
            return
        now = kernel.now
        self.prometheus.add_target(_WARM_UP, {"job": "warm-up"}, self._names, now, phase=0)
        for name, entry in self._loads.entries.items():
            sources = [each for each in self._sources if each.demand == name and each.type != "Pods"]
            if sources:
                self.prometheus.add_target(f"demand/{name}", {}, self._exposes(entry, sources), now, phase=0)
        self.prometheus.advance(now)
        self.prometheus.remove_target(_WARM_UP)
        self.adapter.advance(now)
        self._plan_scrape()
        kernel.later(self.adapter.next_event(), self._relist)

    # ---- what happens in the cluster ---------------------------------------------------------

    def _pod_changed(self, life: PodLife, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is None:
            self.index.remove(life.uid)
            self._pod_ended(life)
        elif old is None or old.metadata.labels is not new.metadata.labels:
            self.index.add(new)
        if new is not None and new.is_terminal and not (old is not None and old.is_terminal):
            self._pod_ended(life)

    def _pod_ended(self, life: PodLife) -> None:
        if self.server is not None:
            self.server.pod_ended(life.uid)
            if self.scaled is not None:
                self.scaled.forget_sample(life.key)
        if life.workload is not None and life.workload.name in self._of_pods:
            self.prometheus.remove_target(life.key)

    def pod_runs(self, pod: ClusterPod, life: PodLife) -> None:
        """All main containers of a pod run for the first time."""
        now = self._world.kernel.now
        if self.server is not None:
            self.server.pod_started(pod, now)
            if self.scaled is not None:
                self.scaled.pod_runs(life)
        sources = None if life.workload is None else self._of_pods.get(life.workload.name)
        if sources:
            labels = {"namespace": pod.metadata.namespace, "pod": pod.metadata.name}
            self.prometheus.add_target(life.key, labels, self._exposes_pod(life.key, sources), now)
            self._plan_scrape()

    def container_restarted(self, life: PodLife, container: str) -> None:
        """A container of a running pod starts again."""
        if self.server is not None:
            self.server.container_restarted(life.uid, container, self._world.kernel.now)

    def node_works(self, name: str, *, works: bool) -> None:
        """A node falls silent, or is heard again."""
        if self.server is not None:
            (self.server.node_added if works else self.server.node_lost)(name)

    # ---- rounds ------------------------------------------------------------------------------

    def _round(self) -> None:
        server = self.server
        if server is None:
            return
        self._loads.look()
        if server.advance(self._world.kernel.now) and self.scaled is not None:
            self.scaled.published()
        self._world.kernel.later(server.next_event(), self._round)

    def _plan_scrape(self) -> None:
        following = self.prometheus.next_event()
        if following is not None:
            if self._scrape_timer is not None:
                if self._scrape_timer.when <= following:
                    return
                self._scrape_timer.cancel()
            self._scrape_timer = self._world.kernel.later(following, self._scrape)

    def _scrape(self) -> None:
        self._scrape_timer = None
        self.prometheus.advance(self._world.kernel.now)
        self._plan_scrape()

    def _relist(self) -> None:
        now = self._world.kernel.now
        self.prometheus.advance(now)
        self.adapter.advance(now)
        self._world.kernel.later(self.adapter.next_event(), self._relist)

    # ---- what targets expose -----------------------------------------------------------------

    def _names(self, now: int) -> Iterable[Exposed]:
        return [Exposed(series_of(source), 0.0) for source in self._sources if source.type == "Pods"]

    def _exposes(self, entry: Entry, sources: list[MetricSource]) -> Callable[[int], Iterable[Exposed]]:
        namespace = "" if entry.demand.target is None else entry.demand.target.namespace

        def expose(now: int) -> Iterable[Exposed]:
            self._bring(entry, now)
            for source in sources:
                labels = dict(source.labels)
                if source.type == "Object":
                    kind, _, name = source.object.partition("/")
                    labels |= {"namespace": namespace, kind.lower(): name}
                yield Exposed(series_of(source), _value(entry, source.value), tuple(sorted(labels.items())))

        return expose

    def _bring(self, entry: Entry, now: int) -> None:
        """Bring a model up to a moment, unless the reaction to something of that moment has brought it further."""
        seconds = self._world.since_start(now)
        if entry.model.now < seconds:
            entry.model.advance(seconds)

    def _exposes_pod(self, key: str, sources: list[MetricSource]) -> Callable[[int], Iterable[Exposed]]:
        def expose(now: int) -> Iterable[Exposed]:
            seconds = self._world.since_start(now)
            for source in sources:
                entry = self._loads.entries[source.demand]
                group = self._loads.groups[str(entry.demand.target)]
                row = group.columns.rows.get(key)
                if row is None:
                    continue
                if entry.model.now < seconds:
                    group.advance(seconds)
                yield Exposed(
                    series_of(source), _value_of_pod(entry, source.value, row), tuple(sorted(source.labels.items()))
                )

        return expose

    # ---- asking ------------------------------------------------------------------------------

    def reading(self, name: str, *, through_prometheus: bool, now: int) -> float:
        """The present value of an External source, for KEDA: of what it measures, or of Prometheus' samples of it.

        Raises MetricsError.
        """
        source = next((each for each in self._sources if each.type == "External" and each.name == name), None)
        if source is None:
            raise MetricsError(f"there is no source {name}")
        entry = self._loads.entries[source.demand]
        if not through_prometheus:
            self._bring(entry, now)
            return entry.model.load.at(entry.model.now) if source.value == "Rate" else _value(entry, source.value)
        values, _ = self.adapter.external(name, "", None, now)
        return sum(values) / 1000


def series_of(source: MetricSource) -> str:
    """The name of the series that a source makes."""
    what = "".join(f"_{char.lower()}" if char.isupper() else char for char in source.value)
    name = f"stowplan_{source.demand}{what}".replace("-", "_").replace(".", "_")
    return f"{name}_{source.type.lower()}" + ("_total" if source.value == "Rate" else "")


def rule_of(source: MetricSource) -> Rule:
    """How the adapter makes the metric of a source."""
    window = source.window if source.value == "Rate" else None
    series = series_of(source)
    if source.type == "Pods":
        return Rule.of_pods(source.name, series, window=window)
    if source.type == "Object":
        kind = source.object.partition("/")[0]
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
        return Rule(metric=source.name, series=series, kind=kind, resource=plural, label=kind.lower(), window=window)
    stale = _STALE[source.when_stale]
    return Rule(
        metric=source.name,
        series=series,
        window=window,
        namespaced=False,
        when_stale="lookback" if window is not None and stale == "keep" else stale,  # type: ignore[arg-type]
        fresh_for=source.fresh_for,
    )


def _value(entry: Entry, what: str) -> float:
    """What is measured of a whole demand; counters count from the start."""
    model = entry.model
    if isinstance(model, WorkQueue):
        return {"Rate": model.arrived, "QueueLength": model.length, "QueueAge": model.age}[what]
    if what == "Rate":
        return model.arrived
    sample = model.sample()
    mean = sample.response.mean
    if what == "Latency":
        return 0.0 if math.isnan(mean) else mean
    return in_flight(sample.serving, mean, sample.backlog)


def _value_of_pod(entry: Entry, what: str, row: int) -> float:
    model = entry.model
    if what == "Rate":
        return float(entry.served_by[row])
    if isinstance(model, WorkQueue):
        return _value(entry, what) / max(len(model.pods), 1)
    response = model.sample().response
    mean = float(response.per_pod[row])
    serving = float(response.rate[row])
    if what == "Latency":
        return mean if serving else 0.0
    return in_flight(serving, mean if serving else math.nan, float(model.backlog[row]))


def in_flight(serving: float, mean: float, backlog: float) -> float:
    """Requests under way (Little): those that are served and those that wait."""
    return serving * mean if serving and not math.isnan(mean) else backlog
