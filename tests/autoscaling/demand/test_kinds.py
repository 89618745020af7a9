"""What is worked out once for all pods of a kind is what each pod does by itself, to the last bit."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.demand import Fleet, PodColumns, Service, ServiceModel, Startup
from stowplan_autoscaling.demand.series import Floats, Series, constant, ramp, steps

MODELS = (
    ServiceModel(cpu_per_request=0.01, idle_cpu=0.05, memory=100.0),
    ServiceModel(cpu_per_request=0.02, threads=4, wait_per_request=0.05, memory_per_request=7.0, timeout=5.0),
    ServiceModel(cpu_per_request=0.01, waiting=20, warmup=30, warmup_factor=3, memory_growth=2.0),
    ServiceModel(cpu_per_request=0.01, idle_cpu=0.1, startup=Startup(seconds=15, cpu=0.7, memory=9.0)),
)
LOADS: tuple[Series, ...] = (
    constant(120),
    ramp([(5, 20), (65, 300)]),
    steps([(0, 50), (20, 400), (35, 0)]),
    constant(9),
)
PLACES = 64


class Told:
    """A fleet that is told what nodes leave, pod by pod or in short; `by_row`: it takes no pods together."""

    def __init__(self, *, by_row: bool) -> None:
        self.fleet = Fleet()
        self.by_row = by_row
        self.services = [Service(model, load, fleet=self.fleet) for model, load in zip(MODELS, LOADS, strict=True)]
        self.cores: Floats = np.zeros(PLACES)
        self.fleet.source = lambda places: self.cores[places]

    def set_pods(self, number: int, pods: PodColumns, lost: list[str]) -> None:
        self.services[number].set_pods(pods, lost=lost)
        if self.by_row:
            self.fleet._alike[number] = False

    def want(self, chosen: list[int]) -> Floats:
        """Cores that pods want, by place."""
        part = self.fleet.part(chosen)
        wanted = np.zeros(PLACES)
        wanted[self.fleet.place[part.rows]] = self.fleet.want(part)
        return wanted

    def leave(self, chosen: list[int], cores: Floats, spare: float) -> None:
        part = self.fleet.part(chosen)
        self.fleet.settle(part)
        self.cores = cores
        if self.by_row:
            self.fleet.grant(part, cores[self.fleet.place[part.rows]])
        else:
            self.fleet.leave(part, spare)


def pods_of(random: Random, number: int, now: float) -> PodColumns:
    """Some of twelve, each with a state of its own."""
    names = sorted(random.sample(range(12), random.randint(0, 12)))
    return PodColumns(
        [f"s{number}-{name}" for name in names],
        ready=[random.random() < 0.8 for _ in names],
        started=[random.choice([0.0, 0.0, now, float("nan")]) for _ in names],
        place=np.array([12 * number + name + 1 for name in names], dtype=np.int64),
    )


def seen(told: Told, number: int) -> list[object]:
    """All that can be seen of a service."""
    service = told.services[number]
    sample = service.sample()
    return [
        *(float(getattr(service, name)) for name in ("arrived", "served", "dropped", "capacity", "waiting")),
        *(each.tolist() for each in (service.cpu_seconds, service.backlog, sample.cpu, sample.memory)),
        sample.limited_by,
        repr(service.traffic),
    ]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_pods_taken_together_do_what_each_does_by_itself(seed: int) -> None:
    """Pods, loads and cores change; where nodes have little left, some get less than they want."""
    random = Random(seed)
    together, alone = Told(by_row=False), Told(by_row=True)
    now = 0.0
    for step in range(10):
        now += random.choice([0.0, 0.3, 1.0, 7.5])
        chosen = sorted(random.sample(range(4), random.randint(1, 4)))
        for told in (together, alone):
            told.fleet.advance(told.fleet.part(chosen), now)
        for number in chosen if step else range(4):
            if random.random() < 0.5:
                pods = pods_of(random, number, now)
                lost = [key for key in pods.keys if random.random() < 0.2]
                for told in (together, alone):
                    told.set_pods(number, pods, lost)
        wanted = together.want(chosen)
        assert wanted.tolist() == alone.want(chosen).tolist()
        spare = random.choice([0.0, 0.001, 0.3, 5.0])
        # Others keep what they had.
        cores = together.cores.copy()
        places = np.concatenate([together.fleet.place[together.fleet.own(number)] for number in chosen])
        extra = np.array([random.choice([0.0, 0.2, 4.0]) for _ in places])
        cores[places] = (wanted[places] + spare + extra) * (1.0 if spare else 0.7)
        for told in (together, alone):
            told.leave(chosen, cores, spare)
        if random.random() < 0.5:
            for number in chosen:
                assert seen(together, number) == seen(alone, number)
    for told in (together, alone):
        told.fleet.advance(told.fleet.all(), now + 30)
    for number in range(4):
        assert seen(together, number) == seen(alone, number)


def test_memory_is_asked_for_again_only_where_it_may_be_another() -> None:
    """One service holds what it held; in the other each request takes some."""
    fleet = Fleet()
    still, moving = (Service(model, constant(10), fleet=fleet) for model in MODELS[:2])
    for service in (still, moving):
        service.set_pods(PodColumns(["a", "b"]))
        service.grant(np.ones(2))
    assert fleet.moved_memory(fleet.all()).numbers.tolist() == [0, 1]
    fleet.advance(fleet.all(), 10.0)
    assert fleet.moved_memory(fleet.all()).numbers.tolist() == [1]
    still.set_pods(PodColumns(["a", "b", "c"]))
    assert fleet.moved_memory(fleet.all()).numbers.tolist() == [0, 1]


def test_places_are_given_out_where_nobody_else_does() -> None:
    """A pod keeps its place, and what it used; that of one that is gone is a later one's, who begins at 0."""
    fleet = Fleet()
    web = Service(MODELS[0], constant(100), fleet=fleet)
    web.set_pods(PodColumns(["a", "b"]))
    web.grant(np.ones(2))
    fleet.advance(fleet.all(), 10.0)
    first, second = fleet.place[web.own].tolist()
    web.set_pods(PodColumns(["b"]))
    web.set_pods(PodColumns(["b", "c"]))
    assert fleet.place[web.own].tolist() == [second, first]
    assert web.cpu_seconds.tolist() == [5.5, 0.0]
