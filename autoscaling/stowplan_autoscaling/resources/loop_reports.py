"""What results say about the control loops of a run before it begins: what each looks at, how often, in what bounds.

All texts, with units, for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan_autoscaling.hpa.defaults import default_hpa
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, MetricSpec, MetricTarget
from stowplan_autoscaling.keda import ScaledObject
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.results import LoopReport
from stowplan_autoscaling.supply.loops.base import INTERRUPTION
from stowplan_autoscaling.supply.pools import SPOT

from .autoscaler_checks import autoscaler_of, scaled_object_of
from .simulation import SimulationSpec
from .supply import ClusterAutoscalerSpec, KarpenterSpec
from .values import format_duration

if TYPE_CHECKING:
    from stowplan_autoscaling.supply.pools import Pool

    from .load import LoadedSimulation


def loop_reports(loaded: LoadedSimulation) -> tuple[LoopReport, ...]:
    """Those of the autoscalers first, then those of the supply."""
    spec = loaded.spec
    hpas = [_hpa_loop(autoscaler_of(each), spec) for each in loaded.of("HorizontalPodAutoscaler")]
    scaled = [_keda_loop(scaled_object_of(each)) for each in loaded.of("ScaledObject")]
    return (*hpas, *scaled, *_supply_loops(spec, loaded.pools), *_interruption_loops(spec, loaded.pools))


# ---- demand --------------------------------------------------------------------------------------------------------


def _hpa_loop(hpa: HorizontalPodAutoscaler, spec: SimulationSpec) -> LoopReport:
    hpa = default_hpa(hpa)
    metrics = [_metric(each) for each in hpa.spec.metrics]
    window = format_duration(spec.controllers.hpa.downscale_stabilization)
    return LoopReport(
        loop=hpa.key,
        metric=", ".join(name for name, _ in metrics),
        target=", ".join(target for _, target in metrics),
        interval=format_duration(spec.controllers.hpa.sync_period),
        delay=f"samples every {format_duration(spec.metrics.server.resolution)}; down after {window} "
        "unless its behavior says otherwise",
        minimum=f"{1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas} pods",
        maximum=f"{hpa.spec.max_replicas} pods",
    )


def _metric(spec: MetricSpec) -> tuple[str, str]:
    """What a metric is about, and its target."""
    if spec.resource is not None:
        return f"{spec.resource.name} of the pods", _target(spec.resource.target)
    if spec.container_resource is not None:
        about = spec.container_resource
        return f"{about.name} of container {about.container}", _target(about.target)
    for name in ("pods", "object", "external"):
        part = getattr(spec, name)
        if part is not None:
            return f"{name} metric {part.metric.name}", _target(part.target)
    return spec.type, ""


def _target(target: MetricTarget) -> str:
    if target.average_utilization is not None:
        return f"{target.average_utilization} % of requests"
    if target.average_value is not None:
        return f"{target.average_value} per pod"
    return str(target.value)


def _keda_loop(scaled: ScaledObject) -> LoopReport:
    return LoopReport(
        loop=scaled.key,
        metric=", ".join(trigger.type for trigger in scaled.spec.triggers),
        target="as the triggers say",
        interval=f"{scaled.polling_interval}s between zero and one, else that of its HPA",
        delay=f"down to zero after {scaled.cooldown_period}s without activity",
        minimum=f"{scaled.min_replicas} pods",
        maximum=f"{scaled.max_replicas} pods",
    )


# ---- supply --------------------------------------------------------------------------------------------------------


def _supply_loops(spec: SimulationSpec, pools: Sequence[Pool]) -> tuple[LoopReport, ...]:
    minimum = sum(pool.spec.min for pool in pools)
    maxima = [pool.spec.max for pool in pools]
    maximum = "as many as the limits allow" if None in maxima else f"{sum(each or 0 for each in maxima)} nodes"
    bounds = (f"{minimum} nodes", maximum)
    if spec.supply.cluster_autoscaler is not None:
        return _autoscaler_loops(spec.supply.cluster_autoscaler, spec, bounds)
    if spec.supply.karpenter is not None:
        return _karpenter_loops(spec.supply.karpenter, spec, pools, bounds)
    return ()


def _budgets(pools: Sequence[Pool], *reasons: str) -> str:
    """What the budgets that are about one of some reasons say."""
    found = {
        budget.nodes
        for pool in pools
        for budget in pool.spec.disruption.budgets
        if not budget.reasons or not set(reasons).isdisjoint(budget.reasons)
    }
    return ", ".join(sorted(found)) or "none"


def _interruption_loops(spec: SimulationSpec, pools: Sequence[Pool]) -> tuple[LoopReport, ...]:
    """That of whoever answers notices, where machines can be taken back."""
    spot = spec.provider.spot
    has_spot = any(offer.capacity_type == SPOT for pool in pools for type in pool.all_types for offer in type.offers)
    if spec.supply.none is not None or not has_spot or not spot.interruptions_per_hour:
        return ()
    return (
        LoopReport(
            loop=INTERRUPTION,
            metric="spot machines that the provider takes back",
            target="no pod on a machine when it goes",
            interval="at each notice",
            delay=f"the machine goes {format_duration(spot.notice)} after the notice",
            minimum=f"{sum(pool.spec.min for pool in pools)} nodes",
            maximum="all at once",
        ),
    )


def _machine_delay(spec: SimulationSpec) -> str:
    provider = spec.provider
    whole = provider.request + provider.boot.median + provider.initialization
    return f"a machine takes {format_duration(whole)} (median)"


def _autoscaler_loops(
    spec: ClusterAutoscalerSpec, simulation: SimulationSpec, bounds: tuple[str, str]
) -> tuple[LoopReport, ...]:
    up = LoopReport(
        loop="ScaleUp",
        metric="pods that are unschedulable and fit no node, upcoming ones included",
        target="0",
        interval=f"{format_duration(spec.scan_interval)}, at once for a new unschedulable pod",
        delay=f"pods must be {format_duration(max(spec.new_pod_scale_up_delay, 2 * SECOND))} old; "
        f"{_machine_delay(simulation)}",
        minimum=bounds[0],
        maximum=bounds[1],
    )
    if not spec.scale_down_enabled:
        return (up,)
    down = LoopReport(
        loop="ScaleDown",
        metric="requests of a node's pods, of what is allocatable; whether its pods fit elsewhere",
        target=f"at most {spec.scale_down_utilization_threshold:.0%}",
        interval=format_duration(spec.scan_interval),
        delay=f"unneeded for {format_duration(spec.scale_down_unneeded_time)}, "
        f"{format_duration(spec.scale_down_delay_after_add)} after the last new node",
        minimum=bounds[0],
        maximum=f"{spec.max_scale_down_parallelism} nodes at once, {spec.max_drain_parallelism} with pods",
    )
    return up, down


def _karpenter_loops(
    spec: KarpenterSpec, simulation: SimulationSpec, pools: Sequence[Pool], bounds: tuple[str, str]
) -> tuple[LoopReport, ...]:
    after = sorted({pool.spec.disruption.consolidate_after for pool in pools})
    budgets = _budgets(pools, "Empty", "Underutilized")
    expiry = sorted({pool.spec.disruption.expire_after for pool in pools})
    provisioning = LoopReport(
        loop="Provisioning",
        metric="pods that are unschedulable",
        target="0",
        interval=f"a batch closes {format_duration(spec.batch_idle_duration)} after its last pod, at most "
        f"{format_duration(spec.batch_max_duration)} after its first",
        delay=_machine_delay(simulation),
        minimum=bounds[0],
        maximum=bounds[1],
    )
    consolidation = LoopReport(
        loop="Consolidation",
        metric="price of nodes, and of what could replace them",
        target="lowest",
        interval="10s, at once after a decision",
        delay=f"consolidateAfter {', '.join(after)}; 15s until a decision is looked at again",
        minimum=bounds[0],
        maximum=f"budgets of {budgets}",
    )
    drift = LoopReport(
        loop="Drift",
        metric="nodes that are no longer what their pool asks for",
        target="0",
        interval="at a change of the pool; 10s for those that wait, at once after a decision",
        delay=f"none before a replacement is asked for; {_machine_delay(simulation)}",
        minimum=bounds[0],
        maximum=f"one node per decision, budgets of {_budgets(pools, 'Drifted')}",
    )
    expiration = LoopReport(
        loop="Expiration",
        metric="age of nodes",
        target=f"at most {', '.join(expiry)}",
        interval="at the moment itself",
        delay="none",
        minimum=bounds[0],
        maximum="all at once",
    )
    return provisioning, consolidation, drift, expiration
