"""Queues: length, age and drain time by hand, and against messages one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.demand.ceilings import ApiQuota, Partitions
from stowplan_autoscaling.demand.pods import PodColumns
from stowplan_autoscaling.demand.series import Repeated, Series, constant, ramp, steps
from stowplan_autoscaling.demand.worker import WorkerModel, WorkQueue
from stowplan_autoscaling.inputs.errors import FieldError


def queue(load: Series, pods: int, cores: float = 1.0, backlog: float = 0.0, **model: object) -> WorkQueue:
    """100 ms of CPU per message unless it says otherwise: ten per second and core."""
    ceilings = model.pop("ceilings", ())
    settings = {"cpu_per_message": 0.1, **model}
    made = WorkQueue(WorkerModel(**settings), load, ceilings=ceilings, backlog=backlog)  # type: ignore[arg-type]
    made.set_pods(PodColumns([f"w{i}" for i in range(pods)]))
    made.grant(np.full(pods, cores))
    return made


def test_a_queue_grows_and_its_oldest_message_gets_older() -> None:
    """30/s in, 20/s out: after 60 s 600 wait; the oldest is the 1,201st, which came at 40 s."""
    jobs = queue(constant(30), 2)
    jobs.advance(60)
    assert jobs.length == 600
    assert jobs.age == pytest.approx(20)
    assert jobs.drain == math.inf


def test_a_queue_without_workers_keeps_everything() -> None:
    """The oldest message came first."""
    jobs = queue(constant(5), 0)
    jobs.advance(50)
    assert (jobs.length, jobs.age) == pytest.approx((250, 50))
    assert jobs.sample().limited_by == "no ready pod"


def test_time_in_which_nothing_came_is_no_age() -> None:
    """Nothing for 100 s, then 2/s: at 110 s the oldest of 20 messages is 10 s old, not 110 s."""
    jobs = queue(steps([(0, 0), (100, 2)]), 0)
    jobs.advance(110)
    assert (jobs.length, jobs.age) == pytest.approx((20, 10))


def test_time_in_which_nothing_came_between_two_bursts_is_no_age() -> None:
    """Ten messages, all done; the next ones come at 1000 s: at 1004 s the oldest of four is 4 s old."""
    jobs = queue(steps([(0, 1), (10, 0), (1000, 1)]), 1)
    jobs.advance(900)
    assert jobs.length == 0
    jobs.set_pods(PodColumns([]))
    jobs.advance(1004)
    assert (jobs.length, jobs.age) == pytest.approx((4, 4))


def test_a_queue_drains_when_there_is_more_capacity_than_load() -> None:
    """600 wait, 40/s out, 30/s in: 60 s."""
    jobs = queue(constant(30), 4, backlog=600)
    assert jobs.drain == pytest.approx(60)
    assert jobs.empty_at() == pytest.approx(60)
    jobs.advance(60)
    assert jobs.length == pytest.approx(0, abs=1e-9)
    jobs.advance(100)
    assert jobs.served == pytest.approx(600 + 3000)
    assert jobs.age == 0


def test_the_end_of_a_spike_is_foreseen() -> None:
    """50/s for 20 s against 30/s: 400 wait; then 10/s: 20/s net, 20 s more."""
    jobs = queue(steps([(0, 50), (20, 10)]), 3)
    jobs.advance(1)
    assert jobs.empty_at() == pytest.approx(40)
    assert queue(constant(50), 3, backlog=5).empty_at() == math.inf


def test_messages_from_before_the_start_count_from_the_start() -> None:
    """Nobody knows when they came."""
    jobs = queue(constant(0), 1, backlog=1000)
    jobs.advance(30)
    assert (jobs.length, jobs.age) == (700, 30)


def test_a_faster_worker_does_more() -> None:
    """One queue for all: who is done fetches the next. A core and a quarter of one: 4 to 1."""
    jobs = queue(constant(100), 2)
    jobs.grant(np.asarray([1.0, 0.25]))
    jobs.advance(10)
    assert jobs.served == pytest.approx(125)
    assert jobs.cpu_seconds == pytest.approx([10, 2.5])


def test_waiting_for_others_bounds_a_worker_by_its_concurrency() -> None:
    """0.1 s of CPU and 0.4 s of waiting, two at once: 4/s, 0.4 cores."""
    jobs = queue(constant(10), 1, wait_per_message=0.4, concurrency=2)
    assert jobs.capacity == pytest.approx(4)
    jobs.advance(5)
    sample = jobs.sample()
    assert sample.limited_by == "threads"
    assert sample.cpu == pytest.approx([0.4])
    assert jobs.cpu_demand() == pytest.approx([0.4])


def test_workers_beyond_the_partitions_are_idle() -> None:
    """Four partitions, ten consumers: 40/s, and six pods without work."""
    jobs = queue(constant(100), 10, ceilings=(Partitions(partitions=4),))
    jobs.advance(10)
    sample = jobs.sample()
    assert (sample.serving, sample.limited_by) == (40, "partitions")
    assert sample.cpu == pytest.approx([1] * 4 + [0] * 6)


def test_a_quota_behind_the_workers_keeps_their_cpu_low() -> None:
    """15/s however many there are: 1.5 cores in all."""
    jobs = queue(constant(100), 10, ceilings=(ApiQuota(rate_limit=15),))
    jobs.advance(10)
    assert jobs.length == 850
    assert jobs.sample().limited_by == "api-quota"
    assert jobs.cpu_demand().sum() == pytest.approx(1.5)


def test_memory_is_that_of_the_messages_in_hand() -> None:
    """One in hand, 50 MB on 200 MB, while there is a queue."""
    jobs = queue(constant(100), 1, memory=200e6, memory_per_message=50e6)
    jobs.advance(1)
    assert jobs.sample().memory == pytest.approx([250e6])


def test_an_idle_queue_costs_idle_cpu_only() -> None:
    """0.02 cores for a minute."""
    jobs = queue(constant(0), 1, idle_cpu=0.02)
    jobs.advance(60)
    assert jobs.cpu_seconds == pytest.approx([1.2])
    assert (jobs.age, jobs.drain, jobs.empty_at()) == (0, 0, 60)


def test_age_works_over_days_that_repeat() -> None:
    """Eight hours of 3/s, sixteen of nothing; 1/s out: on the second morning the oldest is of the first afternoon.

    After 24 h, 86,400 were to be done, and as many had come: empty. At 28 h: 43,200 more came, 14,400 done.
    """
    jobs = queue(Repeated(steps([(0, 3), (28_800, 0)]), 86_400), 1, cores=0.1)
    jobs.advance(28 * 3600)
    assert jobs.length == pytest.approx(28_800)
    assert jobs.age == pytest.approx(4 * 3600 - 14_400 / 3)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.integers(1, 25),
    st.integers(0, 40),
    st.lists(st.floats(0, 60), max_size=8),
)
@settings(max_examples=60)
def test_the_queue_equals_one_of_single_small_messages(
    levels: list[int], rate: int, backlog: int, reads: list[float]
) -> None:
    """A first-in-first-out queue in 40,000 steps: length and age of its head. Reading in between changes nothing."""
    load = ramp([(60.0 * i / len(levels), float(v)) for i, v in enumerate(levels)])
    jobs = queue(load, 1, cores=rate / 10, backlog=backlog, concurrency=100)
    for moment in [*sorted(reads), 60.0]:
        jobs.advance(moment)
        assert jobs.age >= 0
    n = 40_000
    dt = 60 / n
    arrived = np.concatenate(([0.0], np.cumsum(load.values((np.arange(n) + 0.5) * dt) * dt)))
    length = float(backlog)
    for more in np.diff(arrived).tolist():
        length = max(0.0, length + more - rate * dt)
    assert jobs.length == pytest.approx(length, abs=0.05)
    assert jobs.arrived == pytest.approx(jobs.served + jobs.length, abs=1e-6)
    if length > 1:
        head = arrived[-1] - length
        came = 0.0 if head <= 0 else float(np.searchsorted(arrived, head)) * dt
        slowest = min((v for v in load.values(np.linspace(0, 60, 200)) if v > 0), default=1.0)
        assert jobs.age == pytest.approx(60 - came, abs=0.1 / slowest + 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency: 0: must be a whole number of at least 1"),
        ({"wait_per_message": -2}, "waitPerMessage: -2: must be a number of at least 0"),
    ],
)
def test_costs_without_sense_are_refused(options: dict[str, float], message: str) -> None:
    """By field."""
    with pytest.raises(FieldError) as caught:
        WorkerModel(**{"cpu_per_message": 0.1, **options})  # type: ignore[arg-type]
    assert str(caught.value) == message
