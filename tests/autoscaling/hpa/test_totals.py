"""Sums over a workload propose what the pods one by one propose, or leave it to them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.hpa.builders import NOW, RULES, SECOND, cpu, hpa, one_pod, pods, template
from stowplan_autoscaling.cluster.pods import FALSE, UNKNOWN, ClusterPod
from stowplan_autoscaling.hpa import HorizontalController, PodMetric, Scale
from stowplan_autoscaling.hpa.batch import BatchReconciler, Due
from stowplan_autoscaling.hpa.objects import MetricSpec, MetricTarget, ResourceMetricSource
from stowplan_autoscaling.hpa.plan import HPAPlan, MetricPlan
from stowplan_autoscaling.hpa.pod_columns import ColumnMetrics, PodColumns, SampleColumns
from stowplan_autoscaling.hpa.replica_calculator import CalculationError, ReplicaCalculator
from stowplan_autoscaling.hpa.replica_calculator import Proposal as CalculatedProposal
from stowplan_autoscaling.hpa.tolerance import Tolerances
from stowplan_autoscaling.hpa.totals import Proposal, Totals, plain_totals, propose, totals_of
from stowplan_scheduler.objects import PodStatus
from stowplan_scheduler.selectors import LabelQuery

TOLERANCES = Tolerances(scale_up=0.1, scale_down=0.1)


def columns_of(
    given: Sequence[ClusterPod], values: Sequence[int | None], resource: str = "cpu", timestamp: int = NOW
) -> tuple[PodColumns, SampleColumns]:
    """One workload, number 0."""
    columns = PodColumns(resource)
    samples = SampleColumns(len(columns))
    for pod, value in zip(given, values, strict=True):
        row = columns.put(pod, 0)
        if value is not None:
            samples.put(row, PodMetric(timestamp, 15 * SECOND, value))
    return columns, samples


def summed(
    given: Sequence[ClusterPod],
    values: Sequence[int | None],
    *,
    resource: str = "cpu",
    now: int = NOW,
    percent: int = 50,
) -> Totals | None:
    """Of these pods with these samples."""
    target = MetricTarget(type="Utilization", average_utilization=percent)
    columns, samples = columns_of(given, values, resource)
    return totals_of(columns, samples, 0, plan(target, resource), RULES, now)


def amounts(
    counted: tuple[int, int, int], unready: tuple[int, int] = (0, 0), missing: tuple[int, int, int] = (0, 0, 0)
) -> Totals:
    """Counted pods with usage and request, unready with request, missing with request and full use."""
    return Totals(*counted, *unready, *missing, 0)


def plan(target: MetricTarget, resource: str = "cpu") -> MetricPlan:
    metric = MetricSpec(type="Resource", resource=ResourceMetricSource(name=resource, target=target))
    return HPAPlan(hpa(metric).spec, "default", 0.1).metrics[0]


def percent(value: int) -> MetricPlan:
    return plan(MetricTarget(type="Utilization", average_utilization=value))


def test_pods_are_summed_up_by_how_they_count() -> None:
    """Two with samples, one Pending, one without a sample, one that has failed; amounts in milli units. The missing one
    is taken to use 100 % of its request at least, and more if the target is above that.
    """
    given, values = pods("RRPXF", requests=["1", "1", "2", "500m", "9"]), [300, 500, None, None, None]
    assert summed(given, values) == amounts((2, 800, 2000), (1, 2000), (1, 500, 500))
    assert summed(given, values, percent=150) == amounts((2, 800, 2000), (1, 2000), (1, 500, 750))


def test_a_pod_that_was_never_ready_counts_as_unready_for_cpu() -> None:
    """Memory is there whether the pod is ready or not."""
    given = pods("RU")
    assert summed(given, [300, 900]) == amounts((1, 300, 1000), (1, 1000))
    plain = pods("RU", requests=["1", "1"])
    memory = [replace(pod, spec=template(memory="1")) for pod in plain]
    assert summed(memory, [300, 900], resource="memory") == amounts((2, 1200, 2000))


@pytest.mark.parametrize(
    ("age", "later", "counts"),
    [(15, 0, True), (14.999, 0, False), (14.999, 299, False), (14.999, 301, True), (100, 0, True)],
)
def test_a_young_pod_counts_a_window_after_it_became_ready(age: float, later: int, counts: bool) -> None:
    """The sample must be 15 s younger than the readiness, as long as the pod has been running for less than 300 s."""
    since = NOW - round(age * SECOND)
    pod = replace(one_pod("p0", "R"), started=NOW, ready_since=since)
    found = summed([pod], [300], now=NOW + later * SECOND)
    assert found == (amounts((1, 300, 1000)) if counts else amounts((0, 0, 0), (1, 1000)))


def test_a_workload_without_pods_has_no_totals() -> None:
    """Neither has one that nobody knows: the controller then says that there are no pods."""
    columns, samples = columns_of(pods("R"), [300])
    assert totals_of(columns, samples, 1, percent(50), RULES, NOW) is None


def test_where_a_sum_might_overflow_there_are_no_totals() -> None:
    """2^56 x 100 does not fit; the ordinary way wraps around as upstream does."""
    assert summed(pods("R"), [2**56]) is None
    assert summed(pods("R"), [2**55]) is not None


def test_a_pod_without_request_is_counted_whatever_its_state() -> None:
    """Utilisation cannot be computed then, even if that pod has failed; an average can."""
    failed = one_pod("p1", "F")
    bare = replace(failed, spec=replace(failed.spec, containers=(replace(failed.spec.containers[0], resources=EMPTY),)))
    found = summed([one_pod("p0", "R"), bare], [900, None])
    assert found is not None
    assert found.without_request == 1
    assert propose(found, percent(50), 1, TOLERANCES) is None
    average = plan(MetricTarget(type="AverageValue", average_value="300m"))
    assert propose(found, average, 1, TOLERANCES) == Proposal(3, 0, 900)


EMPTY = replace(one_pod("x", "R").spec.containers[0].resources, requests=None)


@pytest.mark.parametrize(
    ("sums", "current", "wanted"),
    [
        # 4 pods at 80 % with a target of 50 %: ceil(1.6 x 4).
        (amounts((4, 3200, 4000)), 4, Proposal(7, 80, 800)),
        # 55 % is within the tolerance of 10 %, 56 % is not.
        (amounts((4, 2200, 4000)), 4, Proposal(4, 55, 550)),
        (amounts((4, 2240, 4000)), 4, Proposal(5, 56, 560)),
        (amounts((4, 800, 4000)), 4, Proposal(2, 20, 200)),
        # 3 at 90 %, 3 unready: 2700 of 6000 are 45 %, within the tolerance: stays.
        (amounts((3, 2700, 3000), (3, 3000)), 6, Proposal(6, 90, 900)),
        # 3 at 150 %, 3 unready: 75 % of 6, ceil(1.5 x 6) = 9.
        (amounts((3, 4500, 3000), (3, 3000)), 6, Proposal(9, 150, 1500)),
        # The same with 12 wanted already: 9 would be a step back.
        (amounts((3, 4500, 3000), (3, 3000)), 12, Proposal(12, 150, 1500)),
        # 1 at 60 %, 3 unready: 15 % under assumptions would turn the direction.
        (amounts((1, 600, 1000), (3, 3000)), 4, Proposal(4, 60, 600)),
        # Below the target those that are unready do not matter.
        (amounts((4, 800, 4000), (3, 3000)), 7, Proposal(2, 20, 200)),
        # 4 at 20 %, 1 missing taken at 100 %: 1800 of 5000 are 36 %, ceil(0.72 x 5) = 4.
        (amounts((4, 800, 4000), missing=(1, 1000, 1000)), 5, Proposal(4, 20, 200)),
        # 4 at 80 %, 1 missing taken at nothing: 64 %, ceil(1.28 x 5) = 7; one unready as well: 53 %, stays.
        (amounts((4, 3200, 4000), missing=(1, 1000, 1000)), 5, Proposal(7, 80, 800)),
        (amounts((4, 3200, 4000), (1, 1000), (1, 1000, 1000)), 6, Proposal(6, 80, 800)),
        # At the target exactly nothing is filled in.
        (amounts((4, 2000, 4000), missing=(1, 1000, 1000)), 5, Proposal(5, 50, 500)),
        # Nothing to divide by, a request that is not known, or an overflow near.
        (amounts((0, 0, 0), (3, 3000)), 3, None),
        (amounts((2, 100, 0)), 2, None),
        (amounts((2, 100, 2000))._replace(without_request=1), 2, None),
        (amounts((2, -5, 2000)), 2, None),
        (amounts((2, 2**62, 2000)), 2, None),
        (amounts((1, 2**50, 1)), 1, None),
    ],
)
def test_proposals_by_hand(sums: Totals, current: int, wanted: Proposal | None) -> None:
    """A target of 50 %, tolerances of 10 %. What gives None is left to the ordinary way."""
    assert propose(sums, percent(50), current, TOLERANCES) == wanted


def random_pods(random: Random) -> tuple[list[ClusterPod], list[int | None]]:
    """Mostly ready pods with samples, so that sums often answer."""
    level, odd = random.choice([100, 450, 500, 545, 551, 900, 2500]), random.choice([0, 0, 0, 0.2])
    made: list[ClusterPod] = []
    values: list[int | None] = []
    for number in range(random.randint(0, 7)):
        fields: dict[str, Any] = {}
        letter = random.choice("RRRRRRPPF")
        if random.random() < odd:
            fields = random.choice(
                [
                    {"ready": FALSE},
                    {"ready": UNKNOWN},
                    {"ready": ""},
                    {"started": None},
                    {"ready_since": NOW - random.randint(0, 40) * SECOND},
                    {"deleted": NOW},
                    {"status": PodStatus(phase="Succeeded")},
                ]
            )
        made.append(replace(one_pod(f"p{number}", letter, cpu=random.choice(["1", "1", "250m", "3"])), **fields))
        has_sample = letter == "R" and random.random() >= odd / 2
        values.append(max(level + random.randint(-60, 60), 0) if has_sample else None)
    return made, values


TARGETS = (
    *(MetricTarget(type="Utilization", average_utilization=percent) for percent in (30, 50, 90, 200)),
    *(MetricTarget(type="AverageValue", average_value=average) for average in ("100m", "500m", "2")),
)


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from(TARGETS), st.sampled_from([0, 10, 290, 400]))
def test_where_sums_answer_they_answer_as_the_pods_do(seed: int, target: MetricTarget, later: int) -> None:
    """The same as the calculator that looks at each pod, at any time of the sync."""
    random = Random(seed)
    made, values = random_pods(random)
    columns, samples = columns_of(made, values)
    now, current = NOW + later * SECOND, random.randint(1, 12)
    one = plan(target)
    tolerances = random.choice([TOLERANCES, Tolerances(scale_up=0.0, scale_down=0.3)])
    found = totals_of(columns, samples, 0, one, RULES, now)
    proposal = None if found is None else propose(found, one, current, tolerances)
    if proposal is None:
        return
    taken = {
        pod.metadata.name: PodMetric(NOW, 15 * SECOND, value)
        for pod, value in zip(made, values, strict=True)
        if value is not None
    }
    assert tuple(proposal) == tuple(calculated(one, current, tolerances, taken, made, now))


def calculated(
    one: MetricPlan,
    current: int,
    tolerances: Tolerances,
    taken: dict[str, PodMetric],
    made: Sequence[ClusterPod],
    now: int,
) -> CalculatedProposal:
    calculator = ReplicaCalculator(RULES)
    if one.average is not None:
        return calculator.average_replicas(current, one.average, "cpu", tolerances, taken, made, now)
    return calculator.utilization_replicas(current, one.utilization or 0, "cpu", "", tolerances, taken, made, now)


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_sums_answer_as_the_pass_over_columns_does(seed: int) -> None:
    """Whole syncs: the batch that begins with one autoscaler proposes the same."""
    random = Random(seed)
    made, values = random_pods(random)
    columns, samples = columns_of(made, values)
    current = random.randint(1, 10)
    one = hpa(cpu(random.choice([30, 50, 90])))
    controller = HorizontalController()
    scale = Scale(spec_replicas=current, status_replicas=current, selector="app=web")
    metrics = ColumnMetrics(columns, samples, made)

    def select(namespace: str, query: LabelQuery) -> list[ClusterPod]:
        return list(made)

    sync = BatchReconciler(controller, columns).begin([Due(one, scale, 0)], samples, select, metrics, NOW)[0]
    metric = sync.plan.metrics[0]
    found = totals_of(columns, samples, 0, metric, controller.calculator.rules, NOW)
    proposal = None if found is None else propose(found, metric, current, sync.plan.tolerances)
    if proposal is not None:
        assert proposal.replicas == sync.proposal
        status = sync.statuses[0].resource
        assert status is not None
        assert (proposal.utilization, proposal.average) == (
            status.current.average_utilization,
            status.current.average_value,
        )


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.sampled_from(["cpu", "memory"]), st.sampled_from([0, 290, 400]))
def test_what_does_not_depend_on_the_moment_is_the_same_for_many_workloads_at_once(
    seed: int, resource: str, later: int
) -> None:
    """Sums over all rows cut at the bounds of the workloads, against a pass per workload; at any time."""
    random = Random(seed)
    columns = PodColumns(resource)
    samples = SampleColumns(len(columns))
    for workload in range(random.randint(1, 5)):
        for pod, value in zip(*random_pods(random), strict=True):
            renamed = replace(pod, metadata=replace(pod.metadata, name=f"{pod.metadata.name}-{workload}"))
            row = columns.put(renamed, workload)
            if value is not None:
                samples.put(row, PodMetric(NOW, 15 * SECOND, value))
    one = plan(MetricTarget(type="Utilization", average_utilization=random.choice([50, 300])), resource)
    for workload, found in enumerate(plain_totals(columns, samples)):
        if found is not None:
            assert found == totals_of(columns, samples, workload, one, RULES, NOW + later * SECOND)


def test_sums_of_many_workloads_answer_where_every_pod_is_plain() -> None:
    """One that lacks its sample, or became ready a moment ago, leaves its workload to the moment."""
    columns = PodColumns("cpu")
    samples = SampleColumns(len(columns))
    young = replace(one_pod("b", "R"), ready_since=NOW)
    for workload, pod, value in ((0, one_pod("a", "R"), 300), (1, young, 300), (2, one_pod("c", "R"), None)):
        row = columns.put(pod, workload)
        if value is not None:
            samples.put(row, PodMetric(NOW, 15 * SECOND, value))
    assert plain_totals(columns, samples) == [amounts((1, 300, 1000)), None, None]


def test_where_a_sum_of_all_might_overflow_no_workload_has_plain_totals() -> None:
    """The bound is on the whole, since the sums run through all rows."""
    columns, samples = columns_of(pods("R"), [2**56])
    assert plain_totals(columns, samples) == []


def test_sums_answer_in_the_plain_case() -> None:
    """The properties above would also hold if the sums never answered."""
    answers = 0
    for seed in range(200):
        made, values = random_pods(Random(seed))
        found = summed(made, values)
        answers += found is not None and propose(found, percent(50), 3, TOLERANCES) is not None
    assert answers > 120


def test_what_the_sums_refuse_the_calculator_may_refuse_too() -> None:
    """A pod without request: both have no number, and the calculator says why."""
    pod = one_pod("p0", "R")
    bare = replace(pod, spec=replace(pod.spec, containers=(replace(pod.spec.containers[0], resources=EMPTY),)))
    taken = {"p0": PodMetric(NOW, 15 * SECOND, 300)}
    with pytest.raises(CalculationError, match="missing request for cpu"):
        calculated(percent(50), 1, TOLERANCES, taken, [bare], NOW)
    found = summed([bare], [300])
    assert found is not None
    assert propose(found, percent(50), 1, TOLERANCES) is None
