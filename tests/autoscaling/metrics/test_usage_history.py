"""The recent past of models that only know the present."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.metrics import UsageHistory


def cpu(history: UsageHistory, uid: str, a: float, b: float) -> float:
    at = np.array([int(a * SECOND)]), np.array([int(b * SECOND)])
    return float(history.cpu_seconds_of(history.handles([uid]), *at)[0])


def memory(history: UsageHistory, uid: str, t: float) -> int:
    return int(history.memory_of(history.handles([uid]), np.array([int(t * SECOND)]))[0])


def note(history: UsageHistory, seconds: float, load: str = "web", **pods: tuple[float, float]) -> None:
    used, size = np.array([p[0] for p in pods.values()]), np.array([p[1] for p in pods.values()])
    history.record(load, list(pods), int(seconds * SECOND), used, size)


def test_between_looks_cpu_time_grows_in_a_straight_line() -> None:
    """0, 4 and 5 core seconds at 0, 10 and 20 s: from 5 to 15 s that is 2 + 0.5."""
    history = UsageHistory(MINUTE)
    for seconds, used in ((0, 0), (10, 4), (20, 5)):
        note(history, seconds, a=(used, 1))
    assert cpu(history, "a", 5, 15) == pytest.approx(2.5)
    assert cpu(history, "a", 0, 20) == 5


def test_outside_of_the_looks_nothing_is_used() -> None:
    """Before the first and after the last; unknown pods neither."""
    history = UsageHistory(MINUTE)
    note(history, 10, a=(2, 1))
    assert cpu(history, "a", 0, 30) == 0
    note(history, 20, a=(7, 1))
    assert cpu(history, "a", 0, 30) == 5
    assert cpu(history, "nobody", 0, 30) == 0
    assert memory(history, "nobody", 5) == 0


def test_memory_is_that_of_the_look_before() -> None:
    """A pod that was not there at that look has the memory of the look after."""
    history = UsageHistory(MINUTE)
    note(history, 0, a=(0, 100))
    note(history, 10, a=(0, 200), b=(0, 70))
    assert [memory(history, "a", t) for t in (9.9, 10, 99)] == [100, 200, 200]
    assert memory(history, "b", 9) == 70


def test_a_pod_that_is_gone_keeps_what_it_used() -> None:
    """It may still be asked about."""
    history = UsageHistory(MINUTE)
    note(history, 0, a=(0, 1), b=(0, 1))
    note(history, 10, a=(1, 1), b=(2, 1))
    note(history, 20, a=(2, 1))
    assert cpu(history, "b", 0, 20) == 2
    assert cpu(history, "a", 0, 20) == 2


def test_looks_in_quick_succession_are_thinned_out() -> None:
    """A thousand looks in 10 s leave about ten; the last one is there."""
    history = UsageHistory(MINUTE)
    for step in range(1001):
        note(history, step / 100, a=(step / 100, 1))
    assert cpu(history, "a", 0, 10) == 10
    assert history._count[history.load("web")] <= 12


def test_what_is_too_old_is_forgotten() -> None:
    """An hour of looks every 5 s, of pods that live a minute each: room for a minute and the pods of that time."""
    history = UsageHistory(MINUTE)
    for step in range(720):
        pods = {f"p{step // 12}": (step / 12, 1.0), "stays": (5.0 * step, 1.0)}
        history.record("web", list(pods), step * 5 * SECOND, np.array([p[0] for p in pods.values()]), np.ones(2))
    assert history._times.shape == (1, 32)
    assert len(history._rows) < len(history._load) == 64
    assert cpu(history, "stays", 3540, 3595) == pytest.approx(55)


def test_looks_do_not_go_back() -> None:
    """The model runs forward."""
    history = UsageHistory(MINUTE)
    note(history, 10, a=(1, 1))
    with pytest.raises(ValueError, match="cannot go back from 10000000000 to 9000000000"):
        note(history, 9, a=(1, 1))


@given(
    rates=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 8)), min_size=1, max_size=30),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_the_integral_of_use_that_is_constant_between_looks_is_exact(
    rates: list[tuple[int, int]], ends: tuple[float, float]
) -> None:
    """Looks 1 to 20 s apart with 0 to 8 cores in between; two loads do not disturb each other."""
    history = UsageHistory(10 * MINUTE)
    time, used = 0, 0.0
    steps = [(0, 0.0)]
    note(history, 0, a=(0, 1))
    for wait, cores in rates:
        time, used = time + wait, used + wait * cores
        note(history, time, a=(used, 1))
        note(history, time, load="other", z=(3 * used, 1))
        steps.append((time, used))
    a, b = sorted(end * time for end in ends)
    curve = np.array(steps)
    expected = np.interp(np.array([a, b]), curve[:, 0], curve[:, 1])
    assert cpu(history, "a", a, b) == pytest.approx(expected[1] - expected[0], abs=1e-6)


def test_a_question_about_no_pods_has_an_empty_answer() -> None:
    """A round of metrics-server before anything runs."""
    history = UsageHistory(MINUTE)
    nothing = np.zeros(0, np.int64)
    assert history.cpu_seconds_of(nothing, nothing, nothing).size == 0
    assert history.memory_of(nothing, nothing).size == 0


def test_a_pod_that_comes_back_kept_what_it_used_meanwhile() -> None:
    """Named at 0, 10, 40 and 50 s with 0, 2, 3 and 8 core seconds; "b" is always there."""
    history = UsageHistory(MINUTE)
    for step, used in enumerate((0, 2, None, None, 3, 8)):
        a = {} if used is None else {"a": (float(used), 1.0)}
        note(history, 10 * step, "web", b=(step, 1.0), **a)
    assert cpu(history, "a", 0, 30) == 2
    assert cpu(history, "a", 30, 50) == 6


def test_looks_at_several_loads_are_noted_at_once() -> None:
    """Two loads with two and one pods; the second is looked at every other time."""
    history = UsageHistory(MINUTE)
    loads = np.array([history.load("web"), history.load("api")])
    rows = np.array([history.row(0, "a"), history.row(0, "b"), history.row(1, "c")])
    of = np.array([0, 0, 1])
    for step in range(5):
        used, shown = np.array([1.0, 2.0, 3.0]) * step, of <= (step + 1) % 2
        history.record_many(loads[: 2 - step % 2], 10 * step * SECOND, of[shown], rows[shown], used[shown], used[shown])
    assert [cpu(history, uid, 0, 25) for uid in "abc"] == [2.5, 5.0, 7.5]
    assert [memory(history, uid, 35) for uid in "abc"] == [3, 6, 6]


def test_rows_of_pods_that_are_gone_are_used_again() -> None:
    """Handles hold until the epoch changes."""
    history = UsageHistory(MINUTE)
    epoch = history.epoch
    for step in range(100):
        note(history, 10 * step, "web", **{f"p{step}": (1.0, 1.0)})
    assert history.epoch > epoch
    assert history.handles(["p0", "p99"]).tolist() == [-1, history.row(0, "p99")]
