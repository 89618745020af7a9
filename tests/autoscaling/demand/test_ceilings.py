"""Ceilings: the numbers that more pods do not change."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.demand.ceilings import ApiQuota, Connections, Partitions, PodIps, bound, level
from stowplan_autoscaling.inputs.errors import FieldError


def test_a_pool_of_connections_bounds_the_rate() -> None:
    """Ten per pod of 100, each held 20 ms: 500/s per pod up to ten pods, 5,000/s from then on."""
    pool = Connections(pool=100, per_pod=10, held=0.02)
    assert [pool.rate(pods) for pods in (1, 10, 50)] == [500, 5000, 5000]
    assert pool.useful(50) == 10


def test_a_quota_is_shared_by_all_calls() -> None:
    """300 calls per second, three per request."""
    assert ApiQuota(rate_limit=300, calls=3).rate(99) == 100


def test_partitions_and_addresses_bound_the_useful_pods() -> None:
    """A consumer without a partition does nothing; a pod without an address does not start."""
    assert Partitions(partitions=12).useful(40) == 12
    assert PodIps(addresses=3).useful(40) == 3
    assert [PodIps(addresses=3).admits(n) for n in (2, 3)] == [True, False]


def test_the_lowest_ceiling_is_named() -> None:
    """So that a report can say what to raise."""
    ceilings = (Partitions(partitions=4), ApiQuota(rate_limit=90), Connections(pool=10, per_pod=1, held=0.1))
    found = bound(ceilings, 8)
    assert (found.useful, found.useful_by, found.rate, found.rate_by) == (4, "partitions", 40, "connections")
    assert bound((), 8).rate == math.inf


def test_a_bound_is_shared_evenly_and_what_is_left_goes_to_those_who_can() -> None:
    """30 among pods that can do 5, 20 and 20: 5, 12.5 and 12.5."""
    assert level([20, 5, 20], 30) == 12.5
    assert level([20, 5, 20], 45) == math.inf


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.floats(0, 1e6))
def test_shares_of_a_bound_add_up_to_it(capacities: list[float], together: float) -> None:
    """Or to all that there is, if that is less."""
    share = level(capacities, together)
    assert sum(min(c, share) for c in capacities) == pytest.approx(min(sum(capacities), together))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Connections(pool=0, per_pod=1, held=1), "pool: 0: must be a whole number of at least 1"),
        (lambda: Connections(pool=5, per_pod=1, held=0), "held: 0: must be a number greater than 0"),
        (lambda: ApiQuota(rate_limit=math.nan), "rateLimit: nan: must be a number greater than 0"),
        (lambda: Partitions(partitions=0), "partitions: 0: must be a whole number of at least 1"),
        (lambda: PodIps(addresses=-1), "addresses: -1: must be a whole number of at least 0"),
    ],
)
def test_ceilings_without_sense_are_refused(make: object, message: str) -> None:
    """By field."""
    assert callable(make)
    with pytest.raises(FieldError) as caught:
        make()
    assert str(caught.value) == message
