"""The recent past of models that only know the present."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.metrics import UsageHistory


class Noted:
    """A history, and the columns of the one who fills it: pods get rows as they are named."""

    def __init__(self, keep: int = MINUTE) -> None:
        self.history = UsageHistory(keep)
        self.used, self.size = np.zeros(64), np.zeros(64)
        self.rows: dict[str, int] = {}

    def note(self, seconds: float, load: str = "web", **pods: tuple[float, float]) -> None:
        """A look at a load: core seconds and bytes of its pods."""
        self.put(load, **pods)
        self.history.note(np.array([self.history.load(load)]), int(seconds * SECOND), self.used, self.size)

    def put(self, load: str, **pods: tuple[float, float]) -> None:
        """What pods have used by now."""
        for uid, (used, size) in pods.items():
            if uid not in self.rows:
                free = next(row for row in range(1, 64) if row not in self.rows.values())
                self.rows[uid] = free
                self.history.assign(free, self.history.load(load), uid)
            self.used[self.rows[uid]], self.size[self.rows[uid]] = used, size

    def gone(self, uid: str) -> None:
        """Its row is used again."""
        self.history.release(uid)
        del self.rows[uid]

    def cpu(self, uid: str, a: float, b: float) -> float:
        """Core seconds between two moments."""
        at = np.array([int(a * SECOND)]), np.array([int(b * SECOND)])
        return float(self.history.use_of(self.history.handles([uid]), *at)[0][0])

    def memory(self, uid: str, t: float) -> int:
        """Bytes at a moment."""
        at = np.array([int(t * SECOND)])
        return int(self.history.use_of(self.history.handles([uid]), at, at)[1][0])


def test_between_looks_cpu_time_grows_in_a_straight_line() -> None:
    """0, 4 and 5 core seconds at 0, 10 and 20 s: from 5 to 15 s that is 2 + 0.5."""
    history = Noted()
    for seconds, used in ((0, 0), (10, 4), (20, 5)):
        history.note(seconds, a=(used, 1))
    assert history.cpu("a", 5, 15) == pytest.approx(2.5)
    assert history.cpu("a", 0, 20) == 5


def test_outside_of_the_looks_nothing_is_used() -> None:
    """Before the first and after the last; unknown pods neither."""
    history = Noted()
    history.note(10, a=(2, 1))
    assert history.cpu("a", 0, 30) == 0
    history.note(20, a=(7, 1))
    assert history.cpu("a", 0, 30) == 5
    assert history.cpu("nobody", 0, 30) == 0
    assert history.memory("nobody", 5) == 0


def test_memory_is_that_of_the_look_before() -> None:
    """A pod that was not there at that look has the memory of the look after."""
    history = Noted()
    history.note(0, a=(0, 100))
    history.note(10, a=(0, 200), b=(0, 70))
    assert [history.memory("a", t) for t in (9.9, 10, 99)] == [100, 200, 200]
    assert history.memory("b", 9) == 70


def test_a_pod_that_is_gone_keeps_what_it_used() -> None:
    """It may still be asked about."""
    history = Noted()
    history.note(0, a=(0, 1), b=(0, 1))
    history.note(10, a=(1, 1), b=(2, 1))
    history.note(20, a=(2, 1))
    assert history.cpu("b", 0, 20) == 2
    assert history.cpu("a", 0, 20) == 2


def test_looks_in_quick_succession_are_thinned_out() -> None:
    """A thousand looks in 10 s leave about ten; the last one is there."""
    history = Noted()
    for step in range(1001):
        history.note(step / 100, a=(step / 100, 1))
    assert history.cpu("a", 0, 10) == 10
    assert history.history._count[0] <= 12


def test_what_is_too_old_is_forgotten() -> None:
    """An hour of looks every 5 s, of pods that live a minute each: room for a minute of looks."""
    history = Noted()
    for step in range(720):
        if step % 12 == 0 and step:
            history.gone(f"p{step // 12 - 1}")
        pods = {f"p{step // 12}": (step / 12, 1.0), "stays": (5.0 * step, 1.0)}
        history.note(step * 5, "web", **pods)
    assert history.history._times.shape == (1, 16)
    assert history.history._cpu.shape == (16, 64)
    assert history.cpu("stays", 3540, 3595) == pytest.approx(55)
    assert history.cpu("p0", 0, 60) == 0


def test_looks_do_not_go_back() -> None:
    """The model runs forward."""
    history = Noted()
    history.note(10, a=(1, 1))
    with pytest.raises(ValueError, match="cannot go back from 10000000000 to 9000000000"):
        history.note(9, a=(1, 1))


@given(
    rates=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 8)), min_size=1, max_size=30),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_the_integral_of_use_that_is_constant_between_looks_is_exact(
    rates: list[tuple[int, int]], ends: tuple[float, float]
) -> None:
    """Looks 1 to 20 s apart with 0 to 8 cores in between; two loads do not disturb each other."""
    history = Noted(10 * MINUTE)
    time, used = 0, 0.0
    steps = [(0, 0.0)]
    history.note(0, a=(0, 1))
    for wait, cores in rates:
        time, used = time + wait, used + wait * cores
        history.note(time, a=(used, 1))
        history.note(time, load="other", z=(3 * used, 1))
        steps.append((time, used))
    a, b = sorted(end * time for end in ends)
    curve = np.array(steps)
    expected = np.interp(np.array([a, b]), curve[:, 0], curve[:, 1])
    assert history.cpu("a", a, b) == pytest.approx(expected[1] - expected[0], abs=1e-6)


def test_a_question_about_no_pods_has_an_empty_answer() -> None:
    """A round of metrics-server before anything runs."""
    nothing = np.zeros(0, np.int64)
    used, size = UsageHistory(MINUTE).use_of(nothing, nothing, nothing)
    assert used.size == size.size == 0


def test_a_pod_that_comes_back_kept_what_it_used_meanwhile() -> None:
    """Named at 0, 10, 40 and 50 s with 0, 2, 3 and 8 core seconds; "b" is always there."""
    history = Noted()
    for step, used in enumerate((0, 2, None, None, 3, 8)):
        a = {} if used is None else {"a": (float(used), 1.0)}
        history.note(10 * step, "web", b=(step, 1.0), **a)
    assert history.cpu("a", 0, 30) == 2
    assert history.cpu("a", 30, 50) == 6


def test_looks_at_several_loads_are_noted_at_once() -> None:
    """Two loads with two and one pods; the second is looked at every other time."""
    history = Noted()
    history.put("web", a=(0, 0), b=(0, 0))
    history.put("api", c=(0, 0))
    for step in range(5):
        history.put("web", a=(step, step), b=(2 * step, 2 * step))
        if step % 2 == 0:
            history.put("api", c=(3 * step, 3 * step))
        history.history.note(np.arange(2 - step % 2), 10 * step * SECOND, history.used, history.size)
    assert [history.cpu(uid, 0, 25) for uid in "abc"] == [2.5, 5.0, 7.5]
    assert [history.memory(uid, 35) for uid in "abc"] == [3, 6, 6]


def test_a_load_that_is_not_looked_at_any_more_takes_no_room() -> None:
    """One look at one load, then an hour of looks at another: what the first one used is still known."""
    history = Noted()
    history.note(0, "web", a=(3, 1))
    history.note(10, "web", a=(5, 1))
    for step in range(3, 720):
        history.note(5 * step, "api", b=(step, 1))
    assert history.history._uses.tolist().count(0) > 0
    assert len(history.history._uses) == 16
    assert history.cpu("a", 0, 3600) == 0
    assert history.memory("a", 3600) == 1
    history.note(3600, "web", a=(9, 1))
    assert history.cpu("a", 20, 3600) == pytest.approx(4 * 3580 / 3590)


def test_a_row_that_is_used_again_starts_without_a_past() -> None:
    """The new pod has used nothing before its first look, whatever the old one did there."""
    history = Noted()
    history.note(0, a=(0, 5), z=(0, 1))
    history.note(10, a=(7, 5), z=(1, 1))
    history.gone("a")
    history.note(20, b=(1, 6), z=(2, 1))
    assert history.cpu("b", 0, 20) == 1
    assert history.memory("b", 15) == 6
    assert history.cpu("a", 0, 20) == 0


def test_a_pod_that_moves_takes_its_past_along() -> None:
    """From row 1 to row 9, as a container that starts again does."""
    history = Noted()
    history.note(0, a=(0, 1))
    history.note(10, a=(4, 1))
    history.history.assign(9, 0, "a")
    history.rows["a"] = 9
    history.note(20, a=(6, 1))
    assert history.cpu("a", 0, 20) == 6
