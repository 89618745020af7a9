"""Rate of the horizontal pod autoscaler alone: reconciles per second on one core.

    python tests/benchmarks/hpa_rate.py [AUTOSCALERS] [PODS] [ROUNDS]

AUTOSCALERS (1,000) autoscalers with a cpu utilisation target, half of them with `behavior` (a window and two policies),
scale workloads of PODS (10) pods. Every round is a sync of all of them, 15 s of virtual time after the one before, with
new samples of all pods. Their load moves up and down, so that proposals, stabilisation, policies and conditions change.
A few pods are young, unready or lack a sample. Timed are the reconciles with their statuses, conditions and events, and
nothing of what moves the world: the numbers of replicas that are written are taken over, but pods stay as they are.
Seconds are those of the processor, so that other work on the machine counts as little as possible.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from stowplan_autoscaling.cluster.pods import FALSE, PENDING, RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.hpa import (
    HorizontalController,
    HorizontalPodAutoscaler,
    Outcome,
    Scale,
    admit,
    parse_selector,
)
from stowplan_autoscaling.hpa.batch import BatchReconciler, Due
from stowplan_autoscaling.hpa.objects import (
    CrossVersionObjectReference,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from stowplan_autoscaling.hpa.pod_columns import ColumnMetrics, PodColumns, SampleColumns
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import Container, ObjectMeta, PodSpec, PodStatus, ResourceRequirements
from stowplan_scheduler.selectors import LabelQuery

START = 946_684_800 * SECOND
PERIOD = 15 * SECOND
REQUEST = 1000
"""Milli cores of each pod."""

_TEMPLATE = PodSpec(containers=(Container(name="app", resources=ResourceRequirements(requests={"cpu": "1"})),))
_METRIC = MetricSpec(
    type="Resource",
    resource=ResourceMetricSource(name="cpu", target=MetricTarget(type="Utilization", average_utilization=60)),
)
_BEHAVIOR = HorizontalPodAutoscalerBehavior(
    scale_up=HPAScalingRules(
        stabilization_window_seconds=30,
        policies=(
            HPAScalingPolicy(type="Pods", value=3, period_seconds=60),
            HPAScalingPolicy(type="Percent", value=50, period_seconds=120),
        ),
    ),
    scale_down=HPAScalingRules(stabilization_window_seconds=120),
)


def autoscaler(number: int) -> HorizontalPodAutoscaler:
    """The autoscaler of one workload."""
    name = f"web-{number}"
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name=name),
        min_replicas=2,
        max_replicas=40,
        metrics=(_METRIC,),
        behavior=_BEHAVIOR if number % 2 else None,
    )
    return admit(HorizontalPodAutoscaler(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


def workload_pods(number: int, count: int) -> list[ClusterPod]:
    """The pods of one workload; of every fifth workload the last two are starting."""
    labels = {"app": f"web-{number}"}
    pods = []
    for index in range(count):
        starting = number % 5 == 0 and index >= count - 2
        waiting = starting and index == count - 1
        pods.append(
            ClusterPod(
                metadata=ObjectMeta(name=f"web-{number}-{index}", namespace="default", labels=labels),
                spec=_TEMPLATE,
                status=PodStatus(phase=PENDING if waiting else RUNNING),
                started=None if waiting else START - (10 if starting else 3600) * SECOND,
                ready="" if waiting else FALSE if starting else TRUE,
                ready_since=START - (10 if starting else 3590) * SECOND,
            )
        )
    return pods


class Fleet:
    """All autoscalers with their pods and samples."""

    def __init__(self, autoscalers: int, pods: int) -> None:
        """Nothing is synced yet."""
        self.hpas = [autoscaler(number) for number in range(autoscalers)]
        self.replicas = [pods] * autoscalers
        self.pods = [workload_pods(number, pods) for number in range(autoscalers)]
        self.columns = PodColumns("cpu")
        for number, of_workload in enumerate(self.pods):
            for pod in of_workload:
                self.columns.put(pod, number)
        self.by_selector = {parse_selector(f"app=web-{number}"): found for number, found in enumerate(self.pods)}
        self.samples = SampleColumns(len(self.columns))
        self.samples.window[:] = PERIOD
        self._numbers = np.arange(len(self.columns))

    def select(self, namespace: str, selector: LabelQuery) -> list[ClusterPod]:
        """The pods of a selector."""
        return self.by_selector[selector]

    def measure(self, step: int) -> None:
        """New samples of all pods, in 40 % to 100 % of the request; every 97th is missing."""
        wave = 400 + (step * 7 % 40) * 10
        self.samples.value[:] = wave + self._numbers * 37 % 200
        self.samples.timestamp[:] = START + step * PERIOD - 5 * SECOND
        self.samples.present[:] = (self._numbers + step) % 97 != 0

    def due(self) -> list[Due]:
        """All autoscalers as they are now."""
        scales = [
            Scale(spec_replicas=replicas, status_replicas=replicas, selector=f"app=web-{number}")
            for number, replicas in enumerate(self.replicas)
        ]
        return [Due(hpa, scale, number) for number, (hpa, scale) in enumerate(zip(self.hpas, scales, strict=True))]

    def take_over(self, outcomes: list[Outcome]) -> None:
        """Store statuses and scales."""
        for number, outcome in enumerate(outcomes):
            if outcome.changed:
                self.hpas[number] = replace(self.hpas[number], status=outcome.status)
            if outcome.scale_to is not None:
                self.replicas[number] = outcome.scale_to


@dataclass(frozen=True, slots=True)
class HPARate:
    """`from_columns`: share of the proposals that the pass over all pods computed. `rescales`: writes of scales."""

    reconciles: int
    seconds: float
    rescales: int
    from_columns: float

    @property
    def per_second(self) -> float:
        """Reconciles per second."""
        return self.reconciles / self.seconds


def measure_rate(autoscalers: int = 1000, pods: int = 10, rounds: int = 40) -> HPARate:
    """Sync all autoscalers `rounds` times, after two rounds that are not timed."""
    fleet = Fleet(autoscalers, pods)
    controller = HorizontalController()
    reconciler = BatchReconciler(controller, fleet.columns)
    for hpa in fleet.hpas:
        controller.added("default", hpa.metadata.name)
    metrics = ColumnMetrics(fleet.columns, fleet.samples)
    seconds, rescales = 0.0, 0
    for step in range(rounds + 2):
        fleet.measure(step)
        due = fleet.due()
        began = time.process_time()
        outcomes = reconciler.reconcile(due, fleet.samples, fleet.select, metrics, START + step * PERIOD)
        if step >= 2:
            seconds += time.process_time() - began
            rescales += sum(outcome.scale_to is not None for outcome in outcomes)
        fleet.take_over(outcomes)
    share = reconciler.from_columns / max(reconciler.from_columns + reconciler.one_by_one, 1)
    return HPARate(autoscalers * rounds, seconds, rescales, share)


def main(argv: list[str]) -> None:
    """Print one line."""
    rate = measure_rate(*map(int, argv))
    print(
        f"{rate.per_second:,.0f} reconciles/s ({rate.reconciles:,} in {rate.seconds:.2f} s, "
        f"{rate.rescales:,} rescales, "
        f"{rate.from_columns:.1%} of the proposals from columns)"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
