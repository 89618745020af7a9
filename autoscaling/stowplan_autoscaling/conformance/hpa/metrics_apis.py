"""The three metrics APIs of a scenario, and what the controller's client makes of their answers.

Follows the scrapes of internal/hpasim/world.go and the APIs of internal/hpasim/apis.go of the oracle; the sums over
containers are those of pkg/controller/podautoscaler/metrics/client.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stowplan_autoscaling.cluster.pods import RUNNING
from stowplan_autoscaling.demand.points import Points, Usage
from stowplan_autoscaling.hpa.fixed_width import wrap64
from stowplan_autoscaling.hpa.metrics import DEFAULT_WINDOW, MetricsError, PodMetric
from stowplan_autoscaling.hpa.objects import CrossVersionObjectReference
from stowplan_autoscaling.kernel import SECOND, nanoseconds
from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import LabelQuery

from .agenda import PUBLICATIONS, SCRAPES, Agenda, seconds, stamp
from .scenario import Fault, PodsAPI, ResourceAPI, Sampled, ValueAPI, active
from .world import World

_SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True)
class Samples:
    """One scrape: pod name -> resource ("" for a custom metric) -> amount."""

    at: float = 0.0
    pods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class _Scraper:
    """Measures pods; `latest` is what was published last."""

    def __init__(self, world: World, agenda: Agenda, api: Sampled, usage: Mapping[str, Usage]) -> None:
        self._world = world
        self._agenda = agenda
        self._api = api
        self._usage = usage
        self._latest = Samples()
        if api.interval:
            agenda.at(0.0, SCRAPES, self._tick)

    def samples(self, t: float) -> Samples:
        """What a query at t finds."""
        return self._latest if self._api.interval else self._measure(t)

    def _measure(self, t: float) -> Samples:
        count = self._world.ready_count()
        found: dict[str, dict[str, int]] = {}
        for pod in self._world.pods.values():
            if pod.phase != RUNNING or pod.running + self._api.warmup > t:
                continue
            ready = pod.ready and not pod.deleting
            found[pod.name] = {
                name: usage.of(pod.name, pod.number, ready, count, t) for name, usage in self._usage.items()
            }
        return Samples(t, found)

    def _tick(self, t: float) -> None:
        samples = self._measure(t)
        self._agenda.at(t + self._api.delay, PUBLICATIONS, lambda _: self._publish(samples))
        self._agenda.at(t + self._api.interval, SCRAPES, self._tick)

    def _publish(self, samples: Samples) -> None:
        self._latest = samples


class _Value:
    """An object or external metric."""

    def __init__(self, world: World, agenda: Agenda, api: ValueAPI) -> None:
        self._world = world
        self._agenda = agenda
        self._api = api
        self._series = Points(api.series, linear=api.linear)
        self._length = 0
        if api.queue is not None:
            self._length = api.queue.initial
            self._arrival = Points(api.queue.arrival, linear=api.queue.linear)
            agenda.at(1.0, SCRAPES, self._tick)

    def _tick(self, t: float) -> None:
        service = self._api.queue.service if self._api.queue is not None else 0
        self._length = max(self._length + self._arrival.first_at(t) - service * self._world.ready_count(), 0)
        self._agenda.at(t + 1, SCRAPES, self._tick)

    def values(self, t: float) -> Sequence[int]:
        """The series at t; none if the API answers with nothing."""
        if active(self._api.faults, "empty", t):
            return ()
        return (self._length,) if self._api.queue is not None else self._series.at(t)

    def fails(self, t: float) -> bool:
        """Whether the API answers with an error."""
        return active(self._api.faults, "error", t) is not None


class ScenarioMetrics:
    """Implements stowplan_autoscaling.hpa.MetricsClient."""

    def __init__(self, world: World, agenda: Agenda) -> None:
        """Starts the scrapers."""
        self._world = world
        metrics = world.scenario.metrics
        self._resource_api = metrics.resource
        if metrics.resource is not None:
            usage = {name: Usage(spec) for name, spec in metrics.resource.usage.items()}
            self._resource = _Scraper(world, agenda, metrics.resource, usage)
        self._pods = {
            name: (
                metrics.pods[name],
                _Scraper(world, agenda, metrics.pods[name], {"": Usage(metrics.pods[name].usage)}),
            )
            for name in sorted(metrics.pods)
        }
        self._object = {name: _Value(world, agenda, metrics.object[name]) for name in sorted(metrics.object)}
        self._external = {name: _Value(world, agenda, metrics.external[name]) for name in sorted(metrics.external)}

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient."""
        t, api = seconds(now), self._resource_api
        if api is None or active(api.faults, "error", t):
            raise MetricsError.unavailable("resource", _SCRIPTED)
        if active(api.faults, "empty", t) or not selector.matches(self._world.scenario.target.labels):
            raise MetricsError.nothing("resource")
        samples = self._resource.samples(t)
        answers = [(name, samples.at, usage) for name, usage in self._answered(samples, api, t)]
        for name, value in _ghosts(api.faults, t):
            answers.append((name, t, dict.fromkeys(api.usage, value)))
        if not answers:
            raise MetricsError.nothing("resource")
        found: dict[str, PodMetric] = {}
        window = nanoseconds(api.window)
        for name, at, usage in answers:
            amount = _amount(_split(api, usage, t), resource, container)
            if amount is not None:
                found[name] = PodMetric(stamp(at), window, amount)
        return found, stamp(answers[0][1])

    def _answered(self, samples: Samples, api: Sampled, t: float) -> list[tuple[str, Mapping[str, int]]]:
        """The samples of pods that exist, in the order of names, without those that a fault hides."""
        hidden = {
            pod for fault in api.faults if fault.kind == "pods" and fault.from_ <= t < fault.to for pod in fault.pods
        }
        pods = self._world.pods
        return [(name, samples.pods[name]) for name in sorted(samples.pods) if name in pods and name not in hidden]

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient."""
        t = seconds(now)
        api, scraper = self._pods.get(metric, (PodsAPI(), None))
        if scraper is None or active(api.faults, "error", t):
            raise MetricsError.unavailable("custom", _SCRIPTED)
        if active(api.faults, "empty", t):
            raise MetricsError.nothing("custom")
        samples = scraper.samples(t)
        window = DEFAULT_WINDOW if api.window is None else api.window * SECOND
        answers = [(name, samples.at, usage[""]) for name, usage in self._answered(samples, api, t)]
        answers += [(name, t, value) for name, value in _ghosts(api.faults, t)]
        if not answers:
            raise MetricsError.nothing("custom")
        found = {name: PodMetric(stamp(at), window, value) for name, at, value in answers}
        return found, stamp(answers[0][1])

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """See MetricsClient."""
        t, api = seconds(now), self._object.get(metric)
        if api is None or api.fails(t):
            raise MetricsError.unavailable("custom", _SCRIPTED)
        values = api.values(t)
        if not values:
            raise MetricsError.unavailable("custom", f'metrics.custom.metrics.k8s.io "{metric}" not found')
        return values[0], stamp(t)

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient."""
        t, api = seconds(now), self._external.get(metric)
        if api is None or api.fails(t):
            raise MetricsError.unavailable("external", _SCRIPTED)
        values = api.values(t)
        if not values:
            raise MetricsError.nothing("external")
        return values, stamp(t)


def _ghosts(faults: Sequence[Fault], t: float) -> list[tuple[str, int]]:
    """Samples of pods that do not exist."""
    fault = active(faults, "ghost", t)
    return [] if fault is None else [(pod, fault.value) for pod in fault.pods]


_Containers = list[tuple[str, dict[str, int]]]


def _split(api: ResourceAPI, usage: Mapping[str, int], t: float) -> _Containers:
    """A pod's usage by containers; the last gets the rest."""
    total = sum(share.weight for share in api.split)
    lacking = active(api.faults, "resource", t)
    absent = active(api.faults, "container", t)
    rest = dict(usage)
    found: _Containers = []
    for index, share in enumerate(api.split):
        amounts: dict[str, int] = {}
        for name, amount in usage.items():
            part = rest[name] if index == len(api.split) - 1 else wrap64(amount * share.weight) // total
            rest[name] -= part
            if lacking is None or lacking.container != share.container or lacking.resource != name:
                amounts[name] = part
        if absent is None or absent.container != share.container:
            found.append((share.container, amounts))
    return found


def _amount(containers: _Containers, resource: str, container: str | None) -> int | None:
    """The usage of a container, or of all; None where a sample is missing."""
    if container is not None:
        return next((amounts.get(resource) for name, amounts in containers if name == container), None)
    total = 0
    for _, amounts in containers:
        amount = amounts.get(resource)
        if amount is None:
            return None
        total = wrap64(total + amount)
    return total if containers else None
