"""HPAs and KEDA in a run: their rows in the results, and why they added replicas.

The controllers themselves are `cluster.controllers.horizontal` and `keda`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.controllers.horizontal import SCALABLE
from stowplan_autoscaling.cluster.errors import ApiError
from stowplan_autoscaling.cluster.objects.autoscaling import HorizontalPodAutoscaler
from stowplan_autoscaling.hpa.batch import asks_only
from stowplan_autoscaling.hpa.defaults import default_hpa
from stowplan_autoscaling.hpa.metrics import MetricsClient, MetricsError, PodMetric
from stowplan_autoscaling.hpa.objects import (
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    CrossVersionObjectReference,
    HorizontalPodAutoscalerCondition,
    MetricSpec,
    MetricStatus,
    MetricValueStatus,
    Scale,
    ScaleError,
)
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler as ControllerHPA
from stowplan_autoscaling.hpa.selector_text import parse_selector
from stowplan_autoscaling.keda import ExternalTrigger, Keda, ScaledObject, TriggerReading, check_scaled_object
from stowplan_autoscaling.keda.objects import NAME_LABEL
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.metrics.usage import CPU
from stowplan_autoscaling.results import AutoscalerSample
from stowplan_scheduler.objects import key_of
from stowplan_scheduler.quantity import parse_quantity

from .pressure import CpuPressures, Pressure, pressure_of
from .waiting import Change

if TYPE_CHECKING:
    from stowplan_autoscaling.hpa.controller import Outcome
    from stowplan_autoscaling.keda.objects import Event
    from stowplan_autoscaling.resources.metrics import MetricSource
    from stowplan_scheduler.objects import LabelSelector
    from stowplan_scheduler.selectors import LabelQuery

    from .groups import Group
    from .load_engine import LoadEngine
    from .metrics_engine import MetricsEngine
    from .pods import PodBook, Workload
    from .world import World

_Conditions = tuple[HorizontalPodAutoscalerCondition, ...]

KIND: Final = "HorizontalPodAutoscaler"
_STABILIZED: Final = "ScaleDownStabilized"


def stored_hpa(hpa: ControllerHPA) -> HorizontalPodAutoscaler:
    """An HPA as the API server stores it, defaults included."""
    made = default_hpa(hpa)
    return HorizontalPodAutoscaler(metadata=made.metadata, spec=made.spec, status=made.status)


class Asked:
    """The metrics APIs, with a note of the oldest sample of each answer, and KEDA's answers for its own HPAs."""

    def __init__(self, apis: MetricsClient, keda: Keda | None) -> None:
        self._apis = apis
        self._keda = keda
        self.oldest: dict[tuple[str, object], int] = {}
        """By namespace and selector: end of the oldest measurement in the newest answer about pods."""

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.resource."""
        answer = self._apis.resource(resource, namespace, selector, container, now)
        self._note(namespace, selector, answer[0], now)
        return answer

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.pods."""
        answer = self._apis.pods(metric, namespace, selector, metric_selector, now)
        self._note(namespace, selector, answer[0], now)
        return answer

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """See MetricsClient.object."""
        return self._apis.object(metric, namespace, object_ref, metric_selector, now)

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """See MetricsClient.external; KEDA's HPAs ask with a label of its own."""
        if self._keda is not None and selector is not None and NAME_LABEL in selector.match_labels:
            return self._keda.external(metric, namespace, selector, now)
        return self._apis.external(metric, namespace, selector, now)

    def _note(self, namespace: str, selector: LabelQuery, found: Mapping[str, PodMetric], now: int) -> None:
        self.oldest[namespace, selector] = min((each.timestamp for each in found.values()), default=now)


class _Scaler:
    """What is remembered of one HPA between its syncs."""

    __slots__ = (
        "asks_since",
        "conditions",
        "is_common",
        "key",
        "namespace",
        "pressure",
        "query",
        "reason",
        "selector",
        "utilization",
    )

    def __init__(self, hpa: ControllerHPA, key: str, pressure: Pressure) -> None:
        self.key = key
        self.namespace = key.partition("/")[0]
        self.pressure = pressure
        self.is_common = asks_only(hpa, CPU)
        """Whether its only metric is the cpu of whole pods."""
        self.utilization = _utilization_of(hpa)
        """Its name and target, if its only metric is the utilisation of a resource of whole pods."""
        self.asks_since: int | None = None
        """The sample of the first of the syncs in a row that want more."""
        self.selector = ""
        self.query: LabelQuery | None = None
        self.conditions: _Conditions | None = None
        """Those that the last sync without a rescale left; most leave the very same again."""
        self.reason = ""
        """What these say."""

    def reason_of(self, outcome: Outcome) -> str:
        """Why it scaled, or what kept it from that."""
        if outcome.scale_to is not None:
            return outcome.reason
        conditions = outcome.status.conditions
        if conditions is not self.conditions:
            self.conditions, self.reason = conditions, _reason(conditions)
        return self.reason


class Autoscalers:
    """All of a run. `asked` is the client of the HPA controller."""

    def __init__(self, world: World, book: PodBook, loads: LoadEngine, metrics: MetricsEngine) -> None:
        self._world = world
        self._book = book
        self._loads = loads
        self._metrics = metrics
        self._scalers: dict[str, _Scaler] = {}
        self._by_target: dict[str, str] = {}
        self._cpu: CpuPressures | None = None
        self._others: dict[str, Pressure] = {}
        self._trigger_metrics: dict[str, dict[str, str]] = {}
        """By key of an HPA that KEDA made: the names of its metrics by the names of their triggers."""
        self.keda = Keda(self, self._source, record=self._keda_event)
        self.asked = Asked(metrics.apis, self.keda)
        book.cause = self._cause
        world.server.observe(self._observe, KIND)
        loads.after_look.append(self._look)

    # ---- objects -----------------------------------------------------------------------------

    def _observe(self, kind: str, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        if new is None or old is None or old.spec is not new.spec:
            self._cpu = None
        if new is None and old is not None:
            self._scalers.pop(key_of(old.metadata), None)
            self._by_target.pop(_target(old), None)
        elif new is not None and (old is None or old.spec is not new.spec):
            target = _target(new)
            group = self._loads.groups.get(target)
            pressure = pressure_of(
                new,
                group,
                self._sources_of(key_of(new.metadata)),
                self._request_of(new),
                self._world.spec.controllers.hpa.tolerance,
            )
            key = key_of(new.metadata)
            self._scalers[key] = _Scaler(new, key, pressure)
            self._by_target[target] = key

    def _sources_of(self, key: str) -> tuple[MetricSource, ...]:
        """spec.metrics.sources, those that a trigger asks for by its name under the name of its metric, too."""
        sources = self._world.spec.metrics.sources
        metrics = self._trigger_metrics.get(key, {})
        return (
            *sources,
            *(each.model_copy(update={"name": metrics[each.name]}) for each in sources if each.name in metrics),
        )

    def _request_of(self, hpa: HorizontalPodAutoscaler) -> float:
        reference = hpa.spec.scale_target_ref
        target = self._world.server.find(reference.kind, f"{hpa.metadata.namespace}/{reference.name}")
        template = None if target is None else target.spec.template
        if template is None:
            return 0.0
        return (
            sum(
                parse_quantity((container.resources.requests or {}).get("cpu", 0))
                for container in template.spec.containers
            )
            / 1e9
        )

    def add_scaled_object(self, scaled_object: ScaledObject) -> None:
        """KEDA sees a ScaledObject, and makes its HPA."""
        hpa = self.keda.add(scaled_object, self._world.kernel.now)
        if hpa is None:
            return
        self._trigger_metrics[key_of(hpa.metadata)] = {
            trigger.name: trigger.metric
            for trigger in check_scaled_object(scaled_object)
            if isinstance(trigger, ExternalTrigger) and trigger.name
        }
        try:
            self._world.server.create(KIND, stored_hpa(hpa))
        except ApiError as failure:
            self._world.event(
                "FailedCreate",
                f"ScaledObject {scaled_object.key}",
                str(failure),
                source="keda-operator",
                kind="Warning",
            )

    def start(self) -> None:
        """Plan KEDA's first poll."""
        following = self.keda.next_event()
        if following is not None:
            self._world.kernel.later(following, self._poll)

    def _poll(self) -> None:
        self.keda.advance(self._world.kernel.now)
        self.start()

    # ---- KEDA --------------------------------------------------------------------------------

    def _source(self, scaled_object: ScaledObject, trigger: ExternalTrigger, now: int) -> TriggerReading:
        """Triggers of type prometheus see Prometheus' samples; others read their source itself."""
        through = trigger.type == "prometheus"
        error = ""
        for name in (trigger.name, trigger.metric):
            try:
                return TriggerReading(self._metrics.reading(name, through_prometheus=through, now=now))
            except MetricsError as failure:
                error = error or str(failure)
        return TriggerReading(error=error)

    def _keda_event(self, scaled_object: ScaledObject, event: Event, now: int) -> None:
        self._world.event(
            event.reason,
            f"ScaledObject {scaled_object.key}",
            event.message,
            source="keda-operator",
            kind="Warning" if event.type == "Warning" else "Normal",
        )

    def _found(self, scaled_object: ScaledObject) -> tuple[str, str]:
        reference = scaled_object.spec.scale_target_ref
        key = f"{scaled_object.metadata.namespace}/{reference.name}"
        if reference.kind not in SCALABLE or self._world.server.find(reference.kind, key) is None:
            raise ScaleError(f'{reference.kind} "{reference.name}" not found')
        return reference.kind, key

    def replicas(self, scaled_object: ScaledObject) -> int:
        """See keda.Scales."""
        kind, key = self._found(scaled_object)
        return int(self._world.server.get(kind, key).spec.replicas)

    def ready_replicas(self, scaled_object: ScaledObject) -> int:
        """See keda.Scales."""
        kind, key = self._found(scaled_object)
        return self._book.workload(f"{kind} {key}").states["ready"]

    def scale(self, scaled_object: ScaledObject, replicas: int, now: int) -> None:
        """See keda.Scales."""
        kind, key = self._found(scaled_object)
        try:
            self._world.server.scale(kind, key, replicas)
        except ApiError as failure:
            raise ScaleError(str(failure)) from None

    # ---- why there are more replicas ---------------------------------------------------------

    def _look(self, groups: list[Group]) -> None:
        now = self._world.kernel.now
        if self._cpu is None:
            self._sort()
        if self._cpu is not None:
            self._cpu.look(self._loads.looked_at, now)
        if not self._others:
            return
        for group in groups:
            pressure = self._others.get(group.name)
            if pressure is not None:
                pressure.look(self._book.workload(group.name).replicas or 0, now)

    def _sort(self) -> None:
        """Those of which only cores count are looked at together, the others one by one."""
        members: list[tuple[int, Workload, Pressure]] = []
        self._others = {}
        for target, key in self._by_target.items():
            pressure, group = self._scalers[key].pressure, self._loads.groups.get(target)
            if group is not None and group.service is not None and pressure.cores is not None:
                members.append((group.service.number, self._book.workload(target), pressure))
            elif group is not None:
                self._others[target] = pressure
        self._cpu = CpuPressures(self._loads.fleet, members)

    def _cause(self, name: str) -> Change | None:
        key = self._by_target.get(name)
        scaler = None if key is None else self._scalers.get(key)
        if key is None or scaler is None:
            return None
        now = self._world.kernel.now
        since = scaler.pressure.since
        shown = scaler.asks_since
        if shown is None:
            shown = self._sample_of(scaler) or now
        if since is None:
            since = shown
        return Change(min(since, now), min(max(shown, since), now), now)

    def _sample_of(self, scaler: _Scaler) -> int | None:
        if scaler.query is None:
            return None
        scaled = self._metrics.scaled
        if scaled is not None and scaler.is_common:
            return scaled.oldest(scaled.number(scaler.namespace, scaler.query))
        return self.asked.oldest.get((scaler.namespace, scaler.query))

    # ---- syncs -------------------------------------------------------------------------------

    def synced(self, hpa: HorizontalPodAutoscaler, scale: Scale | None, outcome: Outcome) -> None:
        """A sync of the HPA controller: its row."""
        key = key_of(hpa.metadata)
        scaler = self._scalers.get(key)
        if scaler is None:
            return
        now = self._world.kernel.now
        if scale is not None and scale.selector is not scaler.selector:
            scaler.selector = scale.selector
            scaler.query = parse_selector(scale.selector)
        current = 0 if scale is None else scale.spec_replicas
        sample = self._sample_of(scaler)
        wants_more = outcome.proposal is not None and outcome.proposal > current
        if not wants_more:
            scaler.asks_since = None
        elif scaler.asks_since is None:
            scaler.asks_since = now if sample is None else sample
        if outcome.scale_to is not None and outcome.proposal is not None and outcome.scale_to >= outcome.proposal:
            scaler.asks_since = None
        utilization, statuses = scaler.utilization, outcome.status.current_metrics
        if utilization is not None and len(statuses) == 1 and statuses[0].resource is not None:
            name, target = utilization
            value = _or_none(statuses[0].resource.current.average_utilization, 1)
            age = None if sample is None else (now - sample) / SECOND
        else:
            name, value, target = _deciding(hpa, outcome)
            age = self._age(hpa, name, sample, now)
        self._world.recorder.row(
            AutoscalerSample(
                self._world.since_start(now),
                key,
                current,
                outcome.proposal,
                current if outcome.scale_to is None else outcome.scale_to,
                name,
                value,
                target,
                age,
                scaler.reason_of(outcome),
            )
        )

    def _age(self, hpa: HorizontalPodAutoscaler, name: str, sample: int | None, now: int) -> float | None:
        """Seconds since the samples behind the deciding metric were taken."""
        for metric in hpa.spec.metrics:
            if metric.external is not None and metric.external.metric.name == name:
                selector = metric.external.metric.selector
                if selector is not None and NAME_LABEL in selector.match_labels:
                    # KEDA reads the source at the moment of the question.
                    return 0.0
                fresh = self._metrics.adapter.freshness(name, hpa.metadata.namespace, selector, now)
                return None if fresh is None else fresh.age / SECOND
        return None if sample is None else (now - sample) / SECOND


def _target(hpa: ControllerHPA) -> str:
    reference = hpa.spec.scale_target_ref
    return f"{reference.kind} {hpa.metadata.namespace}/{reference.name}"


def _reason(conditions: _Conditions) -> str:
    """What keeps an autoscaler from scaling."""
    active = able = limited = None
    for condition in conditions:
        if condition.type == SCALING_ACTIVE:
            active = condition
        elif condition.type == ABLE_TO_SCALE:
            able = condition
        elif condition.type == SCALING_LIMITED:
            limited = condition
    if active is not None and active.status == "False":
        return active.reason
    if able is not None and (able.status == "False" or able.reason == _STABILIZED):
        return able.reason
    if limited is not None and limited.status == "True":
        return limited.reason
    return ""


def _deciding(hpa: HorizontalPodAutoscaler, outcome: Outcome) -> tuple[str, float | None, float | None]:
    """Name, value and target of the metric that decided; of the first one if none did."""
    metrics, statuses = hpa.spec.metrics, outcome.status.current_metrics
    if len(metrics) == 1 == len(statuses):
        return _name(metrics[0]), *_amounts(metrics[0], statuses[0])
    pairs = list(zip(hpa.spec.metrics, outcome.status.current_metrics, strict=False))
    named = [pair for pair in pairs if _name(pair[0]) in outcome.metric] if outcome.metric else []
    for metric, status in named or pairs[:1]:
        value, target = _amounts(metric, status)
        return _name(metric), value, target
    return ("", None, None) if not hpa.spec.metrics else (_name(hpa.spec.metrics[0]), None, None)


def _utilization_of(hpa: ControllerHPA) -> tuple[str, float | None] | None:
    metrics = hpa.spec.metrics
    resource = metrics[0].resource if len(metrics) == 1 else None
    if resource is None or resource.target.average_utilization is None:
        return None
    return resource.name, float(resource.target.average_utilization)


def _name(metric: MetricSpec) -> str:
    resource = metric.resource or metric.container_resource
    if resource is not None:
        return resource.name
    source = metric.pods or metric.object or metric.external
    return "" if source is None else source.metric.name


def _amounts(metric: MetricSpec, status: MetricStatus) -> tuple[float | None, float | None]:
    spec = metric.resource or metric.container_resource or metric.pods or metric.object or metric.external
    found = status.resource or status.container_resource or status.pods or status.object or status.external
    if spec is None:
        return None, None
    target = spec.target
    current = MetricValueStatus() if found is None else found.current
    if target.average_utilization is not None:
        return _or_none(current.average_utilization, 1), float(target.average_utilization)
    if target.average_value is not None:
        return _or_none(current.average_value, 1000), parse_quantity(target.average_value) / 1e9
    wanted = None if target.value is None else parse_quantity(target.value) / 1e9
    return _or_none(current.value, 1000), wanted


def _or_none(amount: int | None, unit: int) -> float | None:
    return None if amount is None else amount / unit
