"""The pass over columns gives what one sync after the other gives."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.hpa.builders import NOW, SECOND, behavior, policy, rules, template
from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, RUNNING, TRUE, UNKNOWN, ClusterPod
from stowplan_autoscaling.hpa import HorizontalController, HorizontalPodAutoscaler, PodMetric, Scale, admit
from stowplan_autoscaling.hpa.batch import BatchReconciler, Due
from stowplan_autoscaling.hpa.objects import (
    CrossVersionObjectReference,
    HorizontalPodAutoscalerSpec,
    HPAScalingRules,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from stowplan_autoscaling.hpa.pod_columns import ColumnMetrics, PodColumns, SampleColumns
from stowplan_scheduler.objects import ObjectMeta, PodStatus
from stowplan_scheduler.selectors import LabelQuery


def tolerant(given: HPAScalingRules) -> HPAScalingRules:
    """The rules with a tolerance of their own."""
    return replace(given, tolerance="0.25")


@dataclass(frozen=True)
class Workload:
    """Its autoscaler, its pods, and their values in each of four rounds (None: no sample)."""

    hpa: HorizontalPodAutoscaler
    pods: tuple[ClusterPod, ...]
    rounds: tuple[tuple[int | None, ...], ...]
    replicas: int
    selector: str


BEHAVIORS = (
    None,
    behavior(),
    behavior(rules(policy("Pods", 2, 30), window=30), rules(policy("Percent", 50, 15), window=0)),
    behavior(rules(policy("Percent", 10, 60), policy("Pods", 1, 15), select="Min"), tolerant(rules())),
)
AGES = (0, 5, 14, 15, 16, 29, 30, 31, 100, 270, 284, 285, 286, 299, 300, 301, 3600)


def autoscaler(random: Random, number: int, resource: str) -> HorizontalPodAutoscaler:
    """Mostly what the pass can do, sometimes two metrics."""
    target = MetricTarget(type="Utilization", average_utilization=random.choice([30, 50, 50, 90, 100, 150, 400]))
    if random.random() < 0.25:
        target = MetricTarget(type="AverageValue", average_value=random.choice(["1m", "300m", "500m", "1", "3"]))
    metric = MetricSpec(type="Resource", resource=ResourceMetricSource(name=resource, target=target))
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name=f"web-{number}"),
        min_replicas=random.randint(1, 3),
        max_replicas=random.randint(3, 30),
        metrics=(metric, metric) if random.random() < 0.1 else (metric,),
        behavior=random.choice(BEHAVIORS),
    )
    return admit(HorizontalPodAutoscaler(metadata=ObjectMeta(name=f"web-{number}", namespace="default"), spec=spec))


def any_pod(random: Random, number: int, index: int, resource: str) -> ClusterPod:
    """A pod in any state, mostly in a good one, at ages around the edges of the rules."""
    healthy = random.random() < 0.5
    amount = random.choice(["100m", "1", "1", "1", "2500m", "0"])
    old = NOW - 3600 * SECOND
    started = old if healthy else NOW - random.choice(AGES) * SECOND
    since = old if healthy else min(started + random.choice([0, 5, 29, 30, 31, 90]) * SECOND, NOW)
    return ClusterPod(
        metadata=ObjectMeta(name=f"web-{number}-{index}", namespace="default", labels={"app": f"web-{number}"}),
        spec=template(**({resource: amount} if random.random() < 0.98 else {"other": "1"})),
        status=PodStatus(phase=RUNNING if healthy else random.choice([RUNNING] * 6 + [PENDING, FAILED, "Succeeded"])),
        started=None if not healthy and random.random() < 0.1 else started,
        ready=TRUE if healthy else random.choice([TRUE, TRUE, TRUE, FALSE, FALSE, UNKNOWN, ""]),
        ready_since=since,
        deleted=NOW if not healthy and random.random() < 0.1 else None,
    )


def workload(random: Random, number: int, resource: str) -> Workload:
    """One workload, rarely without pods, with a selector that is no use, or with absurd samples."""
    count = random.choice([0, 1, 2, 3, 4, 6, 9])
    level, spread = random.choice([200, 450, 500, 560, 900, 1500]), random.choice([0, 30, 300])
    absurd = random.random() < 0.03

    def value() -> int | None:
        if random.random() < 0.12:
            return None
        return random.choice([10**15, 2**55, 2**61, -5]) if absurd else max(level + random.randint(-spread, spread), 0)

    return Workload(
        autoscaler(random, number, resource),
        tuple(any_pod(random, number, index, resource) for index in range(count)),
        tuple(tuple(value() for _ in range(count)) for _ in range(4)),
        random.randint(0, 12),
        random.choice([f"app=web-{number}"] * 20 + ["", "app in (", "app=web-0"]),
    )


class Side:
    """One of the two ways, with its own controller, statuses and replicas."""

    def __init__(self, fleet: list[Workload]) -> None:
        self.controller = HorizontalController()
        self.hpas = [one.hpa for one in fleet]
        self.replicas = [one.replicas for one in fleet]
        for one in self.hpas:
            self.controller.added("default", one.metadata.name)

    def due(self, fleet: list[Workload]) -> list[Due]:
        """All of them."""
        return [
            Due(self.hpas[i], Scale(spec_replicas=n, status_replicas=n, selector=fleet[i].selector), i)
            for i, n in enumerate(self.replicas)
        ]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_a_batch_decides_like_single_syncs(seed: int) -> None:
    """Outcomes are equal in every field, round after round, with the history that builds up between them."""
    random = Random(seed)
    resource = random.choice(["cpu", "cpu", "memory"])
    all_workloads = [workload(random, number, resource) for number in range(random.randint(1, 8))]
    all_pods = [pod for one in all_workloads for pod in one.pods]
    columns = PodColumns(resource)
    for number, one in enumerate(all_workloads):
        for pod in reversed(one.pods):
            columns.put(pod, number)

    def select(namespace: str, selector: LabelQuery) -> list[ClusterPod]:
        return [pod for pod in all_pods if selector.matches(pod.metadata.labels)]

    single, batch = Side(all_workloads), Side(all_workloads)
    reconciler = BatchReconciler(batch.controller, columns)
    for step in range(4):
        now = NOW + step * 15 * SECOND
        samples = SampleColumns(len(columns))
        for one in all_workloads:
            for pod, value in zip(one.pods, one.rounds[step], strict=True):
                if value is not None:
                    sample = PodMetric(now - random.choice([0, 0, 15]) * SECOND, 15 * SECOND, value)
                    samples.put(columns.rows[pod.key], sample)
        metrics = ColumnMetrics(columns, samples, all_pods)
        wanted = [
            single.controller.reconcile(hpa, scale, select, metrics, now) for hpa, scale, _ in single.due(all_workloads)
        ]
        # A selector of another workload's pods is beyond what the numbers of workloads say.
        due = [
            one if all_workloads[one.workload].selector != "app=web-0" else one._replace(workload=0)
            for one in batch.due(all_workloads)
        ]
        found = reconciler.reconcile(due, samples, select, metrics, now)
        assert found == wanted
        for side in (single, batch):
            side.hpas = [replace(hpa, status=one.status) for hpa, one in zip(side.hpas, wanted, strict=True)]
            moved = zip(wanted, side.replicas, strict=True)
            side.replicas = [before if one.scale_to is None else one.scale_to for one, before in moved]


def test_ordinary_autoscalers_are_computed_from_columns() -> None:
    """The property above would also hold if the pass did nothing."""
    pod = ClusterPod(
        metadata=ObjectMeta(name="web-0-0", namespace="default", labels={"app": "web-0"}),
        spec=template(cpu="1"),
        status=PodStatus(phase=RUNNING),
        started=NOW - 3600 * SECOND,
        ready=TRUE,
        ready_since=NOW - 3600 * SECOND,
    )
    target = MetricTarget(type="Utilization", average_utilization=50)
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name="web-0"),
        max_replicas=9,
        metrics=(MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target)),),
    )
    one = admit(HorizontalPodAutoscaler(metadata=ObjectMeta(name="web-0", namespace="default"), spec=spec))
    columns = PodColumns("cpu")
    samples = SampleColumns(len(columns))
    samples.put(columns.put(pod, 0), PodMetric(NOW, 15 * SECOND, 900))
    reconciler = BatchReconciler(HorizontalController(), columns)
    scale = Scale(spec_replicas=1, status_replicas=1, selector="app=web-0")
    metrics = ColumnMetrics(columns, samples)
    outcomes = reconciler.reconcile([Due(one, scale, 0)], samples, lambda _, __: [pod], metrics, NOW)
    assert [outcome.scale_to for outcome in outcomes] == [2]
    assert (reconciler.from_columns, reconciler.one_by_one) == (1, 0)


def test_rows_follow_pods_that_come_and_go() -> None:
    """A row that becomes free is given to the next pod; the order within a workload is that of rows."""
    columns = PodColumns("cpu")
    first = ClusterPod(metadata=ObjectMeta(name="a", namespace="default"), spec=template(cpu="1"))
    for index in range(100):
        columns.put(replace(first, metadata=ObjectMeta(name=f"a{index}", namespace="default")), index % 3)
    row = columns.rows["default/a7"]
    columns.remove("default/a7")
    assert columns.put(replace(first, metadata=ObjectMeta(name="b", namespace="default")), 2) == row
    rows, counts = columns.rows_of(columns.workload[[columns.rows["default/a2"], columns.rows["default/a0"]]])
    assert counts.tolist() == [34, 34]
    assert set(columns.workload[rows[:34]].tolist()) == {2}
    assert row in rows[:34].tolist()
