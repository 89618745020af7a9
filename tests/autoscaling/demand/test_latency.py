"""Response times: where the formula is exact, it is compared with the exact one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stowplan_autoscaling.demand.latency import MOST_BUSY, Response, service_time, waiting_time
from stowplan_autoscaling.demand.series import Floats


def column(*values: float) -> Floats:
    return np.asarray(values, dtype=np.float64)


def test_one_core_is_processor_sharing() -> None:
    """S / (1 - u): 10 ms of work at 80 % take 50 ms."""
    assert 0.01 + waiting_time(column(0.01), column(1), column(0.8))[0] == pytest.approx(0.05)


def test_half_a_core_runs_a_request_at_half_the_speed() -> None:
    """10 ms of work take 20 ms; a node whose cores are twice as fast makes up for it."""
    assert service_time(column(0.01, 0.01), column(0.5, 0.5), column(1, 2)).tolist() == [0.02, 0.01]


def test_more_cores_do_not_make_a_lone_request_faster() -> None:
    """It runs on one of them."""
    assert service_time(column(0.01), column(8), column(1))[0] == 0.01


def erlang_c_wait(servers: int, busy: float) -> float:
    """Mean waiting time of M/M/c in units of the service time."""
    load = servers * busy
    last = load**servers / math.factorial(servers) / (1 - busy)
    wait = last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)
    return wait / (servers * (1 - busy))


@pytest.mark.parametrize("servers", [2, 4, 8])
@pytest.mark.parametrize("busy", [0.5, 0.7, 0.9])
def test_several_cores_come_close_to_the_exact_queue(servers: int, busy: float) -> None:
    """Sakasegawa's approximation: within 4 % of the service time of what Erlang's formula says."""
    got = waiting_time(column(1), column(servers), column(busy))[0]
    assert got == pytest.approx(erlang_c_wait(servers, busy), abs=0.04)


def test_waiting_grows_with_utilisation_and_is_bounded_at_saturation() -> None:
    """The formula goes to infinity; a backlog takes over before that."""
    busy = np.linspace(0, 1.5, 100)
    got = waiting_time(np.full(100, 0.01), np.ones(100), busy)
    assert (np.diff(got) >= 0).all()
    assert got[-1] == pytest.approx(0.01 * MOST_BUSY / (1 - MOST_BUSY))


def test_endless_cores_have_no_line() -> None:
    """Before contention has been computed a pod may use all there are."""
    assert waiting_time(column(0.01), column(np.inf), column(0))[0] == 0


def test_quantiles_of_one_pod_are_those_of_an_exponential_beyond_the_fixed_part() -> None:
    """20 ms fixed, 10 ms exponential: the 95th percentile is 20 + 10 · ln 20 = 49.96 ms."""
    response = Response(column(0.02), column(0.01), column(5))
    assert response.mean == pytest.approx(0.03)
    assert response.quantile(0.95) == pytest.approx(0.02 + 0.01 * math.log(20))
    assert response.share_above(0.02 + 0.01 * math.log(4)) == pytest.approx(0.25)
    assert response.share_above(0.01) == 1


def test_a_slow_pod_shows_in_the_tail_of_the_service() -> None:
    """Nine pods answer in 10 ms, one in 1 s: the mean hides it, the 95th percentile does not."""
    fixed = np.append(np.full(9, 0.01), 1.0)
    response = Response(fixed, np.zeros(10), np.ones(10))
    assert response.mean == pytest.approx(0.109)
    assert response.quantile(0.5) == pytest.approx(0.01)
    assert response.quantile(0.95) == pytest.approx(1.0)
    assert response.share_above(0.5) == pytest.approx(0.1)


def test_without_requests_there_is_no_response_time() -> None:
    """Not 0: an empty class has no mean."""
    response = Response(column(0.01), column(0), column(0))
    assert math.isnan(response.mean)
    assert math.isnan(response.quantile(0.5))
    assert math.isnan(response.share_above(1))
