"""The metrics server of recorded scenarios: columns give what a look at each pod gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaling.cluster.small_world import make_pod
from stowplan_autoscaling.conformance.cluster_world import PodLife
from stowplan_autoscaling.conformance.meter import Measurement, Meter
from stowplan_autoscaling.demand.points import Usage, UsageSpec
from stowplan_autoscaling.kernel import MILLISECOND, SECOND

USAGE: dict[str, tuple[Usage | None, ...]] = {
    "web": (
        Usage(UsageSpec(demand=((0, 5000), (60, 9000)), idle=10, starting=80)),
        Usage(UsageSpec(per_pod=((0, 7),))),
    ),
    "db": (Usage(UsageSpec(per_pod=((0, 300),), spread=20, pods={"db-2": ((0, 999),)})), None),
}


def life(deployment: str, number: int) -> PodLife:
    """Not running yet."""
    return PodLife({"name": f"{deployment}-{number}"}, deployment, number, make_pod(f"{deployment}-{number}"))


def begin(meter: Meter, one: PodLife, now: int) -> None:
    one.is_running, one.running = True, now
    meter.start(one)


def turn(meter: Meter, one: PodLife, *, ready: bool) -> None:
    one.ready = ready
    meter.note(one)


def by_name(found: Measurement) -> dict[str, tuple[int, int]]:
    """CPU and memory."""
    names = [one.log["name"] for one in found.pods]
    return dict(zip(names, zip(found.cpu.tolist(), found.memory.tolist(), strict=True), strict=True))


def test_pods_that_run_are_measured_and_ready_ones_share_the_demand() -> None:
    """5000 by two ready pods are 2500 on top of 10; a third that only runs uses 80; a fourth is not there yet."""
    meter = Meter(USAGE)
    lives = [life("web", number) for number in (1, 2, 3, 4)]
    for one in lives:
        meter.add(one)
    for one in lives[:3]:
        begin(meter, one, SECOND)
    for one in lives[:2]:
        turn(meter, one, ready=True)
    assert by_name(meter.measure(10 * SECOND, 0, 10.0)) == {"web-1": (2510, 7), "web-2": (2510, 7), "web-3": (80, 7)}


def test_a_pod_is_measured_when_it_has_run_for_the_warm_up() -> None:
    """Exactly so long is enough; the time of a sample has whole seconds, half a millisecond rounds up."""
    meter = Meter(USAGE)
    one = life("db", 1)
    meter.add(one)
    begin(meter, one, 10 * SECOND)
    assert by_name(meter.measure(15 * SECOND - 1, 5 * SECOND, 15.0)) == {}
    assert list(by_name(meter.measure(15 * SECOND, 5 * SECOND, 15.0))) == ["db-1"]
    assert meter.measure(15 * SECOND - MILLISECOND // 2, 0, 15.0).time == 15 * SECOND
    assert meter.measure(15 * SECOND - MILLISECOND, 0, 15.0).time == 14 * SECOND


def test_a_pod_of_a_lost_node_is_counted_but_not_measured() -> None:
    """It stays ready until somebody says otherwise, so the others get their old share; being deleted does not bring its
    samples back.
    """
    meter = Meter(USAGE)
    lives = [life("web", number) for number in (1, 2)]
    for one in lives:
        meter.add(one)
        begin(meter, one, 0)
        turn(meter, one, ready=True)
    meter.lose(lives[0])
    assert by_name(meter.measure(10 * SECOND, 0, 10.0)) == {"web-2": (2510, 7)}
    turn(meter, lives[0], ready=False)
    assert by_name(meter.measure(20 * SECOND, 0, 20.0)) == {"web-2": (5010, 7)}


def test_a_slot_is_given_on() -> None:
    """The next pod in it begins as one that does not run. Number 2 uses 113 percent of its 999."""
    meter = Meter(USAGE)
    first, second = life("web", 1), life("db", 2)
    meter.add(first)
    begin(meter, first, 0)
    turn(meter, first, ready=True)
    meter.measure(SECOND, 0, 1.0)
    slot = first.slot
    meter.remove(first)
    meter.add(second)
    assert (second.slot, by_name(meter.measure(SECOND, 0, 1.0))) == (slot, {})
    begin(meter, second, 0)
    assert by_name(meter.measure(SECOND, 0, 1.0)) == {"db-2": (1128, 0)}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "start", "start", "ready", "unready", "lose", "remove"]), st.integers(0, 99)
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(STEPS, st.integers(0, 3))
def test_columns_measure_what_a_look_at_each_pod_finds(steps: list[tuple[str, int]], warmup: int) -> None:
    """After every step of a random history of up to three deployments, one of which nobody has a load for."""
    meter = Meter(USAGE)
    lives: list[PodLife] = []
    made = 0
    measured: set[int] = set()
    for moment, (what, number) in enumerate(steps):
        now = moment * SECOND
        if what == "add":
            made += 1
            lives.append(life(("web", "db", "idle")[number % 3], made))
            meter.add(lives[-1])
        elif lives:
            one = lives[number % len(lives)]
            if what == "start" and not one.is_running:
                begin(meter, one, now)
                measured.add(one.index)
            elif what in {"ready", "unready"} and one.is_running:
                turn(meter, one, ready=what == "ready")
            elif what == "lose":
                meter.lose(one)
                measured.discard(one.index)
            elif what == "remove":
                meter.remove(one)
                lives.remove(one)
        t = float(moment)
        expected: dict[str, Any] = {}
        for one in lives:
            if one.index in measured and now - one.running >= warmup * SECOND:
                count = sum(other.ready for other in lives if other.deployment == one.deployment)
                usages = USAGE.get(one.deployment, (None, None))
                expected[one.log["name"]] = tuple(
                    0 if usage is None else usage.of(one.log["name"], one.index, one.ready, count, t)
                    for usage in usages
                )
        assert by_name(meter.measure(now, warmup * SECOND, t)) == expected


def test_room_grows_with_the_pods() -> None:
    """More than the first 256 slots."""
    meter = Meter(USAGE)
    lives = [life("web", number) for number in range(600)]
    for one in lives:
        meter.add(one)
        begin(meter, one, 0)
        turn(meter, one, ready=True)
    found = meter.measure(SECOND, 0, 1.0)
    assert (len(found.pods), set(found.cpu.tolist())) == (600, {5000 // 600 + 10})


def test_rows_of_the_autoscalers_follow_the_pods() -> None:
    """A pod that is gone by the time of publication has none, whoever has its slot now."""
    meter = Meter(USAGE)
    lives = [life("web", number) for number in (1, 2, 3)]
    for one in lives:
        meter.add(one)
        begin(meter, one, 0)
    meter.note_row(lives[0], 7)
    meter.note_row(lives[2], 9)
    found = meter.measure(SECOND, 0, 1.0)
    assert meter.rows_of(found.pods).tolist() == [7, -1, 9]
    meter.remove(lives[0])
    meter.remove(lives[2])
    meter.note_row(lives[2], 11)
    other = life("web", 4)
    meter.add(other)
    meter.note_row(other, 13)
    assert meter.rows_of(found.pods).tolist() == [-1, -1, -1]
    assert meter.rows_of([]).tolist() == []
