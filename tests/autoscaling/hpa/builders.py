"""Short ways to write autoscalers, pods and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.hpa import (
    HorizontalController,
    HorizontalPodAutoscaler,
    MetricsError,
    Outcome,
    PodMetric,
    Scale,
    ScaleError,
    admit,
)
from stowplan_autoscaling.hpa.objects import (
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)
from stowplan_autoscaling.hpa.pod_groups import ReadinessRules
from stowplan_scheduler.objects import Container, LabelSelector, ObjectMeta, PodSpec, PodStatus, ResourceRequirements
from stowplan_scheduler.quantity import parse_quantity, quantity_text
from stowplan_scheduler.selectors import LabelQuery

SECOND = 1_000_000_000
NOW = 946_684_800 * SECOND + 3600 * SECOND
LABELS = {"app": "web"}
RULES = ReadinessRules(cpu_initialization_period=300 * SECOND, initial_readiness_delay=30 * SECOND)


def template(**requests: str) -> PodSpec:
    """One container "app" with these requests."""
    amounts = dict(requests) or {"cpu": "1"}
    return PodSpec(containers=(Container(name="app", resources=ResourceRequirements(requests={**amounts})),))


def pods(states: str, *, requests: Sequence[str] = (), labels: dict[str, str] | None = None) -> list[ClusterPod]:
    """One pod per letter: R ready, X ready as well (but to be given no sample), U never ready, P Pending, F Failed.

    All of them started an hour ago, except for U: 10 s ago.
    """
    return [
        one_pod(f"p{index}", letter, cpu=requests[index] if requests else "1", labels=labels or LABELS)
        for index, letter in enumerate(states)
    ]


def one_pod(name: str, letter: str, *, cpu: str = "1", labels: dict[str, str] | None = None) -> ClusterPod:
    """A pod in the state of a letter, see `pods`."""
    phase = {"P": PENDING, "F": FAILED}.get(letter, RUNNING)
    started = NOW - (10 if letter == "U" else 3600) * SECOND
    return ClusterPod(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels or LABELS),
        spec=template(cpu=cpu),
        status=PodStatus(phase=phase),
        started=None if letter == "P" else started,
        ready="" if letter == "P" else FALSE if letter in "UF" else TRUE,
        ready_since=started,
    )


def samples(states: str, values: Sequence[int]) -> dict[str, PodMetric]:
    """Values in milli units for the pods of `pods` that are not X, in order; the others of `values` are foreign."""
    names = [f"p{index}" for index, letter in enumerate(states) if letter not in "XP"]
    names += [f"foreign{index}" for index in range(len(values) - len(names))]
    return {name: PodMetric(NOW, 15 * SECOND, value) for name, value in zip(names, values, strict=False)}


def cpu(utilization: int = 50) -> MetricSpec:
    """Cpu in percent of the request."""
    target = MetricTarget(type="Utilization", average_utilization=utilization)
    return MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))


def rps(average: str = "100") -> MetricSpec:
    """A custom metric of pods."""
    target = MetricTarget(type="AverageValue", average_value=average)
    return MetricSpec(type="Pods", pods=PodsMetricSource(metric=MetricIdentifier(name="rps"), target=target))


def ingress(value: str = "100") -> MetricSpec:
    """A metric of an Ingress, as a whole."""
    reference = CrossVersionObjectReference(api_version="networking.k8s.io/v1", kind="Ingress", name="front")
    target = MetricTarget(type="Value", value=value)
    source = ObjectMetricSource(described_object=reference, metric=MetricIdentifier(name="hits"), target=target)
    return MetricSpec(type="Object", object=source)


def queue(average: str = "1", *, name: str = "q", value: str | None = None) -> MetricSpec:
    """The length of a queue per pod or, with `value`, as a whole."""
    target = MetricTarget(type="AverageValue", average_value=average)
    if value is not None:
        target = MetricTarget(type="Value", value=value)
    return MetricSpec(type="External", external=ExternalMetricSource(metric=MetricIdentifier(name=name), target=target))


def policy(kind: str, value: int, period: int = 60) -> HPAScalingPolicy:
    """At most so many pods, or percent, in a period of seconds."""
    return HPAScalingPolicy(type=kind, value=value, period_seconds=period)


def rules(*policies: HPAScalingPolicy, window: int | None = None, select: str | None = None) -> HPAScalingRules:
    """Rules of one direction."""
    return HPAScalingRules(policies=policies or None, stabilization_window_seconds=window, select_policy=select)


def behavior(up: HPAScalingRules | None = None, down: HPAScalingRules | None = None) -> HorizontalPodAutoscalerBehavior:
    """Both directions."""
    return HorizontalPodAutoscalerBehavior(scale_up=up, scale_down=down)


def hpa(
    *metrics: MetricSpec,
    least: int | None = 1,
    most: int = 10,
    behavior: HorizontalPodAutoscalerBehavior | None = None,
    name: str = "web",
) -> HorizontalPodAutoscaler:
    """An autoscaler of the Deployment "web", as the API server stores it."""
    reference = CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name="web")
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=reference, min_replicas=least, max_replicas=most, metrics=metrics, behavior=behavior
    )
    return admit(HorizontalPodAutoscaler(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


class World:
    """A MetricsClient and a lister of pods whose answers are set by hand; amounts in whole units, "500m" for milli.

    An API without an answer fails with "no answer".
    """

    def __init__(self, states: str = "") -> None:
        """Pods in the states of `pods`."""
        self.states = states
        self.pods_of_all = pods(states)
        self.cpu: Mapping[str, PodMetric] | None = None
        self.rps: Mapping[str, PodMetric] | None = None
        self.hits: int | None = None
        self.queues: dict[str, Sequence[int]] = {}

    def use(self, *millicores: int) -> World:
        """Set the cpu samples."""
        self.cpu = samples(self.states, millicores)
        return self

    def wait(self, *lengths: str, name: str = "q") -> World:
        """Set the series of an external metric."""
        self.queues[name] = [parse_quantity(length) // 10**6 for length in lengths]
        return self

    def select(self, namespace: str, selector: LabelQuery) -> list[ClusterPod]:
        """The lister."""
        return [pod for pod in self.pods_of_all if selector.matches(pod.metadata.labels)]

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient."""
        if self.cpu is None:
            raise MetricsError.unavailable("resource", "no answer")
        return self.cpu, now

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient."""
        if self.rps is None:
            raise MetricsError.unavailable("custom", "no answer")
        return self.rps, now

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """See MetricsClient."""
        if self.hits is None:
            raise MetricsError.unavailable("custom", "no answer")
        return self.hits, now

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient."""
        if metric not in self.queues:
            raise MetricsError.unavailable("external", "no answer")
        return self.queues[metric], now


class Story:
    """One autoscaler over time: every sync sees the status of the one before and the replicas that it wrote."""

    def __init__(self, autoscaler: HorizontalPodAutoscaler, world: World, replicas: int) -> None:
        """Nothing is synced yet."""
        self.hpa = autoscaler
        self.world = world
        self.replicas = replicas
        self.controller = HorizontalController()

    def sync(self, seconds: float, *, scale: ScaleError | None = None, error: str = "") -> Outcome:
        """One sync at a time; `error`: the write of the scale fails."""
        now = NOW + round(seconds * SECOND)
        found = Scale(spec_replicas=self.replicas, status_replicas=self.replicas, selector="app=web")
        sync = self.controller.begin(self.hpa, scale or found, self.world.select, self.world, now)
        outcome = self.controller.finish(sync, now, error)
        self.hpa = replace(self.hpa, status=outcome.status)
        if outcome.scale_to is not None:
            self.replicas = outcome.scale_to
        return outcome

    def condition(self, type: str) -> tuple[str, str]:
        """Status and reason."""
        return next((one.status, one.reason) for one in self.hpa.status.conditions if one.type == type)


def milli(value: int) -> str:
    """An amount of milli units as a quantity."""
    return quantity_text(value * 10**6)
