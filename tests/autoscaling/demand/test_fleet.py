"""Services of one fleet: what each does is what it does alone, whatever the others do."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.demand import Fleet, PodColumns, Service, ServiceModel, Startup
from stowplan_autoscaling.demand.ceilings import ApiQuota
from stowplan_autoscaling.demand.series import Repeated, Series, constant, pulse, ramp, steps
from stowplan_autoscaling.demand.series.lines import Lines

MODELS = (
    ServiceModel(cpu_per_request=0.01, idle_cpu=0.05, memory=100.0),
    ServiceModel(cpu_per_request=0.02, threads=4, wait_per_request=0.05, memory_per_request=7.0, timeout=5.0),
    ServiceModel(cpu_per_request=0.01, waiting=20, warmup=30, warmup_factor=3, memory_growth=2.0),
    ServiceModel(cpu_per_request=0.01, startup=Startup(seconds=15, cpu=0.7, memory=9.0), timeout=1e9),
)


def loads() -> list[Series]:
    """Straight, bent, jumping and repeated ones."""
    return [
        constant(120),
        ramp([(5, 20), (65, 300)]),
        steps([(0, 50), (20, 400), (35, 0)]),
        Repeated(pulse(5, 10, 200), 40),
    ]


def pods_of(random: Random, number: int, now: float) -> PodColumns:
    """Some of twelve, each with a state of its own."""
    names = sorted(random.sample(range(12), random.randint(0, 12)))
    started = [random.choice([0.0, now, float("nan")]) for _ in names]
    return PodColumns(
        [f"s{number}-{name}" for name in names],
        ready=[random.random() < 0.8 for _ in names],
        started=started,
        ready_since=[random.choice([0.0, now]) for _ in names],
        place=[12 * number + name + 1 for name in names],
    )


def same(one: Service, other: Service) -> None:
    """All that can be seen of both."""
    for name in ("now", "arrived", "served", "dropped", "capacity"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12, abs=1e-9), name
    for name in ("backlog", "cpu_seconds"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12, abs=1e-9), name
    assert one.cpu_demand() == pytest.approx(other.cpu_demand(), rel=1e-12)
    mine, theirs = one.sample(), other.sample()
    assert mine.limited_by == theirs.limited_by
    assert mine.memory == pytest.approx(theirs.memory, rel=1e-12)
    assert mine.response.mean == pytest.approx(theirs.response.mean, rel=1e-12, nan_ok=True)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_services_of_one_fleet_do_what_they_do_alone(seed: int) -> None:
    """Four services, at each step some of them: pods, cores and time change, backlogs form and are lost."""
    random = Random(seed)
    fleet = Fleet()
    together, alone = [], []
    for model, load in zip(MODELS, loads(), strict=True):
        ceilings = [ApiQuota(rate_limit=150)] if random.random() < 0.3 else []
        together.append(Service(model, load, ceilings=ceilings, fleet=fleet))
        alone.append(Service(model, load, ceilings=ceilings))
    now = 0.0
    for _ in range(8):
        now += random.choice([0.0, 1.0, 7.5])
        chosen = sorted(random.sample(range(4), random.randint(1, 4)))
        fleet.advance(fleet.part(chosen), now)
        for number in chosen:
            alone[number].advance(now)
            if random.random() < 0.5:
                pods = pods_of(random, number, now)
                lost = [key for key in pods.keys if random.random() < 0.2]
                for each in (together[number], alone[number]):
                    each.set_pods(pods, lost=lost)
        part = fleet.part(chosen)
        cores = np.zeros(fleet.rows)
        for number in chosen:
            own = np.array([random.choice([0.1, 1.0, 4.0]) for _ in alone[number].pods.keys])
            alone[number].grant(own)
            cores[together[number].own] = own
        fleet.grant(part, cores[part.rows])
        for number in chosen:
            same(together[number], alone[number])


def test_rows_without_a_pod_are_nobodys() -> None:
    """Two pods in a stretch of four rows; `place` is 0 beyond them, and they use and want nothing."""
    fleet = Fleet()
    web = Service(MODELS[0], constant(100), fleet=fleet)
    web.set_pods(PodColumns(["a", "b"], place=[7, 9]))
    part = fleet.all()
    assert fleet.place.tolist() == [7, 9, 0, 0]
    assert fleet.want(part).tolist() == pytest.approx([0.55, 0.55, 0, 0])
    assert fleet.memory(part).tolist() == [100, 100, 0, 0]


def test_a_service_that_outgrows_its_rows_keeps_what_all_have_done() -> None:
    """From two to nine pods: the rows move, the counters do not."""
    fleet = Fleet()
    first, second = (Service(MODELS[0], constant(100), fleet=fleet) for _ in range(2))
    for each in (first, second):
        each.set_pods(PodColumns(["a", "b"]))
        each.grant(np.ones(2))
    fleet.advance(fleet.all(), 10.0)
    first.set_pods(PodColumns(["a", "b", *(f"n{i}" for i in range(7))]))
    assert first.cpu_seconds == pytest.approx([5.5, 5.5, *[0.0] * 7])
    assert second.cpu_seconds == pytest.approx([5.5, 5.5])


def test_series_read_together_are_what_they_are_alone() -> None:
    """At moments that go forward, jumps and bends among them."""
    lines, series = Lines(), loads()
    for each in series:
        lines.add(each)
    numbers = np.arange(len(series))
    for time in (0.0, 4.9, 5.0, 20.0, 34.999, 35.0, 64.0, 65.0, 81.5):
        times = np.full(len(series), time)
        values, slopes, ends = lines.pieces(numbers, times)
        assert values == pytest.approx([each.at(time) for each in series], rel=1e-12)
        assert lines.at(numbers, times).tolist() == values.tolist()
        assert slopes.tolist() == [each.slope(time) for each in series]
        assert ends.tolist() == [each.next_change(time) for each in series]


def test_the_next_change_is_that_of_the_load_that_changes_first() -> None:
    """At 20 and 35 s the one, at 5 and 65 s the other, which comes later; at the moment of a change it is the next."""
    fleet = Fleet()
    Service(MODELS[0], steps([(0, 50), (20, 400), (35, 0)]), fleet=fleet)
    assert fleet.next_change(0) == 20
    Service(MODELS[0], ramp([(5, 20), (65, 300)]), fleet=fleet)
    found = [fleet.next_change(now) for now in (1, 5, 19, 20, 35, 65)]
    assert found == [5, 20, 20, 35, 65, np.inf]
