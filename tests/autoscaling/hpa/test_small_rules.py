"""Requests, tolerances, integers of fixed width, selectors of several autoscalers, points."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.hpa.builders import one_pod, pods
from stowplan_autoscaling.demand.points import Points, Usage, UsageSpec
from stowplan_autoscaling.hpa.fixed_width import (
    MIN_INT32,
    MIN_INT64,
    ceiling,
    divide,
    float_to_int32,
    float_to_int64,
    truncated_division,
    wrap32,
    wrap64,
)
from stowplan_autoscaling.hpa.requests import MissingRequestError, RequestCache
from stowplan_autoscaling.hpa.selector_store import SelectorStore
from stowplan_autoscaling.hpa.selector_text import parse_selector
from stowplan_autoscaling.hpa.tolerance import Tolerances, approximate_float
from stowplan_scheduler.objects import Container, Pod, PodSpec, ResourceMap, ResourceRequirements


def container(name: str, amount: str | None, restart_policy: str | None = None) -> Container:
    """A container that requests cpu, or nothing."""
    requests: ResourceMap | None = None if amount is None else {"cpu": amount}
    return Container(name=name, resources=ResourceRequirements(requests=requests), restart_policy=restart_policy)


def requested(spec: PodSpec, of_container: str = "", resource: str = "cpu") -> int:
    """Milli units of a pod with this spec."""
    pod: Pod = replace(one_pod("p", "R"), spec=spec)
    return RequestCache().request(pod, resource, of_container)


def test_sidecars_count_and_ordinary_init_containers_do_not() -> None:
    """100 + 200 + the sidecar's 50; the init container has ended when load comes."""
    spec = PodSpec(
        containers=(container("app", "100m"), container("log", "200m")),
        init_containers=(container("setup", "5"), container("proxy", "50m", "Always")),
    )
    assert requested(spec) == 350
    assert requested(spec, "proxy") == 50


def test_a_request_of_the_whole_pod_replaces_those_of_containers() -> None:
    """Unless a container is named; a resource that nobody requests is an error there, too."""
    whole = ResourceRequirements(requests={"cpu": "2"})
    spec = PodSpec(containers=(container("app", "100m"),), resources=whole)
    assert requested(spec) == 2000
    assert requested(spec, "app") == 100
    with pytest.raises(MissingRequestError, match="missing pod-level request for memory in Pod p"):
        requested(spec, resource="memory")


def test_a_container_that_does_not_exist_is_an_error() -> None:
    """The text names the pod."""
    with pytest.raises(MissingRequestError, match="container log not found in Pod p"):
        requested(PodSpec(containers=(container("app", "1"),)), "log")


def test_the_overhead_counts_only_with_a_request_of_the_pod() -> None:
    """The sum of the containers is what utilisation is about."""
    spec = PodSpec(containers=(container("app", "1"),), overhead={"cpu": "250m"})
    assert requested(spec) == 1000
    assert requested(replace(spec, resources=ResourceRequirements(requests={"cpu": "1"}))) == 1250


def test_requests_of_many_pods_are_those_of_each() -> None:
    """Pods of one template are looked up once; another template in between must not be mistaken for it."""
    given_pods = [*pods("RR"), replace(one_pod("x", "R"), spec=PodSpec(containers=(container("app", "3"),)))]
    given_pods.append(replace(given_pods[0], metadata=replace(given_pods[0].metadata, name="y")))
    assert RequestCache().requests(given_pods, "cpu", "") == {"p0": 1000, "p1": 1000, "x": 3000, "y": 1000}


def test_both_edges_of_the_tolerance_belong_to_it() -> None:
    """What is not a number is outside."""
    tolerances = Tolerances(0.1, 0.1)
    assert tolerances.is_within(0.9)
    assert tolerances.is_within(1.1)
    assert not tolerances.is_within(1.1000000000000003)
    assert not tolerances.is_within(math.nan)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.57", 57 * 0.01), ("57m", 57 * 0.001), ("5", 5.0), ("0.10", 0.1), ("1e-1", 0.1), ("1Ki", 1024.0)],
)
def test_a_tolerance_is_digits_times_a_power_of_ten(text: str, value: float) -> None:
    """57 * 0.01 is 0.5700000000000001, and so is the real controller's tolerance."""
    assert approximate_float(text) == value


@pytest.mark.parametrize(
    ("number", "expected"), [(2147483647.9, 2147483647), (2147483648.0, MIN_INT32), (-2147483648.9, MIN_INT32)]
)
def test_floats_beyond_32_bits_become_the_smallest_number(number: float, expected: int) -> None:
    """As the processor converts them; so do infinities and what is not a number."""
    assert float_to_int32(number) == expected
    assert float_to_int32(math.inf) == float_to_int32(math.nan) == MIN_INT32
    assert float_to_int64(math.inf) == float_to_int64(2.0**63) == MIN_INT64


@given(st.integers(-(2**70), 2**70), st.integers(-1000, 1000).filter(bool))
def test_wrapping_and_division_are_those_of_a_processor(number: int, divisor: int) -> None:
    """Equal modulo 2^n, inside the range; the remainder has the sign of the dividend."""
    assert (wrap64(number) - number) % 2**64 == 0
    assert -(2**63) <= wrap64(number) < 2**63
    assert -(2**31) <= wrap32(number) < 2**31
    remainder = number - truncated_division(number, divisor) * divisor
    assert abs(remainder) < abs(divisor)
    assert remainder == 0 or (remainder < 0) == (number < 0)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_ceiling_is_that_of_mathematics(number: float) -> None:
    """And division by zero is that of IEEE 754."""
    assert ceiling(number) == float(math.ceil(number))
    assert divide(number, 0.0) == math.inf * number if number else math.isnan(divide(number, 0.0))


def test_only_autoscalers_of_the_same_pods_are_rivals() -> None:
    """Selectors of other labels, of other namespaces and of autoscalers without a sync do not count."""
    store, found = SelectorStore(), pods("R")
    for name in ("a", "b", "new"):
        store.add("default", name)
    store.update("default", "a", parse_selector("app=web"))
    store.update("default", "b", parse_selector("app=api"))
    store.update("other", "c", parse_selector("app=web"))
    selector = parse_selector("app=web")
    assert store.rivals("default", selector, lambda _, __: found) == ["a"]
    store.update("default", "b", parse_selector("app!=api"))
    assert store.rivals("default", selector, lambda _, __: found) == ["b", "a"]
    store.remove("default", "a")
    assert store.rivals("default", selector, lambda _, __: found) == ["b"]


def test_points_are_steps_whose_first_value_holds_before() -> None:
    """Or lines in whole milliseconds, rounded down."""
    steps, line = Points([[10, 5], [20, 8]]), Points([[10, 5], [20, -5]], linear=True)
    assert [steps.first_at(t) for t in (0, 10, 19.999, 20, 99)] == [5, 5, 5, 8, 8]
    assert [line.first_at(t) for t in (0, 10, 10.5, 15, 19.999, 20, 30)] == [5, 5, 4, 0, -5, -5, -5]
    assert Points([]).at(3) == ()
    assert Points([]).first_at(3) == 0


def test_demand_is_shared_by_ready_pods() -> None:
    """1000 by 3 is 333, at most 300, plus 10; pods that start use their own amount."""
    usage = Usage(UsageSpec(demand=((0, 1000),), idle=10, cap=300, starting=70))
    assert usage.of("p", 1, True, 3, 0) == 310
    assert usage.of("p", 1, False, 3, 0) == 70
    assert usage.of("p", 1, True, 9, 0) == 121


def test_usage_varies_with_the_number_of_the_pod() -> None:
    """Number 2 with a spread of 10: 74 % 21 = 11, which is 101 % of the usage."""
    usage = Usage(UsageSpec(per_pod=((0, 1000),), pods={"own": ((0, 7),)}, spread=10))
    assert usage.of("p", 2, True, 1, 0) == 1010
    assert usage.of("own", 0, True, 1, 0) == 6
