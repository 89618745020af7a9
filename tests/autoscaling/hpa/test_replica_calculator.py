"""Proposals of one metric, by the numbers of upstream's own test cases and by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autoscaling.hpa.builders import NOW, RULES, pods, samples, template
from stowplan_autoscaling.hpa.fixed_width import MAX_INT32, MAX_INT64, MIN_INT32, MIN_INT64
from stowplan_autoscaling.hpa.replica_calculator import (
    NO_PODS,
    NO_SAMPLES,
    CalculationError,
    ReplicaCalculator,
    external_average_replicas,
    object_average_replicas,
    total_of_series,
    total_of_series_per_pod,
    value_replicas,
)
from stowplan_autoscaling.hpa.tolerance import Tolerances

TENTH = Tolerances(0.1, 0.1)

UTILIZATION = [
    # current, pods, samples, target, replicas, utilisation
    (3, "RRR", (300, 500, 700), 30, 5, 50),
    (3, "URR", (300, 500, 700), 30, 4, 60),
    (3, "RUU", (400, 500, 700), 30, 3, 40),
    (2, "RRFF", (500, 700), 30, 4, 60),
    (5, "RRRRR", (100, 300, 500, 250, 250), 50, 3, 28),
    (5, "RRRUU", (100, 300, 500, 250, 250), 50, 2, 30),
    (5, "RPPPP", (100,), 50, 1, 10),
    (4, "RRXX", (400, 95), 100, 3, 24),
    (2, "RX", (1000,), 100, 2, 100),
    (2, "RX", (1900,), 100, 2, 190),
    (2, "RX", (600,), 100, 2, 60),
    (3, "URX", (100, 450), 50, 3, 45),
    (3, "URX", (100, 2000), 50, 4, 200),
    (4, "URRX", (100, 100, 100), 50, 3, 10),
    (4, "RRRR", (4000, 9500, 3000, 7000, 3200, 2000), 100, 24, 587),
    (2, "RRX", (100, 100), 50, 2, 10),
    (10, "R" * 10, (549,) * 10, 50, 10, 54),
    (10, "R" * 10, (550,) * 10, 50, 10, 55),
    (10, "R" * 10, (560,) * 10, 50, 12, 56),
    (6, "RRPPPP", (10, 10), 50, 1, 1),
    (6, "RRPPPP", (900, 900), 50, 6, 90),
    (6, "RRPPPP", (2000, 2000), 50, 8, 200),
]


@pytest.mark.parametrize(("current", "states", "values", "target", "replicas", "utilization"), UTILIZATION)
def test_a_utilisation_target_proposes(
    current: int, states: str, values: tuple[int, ...], target: int, replicas: int, utilization: int
) -> None:
    """Ready, unready, missing, failed and foreign pods each have their own way of counting."""
    found = ReplicaCalculator(RULES).utilization_replicas(
        current, target, "cpu", "", TENTH, samples(states, values), pods(states), NOW
    )
    assert (found.replicas, found.utilization) == (replicas, utilization)


def test_requests_of_pods_weigh_their_samples() -> None:
    """Utilisation is the quotient of sums: 200 + 100 of 2 + 2 cores is 7 %, not the mean of 10 % and 5 %."""
    states = "URRX"
    found = ReplicaCalculator(RULES).utilization_replicas(
        4, 300, "cpu", "", TENTH, samples(states, (200, 100, 100)), pods(states, requests=("1", "1", "2", "2")), NOW
    )
    assert (found.replicas, found.utilization) == (2, 6)


@pytest.mark.parametrize(
    ("tolerances", "milli", "replicas"),
    [(TENTH, 540, 100), (Tolerances(0.05, 0.01), 540, 108), (Tolerances(0.05, 0.01), 470, 94)],
)
def test_each_direction_has_its_own_tolerance(tolerances: Tolerances, milli: int, replicas: int) -> None:
    """54 % of 50 % is 8 % too much: within a tenth, beyond a hundredth."""
    states = "R" * 100
    found = ReplicaCalculator(RULES).utilization_replicas(
        100, 50, "cpu", "", tolerances, samples(states, (milli,) * 100), pods(states), NOW
    )
    assert found.replicas == replicas


@pytest.mark.parametrize(
    ("current", "states", "values", "target", "tolerances", "replicas", "average"),
    [
        (3, "RRR", (20_000, 10_000, 30_000), 15_000, TENTH, 4, 20_000),
        (3, "RRR", (50_000, 15_000, 30_000), 15_000, TENTH, 7, 31_666),
        (3, "RRR", (20_000, 21_000, 21_000), 20_000, TENTH, 3, 20_666),
        (3, "RRR", (20_000, 21_000, 21_000), 20_000, Tolerances(0.1, 0.01), 4, 20_666),
        (5, "RRRXX", (20_000, 19_000, 21_000), 20_000, TENTH, 5, 20_000),
    ],
)
def test_an_average_target_proposes(
    current: int,
    states: str,
    values: tuple[int, ...],
    target: int,
    tolerances: Tolerances,
    replicas: int,
    average: int,
) -> None:
    """The average is cut to a whole milli unit before it meets the target."""
    found = ReplicaCalculator(RULES).average_replicas(
        current, target, "", tolerances, samples(states, values), pods(states), NOW
    )
    assert (found.replicas, found.average) == (replicas, average)


def test_foreign_samples_count_for_averages_only() -> None:
    """A metrics server that lags behind shows pods that are gone: (100 + 100 + 700) / 3 = 300, times 2 ready pods."""
    calculator = ReplicaCalculator(RULES)
    found = samples("RR", (100_000, 100_000, 700_000))
    assert calculator.average_replicas(2, 100_000, "", TENTH, found, pods("RR"), NOW).replicas == 6
    assert calculator.utilization_replicas(2, 10_000, "cpu", "", TENTH, found, pods("RR"), NOW).replicas == 2


def test_without_pods_or_usable_samples_there_is_no_proposal() -> None:
    """Both are errors, and the text tells which."""
    calculator = ReplicaCalculator(RULES)
    with pytest.raises(CalculationError, match=NO_PODS):
        calculator.average_replicas(1, 1, "", TENTH, samples("R", (1,)), [], NOW)
    with pytest.raises(CalculationError) as unready:
        calculator.average_replicas(1, 1, "cpu", TENTH, samples("U", (1,)), pods("U"), NOW)
    assert str(unready.value) == NO_SAMPLES


def test_a_request_of_nothing_matches_nothing() -> None:
    """Percent of nothing: upstream calls it metrics that match no known pod."""
    with pytest.raises(CalculationError, match="no metrics returned matched known pods"):
        ReplicaCalculator(RULES).utilization_replicas(
            1, 50, "cpu", "", TENTH, samples("R", (1,)), pods("R", requests=("0",)), NOW
        )


def test_a_pod_without_request_fails_the_metric_even_if_it_is_ignored() -> None:
    """Upstream asks for the requests of all selected pods, failed ones included."""
    calculator, given = ReplicaCalculator(RULES), pods("RF")
    with pytest.raises(CalculationError, match="missing request for memory in container app of Pod p0"):
        calculator.utilization_replicas(1, 50, "memory", "", TENTH, samples("R", (1,)), given, NOW)
    given[0] = replace(given[0], spec=template(memory="1Gi"))
    with pytest.raises(CalculationError, match="missing request for memory in container app of Pod p1"):
        calculator.utilization_replicas(1, 50, "memory", "", TENTH, samples("R", (1,)), given, NOW)


def test_a_value_target_multiplies_ready_pods() -> None:
    """20 of 15 is a third too much for 3 ready pods: 4. 8.6 of 4.4 with one ready pod of three: 2."""
    assert value_replicas(3, 20_000, 15_000, TENTH, lambda: pods("RRR")) == 4
    assert value_replicas(3, 8_600, 4_400, TENTH, lambda: pods("RUU")) == 2


def test_a_value_target_wakes_a_workload_without_tolerance() -> None:
    """From 0 replicas any usage asks for at least one, and no usage for none."""
    assert value_replicas(0, 10, 1_000, TENTH, list) == 1
    assert value_replicas(0, 0, 1_000, TENTH, list) == 0


def test_a_value_target_without_any_pod_is_an_error() -> None:
    """Outside of the tolerance, the number of ready pods is needed."""
    with pytest.raises(CalculationError, match=f"unable to calculate ready pods: {NO_PODS}"):
        value_replicas(3, 20_000, 15_000, TENTH, list)


@pytest.mark.parametrize(
    ("status_replicas", "usage", "target", "replicas", "average"),
    [(3, 20_000, 5_000, 4, 6_667), (5, 6_000, 2_000, 3, 1_200), (4, 20_166, 5_000, 4, 5_042)],
)
def test_a_target_per_pod_divides_by_the_existing_pods(
    status_replicas: int, usage: int, target: int, replicas: int, average: int
) -> None:
    """Averages are rounded up, unlike those of pods metrics."""
    assert object_average_replicas(status_replicas, usage, target, TENTH) == (replicas, average)
    assert external_average_replicas(status_replicas, usage, target, TENTH) == (replicas, average)


def test_no_existing_pods_make_the_average_an_overflow() -> None:
    """Upstream divides by zero in floats and converts the infinity, which gives the smallest int64."""
    assert object_average_replicas(0, 2_500, 1_000, TENTH) == (3, MIN_INT64)
    assert external_average_replicas(0, 0, 1_000, TENTH) == (0, MIN_INT64)


def test_series_saturate() -> None:
    """Three times 2^62 is more than an int64; replicas stop at the largest int32 for external metrics alone."""
    series = (2**62, 2**62, 2**62)
    assert total_of_series(series) == total_of_series_per_pod(series) == MAX_INT64
    assert value_replicas(3, MAX_INT64, 1, TENTH, lambda: pods("RUU")) == MAX_INT32
    assert external_average_replicas(3, MAX_INT64, 1, TENTH) == (MAX_INT32, MAX_INT64)
    assert object_average_replicas(3, MAX_INT64, 1, TENTH)[0] == MIN_INT32


def test_a_negative_sum_is_taken_for_an_overflow_per_pod_only() -> None:
    """A difference between upstream's two ways of adding series up."""
    assert total_of_series((-5,)) == -5
    assert total_of_series_per_pod((-5,)) == MAX_INT64


def test_too_large_a_proposal_of_pods_turns_negative() -> None:
    """The conversion of linux/amd64: beyond 2^31 - 1 comes -2^31, and the workload shrinks."""
    found = ReplicaCalculator(RULES).average_replicas(
        3, 1, "", TENTH, samples("RRR", (9 * 10**12,) * 3), pods("RRR"), NOW
    )
    assert found.replicas == MIN_INT32
