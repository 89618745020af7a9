"""Services: what pods use, serve, drop and answer, by numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.demand.ceilings import ApiQuota, Connections, PodIps
from stowplan_autoscaling.demand.pods import PodColumns, Startup
from stowplan_autoscaling.demand.series import Series, constant, ramp, steps
from stowplan_autoscaling.demand.service import Service, ServiceModel
from stowplan_autoscaling.inputs.errors import FieldError


def service(load: Series, pods: int, cores: float = 1.0, **model: object) -> Service:
    """10 ms per request unless it says otherwise, pods ready since the start."""
    ceilings = model.pop("ceilings", ())
    made = Service(ServiceModel(**{"cpu_per_request": 0.01, **model}), load, ceilings=ceilings)  # type: ignore[arg-type]
    made.set_pods(PodColumns([f"p{i}" for i in range(pods)]))
    made.grant(np.full(pods, cores))
    return made


def test_cpu_follows_the_load() -> None:
    """100/s of 10 ms on two pods, 0.1 cores idle: 0.6 cores each; over 30 s 18 core seconds each."""
    web = service(constant(100), 2, idle_cpu=0.1)
    assert web.cpu_demand() == pytest.approx([0.6, 0.6])
    web.advance(30)
    assert web.cpu_seconds == pytest.approx([18, 18])
    assert (web.arrived, web.served, web.dropped) == (3000, 3000, 0)


def test_a_faster_node_uses_fewer_cores() -> None:
    """The work is stated in core seconds of a reference core."""
    web = service(constant(100), 2)
    web.set_pods(PodColumns(["p0", "p1"], speed=[1.0, 2.0]))
    assert web.cpu_demand() == pytest.approx([0.5, 0.25])


def test_the_pods_that_are_ready_share_evenly() -> None:
    """One of three is not: the other two get half each; that one uses what an idle container uses."""
    web = service(constant(100), 3, idle_cpu=0.05)
    web.set_pods(PodColumns(["p0", "p1", "p2"], ready=[True, False, True]))
    assert web.cpu_demand() == pytest.approx([0.55, 0.05, 0.55])


def test_without_a_ready_pod_requests_are_lost() -> None:
    """Connections are refused; nothing waits for a pod to come."""
    web = service(constant(100), 1)
    web.set_pods(PodColumns(["p0"], ready=False))
    web.advance(2)
    assert (web.served, web.dropped) == (0, 200)
    assert web.sample().limited_by == "no ready pod"


def test_too_little_cpu_makes_a_backlog_and_then_time_outs() -> None:
    """150/s against 100/s: 50 more wait each second; at 60 s · 100/s = 6,000 the rest is dropped."""
    web = service(constant(150), 1)
    web.advance(100)
    assert web.backlog.tolist() == [5000]
    sample = web.sample()
    assert sample.limited_by == "cpu"
    assert sample.serving == 100
    assert sample.response.mean > 50
    web.advance(130)
    assert web.backlog.tolist() == [6000]
    assert web.dropped == 500
    assert web.cpu_seconds == pytest.approx([130])


def test_a_backlog_is_worked_off_when_the_spike_is_over() -> None:
    """Ten seconds of 50/s too much, then 50/s too few: empty after ten more."""
    web = service(steps([(0, 150), (10, 50)]), 1)
    web.advance(15)
    assert web.backlog.tolist() == [250]
    web.advance(20)
    assert web.backlog.tolist() == [0]
    web.advance(30)
    assert web.served == 1500 + 1000


def test_a_pod_with_a_backlog_serves_all_that_it_can() -> None:
    """50/s come and 400 wait: it does 100/s, with all of its core."""
    web = service(steps([(0, 150), (10, 50)]), 1)
    web.advance(12)
    assert web.backlog.tolist() == [400]
    sample = web.sample()
    assert (sample.serving, sample.cpu.tolist()) == (100, [1])


def test_no_more_requests_are_in_memory_than_there_are_threads() -> None:
    """500 wait for a pod of four threads: 100 for the application and 4 x 7 for what is in it."""
    web = service(constant(150), 1, threads=4, memory=100.0, memory_per_request=7.0)
    web.advance(10)
    assert web.backlog.tolist() == [500]
    assert web.sample().memory.tolist() == [128]


def test_a_full_line_refuses() -> None:
    """At most 20 wait per pod."""
    web = service(constant(150), 1, waiting=20, timeout=math.inf)
    web.advance(10)
    assert (web.backlog.tolist(), web.dropped) == ([20], 480)


def test_a_slow_neighbour_loses_requests_while_the_others_are_fine() -> None:
    """An even split does not ask who can: 50/s each, one pod can do 20/s."""
    web = service(constant(100), 2)
    web.grant(np.asarray([1.0, 0.2]))
    web.advance(10)
    assert web.backlog.tolist() == [0, 300]
    response = web.sample().response
    assert response.per_pod[0] == pytest.approx(0.02)
    assert response.per_pod[1] == pytest.approx(0.05 + 0.05 * 49 + 15)


def test_a_lost_pod_loses_what_waited_and_a_leaving_one_hands_it_over() -> None:
    """Killed: dropped. Deleted: the clients come again elsewhere."""
    for lost, backlog, dropped in ((("p1",), 500, 500), ((), 1000, 0)):
        web = service(constant(300), 2)
        web.advance(10)
        assert web.backlog.tolist() == [500, 500]
        web.set_pods(PodColumns(["p0"]), lost=lost)
        assert (web.backlog.tolist(), web.dropped) == ([backlog], dropped)


def test_counters_stay_with_their_pods() -> None:
    """Rows move; a new pod begins at 0."""
    web = service(constant(100), 2)
    web.advance(10)
    web.set_pods(PodColumns(["p2", "p1"]))
    assert web.cpu_seconds == pytest.approx([0, 5])


def test_a_pod_that_stays_keeps_its_cores_when_another_comes() -> None:
    """Until it is granted others: 0.2 cores serve 20/s of 50/s; the new one may use all there are."""
    web = service(constant(100), 1, cores=0.2)
    web.set_pods(PodColumns(["p0", "new"]))
    web.advance(10)
    assert web.backlog.tolist() == [300, 0]


def test_start_up_burns_cpu_before_the_pod_is_ready() -> None:
    """Half a core for 20 s from t = 5 on, within a limit of 0.4; then 0.1 idle."""
    web = Service(ServiceModel(cpu_per_request=0.01, idle_cpu=0.1, startup=Startup(seconds=20, cpu=0.5)), constant(0))
    web.set_pods(PodColumns(["p0", "later"], ready=False, started=[5, math.nan]))
    web.grant(np.asarray([0.4, 0.4]))
    assert web.cpu_demand().tolist() == [0, 0]
    web.advance(15)
    assert web.cpu_demand().tolist() == [0.5, 0]
    web.advance(35)
    assert web.cpu_seconds == pytest.approx([20 * 0.4 + 10 * 0.1, 0])


def test_a_cold_pod_costs_more() -> None:
    """Three times as much at readiness, falling to once over 60 s: twice after 30 s."""
    web = service(constant(10), 1, warmup=60, warmup_factor=3)
    assert web.cpu_demand() == pytest.approx([0.3])
    web.advance(30)
    assert web.cpu_demand() == pytest.approx([0.2])
    web.advance(90)
    assert web.cpu_demand() == pytest.approx([0.1])


def test_threads_bound_what_a_pod_takes_on() -> None:
    """Five threads, 10 ms of CPU and 90 ms of waiting: 50/s however idle the CPU is."""
    web = service(constant(80), 1, cores=4.0, threads=5, wait_per_request=0.09)
    assert web.capacity == pytest.approx(50)
    sample = web.sample()
    assert sample.limited_by == "threads"
    assert sample.cpu == pytest.approx([0.5])


def test_memory_grows_with_the_requests_inside() -> None:
    """Little: 50/s · 20 ms = 1 request of 8 MB on 100 MB, and a leak of 1 MB/s."""
    web = service(constant(50), 1, memory=100e6, memory_per_request=8e6, memory_growth=1e6)
    assert web.sample().memory == pytest.approx([108e6])
    web.advance(60)
    assert web.sample().memory == pytest.approx([168e6])


def test_a_ceiling_keeps_the_cpu_low_however_many_pods_there_are() -> None:
    """100 connections held 20 ms: 5,000/s, 1 ms of CPU each. Twenty pods or two hundred: no HPA on CPU sees it."""
    database = Connections(pool=100, per_pod=10, held=0.02)
    for pods in (20, 200):
        web = service(constant(9000), pods, ceilings=(database,), cpu_per_request=0.001)
        assert web.capacity == pytest.approx(5000)
        assert web.cpu_demand().sum() == pytest.approx(5)
        assert web.sample().limited_by == "connections"


def test_the_cpu_is_named_where_it_is_lower_than_the_ceiling() -> None:
    """The quota would allow 500/s."""
    web = service(constant(900), 2, ceilings=(ApiQuota(rate_limit=500),))
    assert (web.capacity, web.sample().limited_by) == (200, "cpu")


def test_pods_without_an_address_get_no_requests() -> None:
    """Two of four: the first two."""
    web = service(constant(300), 4, ceilings=(PodIps(addresses=2),))
    assert web.cpu_demand() == pytest.approx([1.5, 1.5, 0, 0])
    assert web.sample().limited_by == "pod-ips"


def test_time_does_not_go_back() -> None:
    """A mistake of the caller, not of the input."""
    web = service(constant(1), 1)
    web.advance(10)
    with pytest.raises(ValueError, match="cannot go back from 10 to 9"):
        web.advance(9)


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=5),
    st.lists(st.floats(0.05, 0.6), min_size=1, max_size=4),
    st.lists(st.floats(0.5, 60), max_size=12),
)
@settings(max_examples=60)
def test_nothing_is_lost_and_reading_changes_nothing(levels: list[int], cores: list[float], reads: list[float]) -> None:
    """What arrived was served, was dropped, or waits; however often somebody looked in between."""

    def run(moments: list[float]) -> Service:
        load = ramp([(15.0 * i, float(v)) for i, v in enumerate(levels)])
        made = service(load, len(cores), idle_cpu=0.02, timeout=5)
        made.grant(np.asarray(cores))
        for moment in [*sorted(moments), 60.0]:
            made.advance(moment)
            made.sample()
        return made

    once, often = run([]), run(reads)
    assert once.arrived == pytest.approx(once.served + once.dropped + float(once.backlog.sum()), abs=1e-6)
    assert often.served == pytest.approx(once.served, abs=1e-6)
    assert often.backlog == pytest.approx(once.backlog, abs=1e-6)
    assert often.cpu_seconds == pytest.approx(once.cpu_seconds, abs=1e-6)
    assert (once.cpu_seconds <= 60 * np.asarray(cores) + 1e-9).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu_per_request": -1}, "cpuPerRequest: -1: must be a number of at least 0"),
        ({"threads": 0}, "threads: 0: must be a whole number of at least 1"),
        ({"timeout": 0}, "timeout: 0: must be a number greater than 0"),
        ({"warmup_factor": 0.5}, "warmupFactor: 0.5: must be a number of at least 1"),
        ({"memory": math.nan}, "memory: nan: must be a number of at least 0"),
    ],
)
def test_costs_without_sense_are_refused(options: dict[str, float], message: str) -> None:
    """By field."""
    with pytest.raises(FieldError) as caught:
        ServiceModel(**{"cpu_per_request": 0.01, **options})  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_pod_columns_are_checked() -> None:
    """A key names one pod; a core has some speed."""
    with pytest.raises(FieldError, match="keys: two pods have the same key"):
        PodColumns(["a", "a"])
    with pytest.raises(FieldError, match=r"speed: 0\.0: must be a number greater than 0"):
        PodColumns(["a"], speed=0)
