"""The two points per container, with numbers by hand and against a plain rendering of the same rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.metrics.housekeeping import NEVER
from stowplan_autoscaling.metrics.points import ZERO_TIME, Points, cpu_milli, window_of

RESOLUTION = 15 * SECOND
ROW = np.zeros(1, np.int64)


def points(start: float = 0) -> Points:
    found = Points.of_size(1)
    found.start[0] = start * SECOND
    return found


def store(into: Points, time: float, cpu: float, resolution: int = RESOLUTION) -> None:
    """A point at `time` seconds with `cpu` core seconds since the start."""
    at, used = np.array([int(time * SECOND)]), np.array([round(cpu * SECOND)])
    into.store(ROW, ROW, at, used, np.array([1]), resolution)


def usage(of: Points) -> tuple[int, float] | None:
    """Millicores and window in seconds; None without two points."""
    if of.earlier_time[0] < 0:
        return None
    window = of.time - of.earlier_time
    return int(cpu_milli(of.cpu - of.earlier_cpu, window)[0]), float(window[0]) / SECOND


def test_a_container_of_at_least_ten_seconds_is_measured_from_its_start() -> None:
    """3 core seconds in 12 s are 250 m; younger than the resolution, it gets a zero point at its start."""
    p = points()
    store(p, 12, 3)
    assert usage(p) == (250, 12.0)


@pytest.mark.parametrize("age", [9.999, 15.0])
def test_a_container_that_is_too_young_or_too_old_for_that_waits_for_a_second_point(age: float) -> None:
    """Below 10 s the start is too near; from the resolution on it is not new."""
    p = points()
    store(p, age, 3)
    assert usage(p) is None


def test_the_use_is_the_difference_of_the_last_two_points() -> None:
    """4 s at 0.5 core seconds, 20 s at 8.5: 8 core seconds in 16 s."""
    p = points()
    store(p, 4, 0.5)
    store(p, 20, 8.5)
    assert usage(p) == (500, 16.0)


def test_the_same_point_again_leaves_the_answer_as_it_was() -> None:
    """Housekeeping every 10 to 20 s is slower than scrapes every 15 s: equal time stamps are not a new point."""
    p = points()
    store(p, 4, 0.5)
    store(p, 20, 8.5)
    store(p, 20, 8.5)
    assert usage(p) == (500, 16.0)
    assert p.time[0] == 20 * SECOND


def test_a_container_that_is_not_in_the_batch_starts_over() -> None:
    """Only the batch counts: what was known of the others is dropped."""
    p = points()
    store(p, 4, 0.5)
    store(p, 20, 8.5)
    none = np.zeros(0, np.int64)
    p.store(none, ROW, none, none, none, RESOLUTION)
    assert usage(p) is None
    store(p, 40, 20)
    assert usage(p) is None
    store(p, 52, 23)
    assert usage(p) == (250, 12.0)


def test_a_restarted_container_is_not_compared_with_its_former_life() -> None:
    """Started again at 30 s; at 35 s the point before is older than the start."""
    p = points()
    store(p, 25, 10)
    p.start[0] = 30 * SECOND
    store(p, 35, 1)
    assert usage(p) is None
    store(p, 50, 4)
    assert usage(p) == (200, 15.0)


def test_millicores_are_rounded_up() -> None:
    """0.1 core seconds in 15 s are 6666666 nanocores: 7 m. Exactly 5 m stays 5 m."""
    window = np.array([15 * SECOND, 15 * SECOND, 15 * SECOND])
    assert cpu_milli(np.array([SECOND // 10, 75 * SECOND // 1000, 0]), window).tolist() == [7, 5, 0]


def test_an_empty_point_stands_in_where_another_container_of_the_pod_has_two() -> None:
    """Two containers; the second restarts, and its first point comes twice: metrics-server looks the container up in
    the pod's earlier points, finds Go's zero value, and takes it for a point of the year 1.
    """
    p, both, pods = Points.of_size(2), np.arange(2), np.zeros(2, np.int64)
    memory = np.ones(2, np.int64)
    p.store(both, pods, np.array([12, 12]) * SECOND, np.array([3, 3]) * SECOND, memory, RESOLUTION)
    p.start[1] = 20 * SECOND
    p.store(both, pods, np.array([28, 21]) * SECOND, np.array([7, 1]) * SECOND, memory, RESOLUTION)
    assert p.earlier_time.tolist() == [12 * SECOND, NEVER]
    p.store(both, pods, np.array([44, 21]) * SECOND, np.array([11, 1]) * SECOND, memory, RESOLUTION)
    assert p.earlier_time.tolist() == [28 * SECOND, ZERO_TIME]
    assert window_of(p.time, p.earlier_time).tolist() == [16 * SECOND, 2**63 - 1]
    assert cpu_milli(p.cpu - p.earlier_cpu, window_of(p.time, p.earlier_time)).tolist() == [250, 0]


Point = tuple[int, int]


@dataclass
class Plain:
    """The rules for one pod, written down one by one (podStorage.Store)."""

    starts: dict[int, int]
    last: dict[int, Point] | None = None
    earlier: dict[int, Point] | None = None

    def store(self, batch: dict[int, Point]) -> None:
        if not batch:
            self.last = self.earlier = None
            return
        earlier: dict[int, Point] = {}
        for row, point in batch.items():
            start = self.starts[row]
            if 10 * SECOND <= point[0] - start < RESOLUTION:
                earlier[row] = (start, 0)
            elif self.last is not None and row in self.last and start < self.last[row][0]:
                if point[0] > self.last[row][0]:
                    earlier[row] = self.last[row]
                elif self.earlier is not None:
                    kept = self.earlier.get(row, (ZERO_TIME, 0))
                    if kept[0] < point[0]:
                        earlier[row] = kept
        self.last, self.earlier = batch, earlier or None


PODS = np.array([0, 0, 1])
"""Rows 0 and 1 are one pod's."""


@given(
    rounds=st.lists(
        st.lists(st.one_of(st.none(), st.integers(0, 8), st.just("restart")), min_size=3, max_size=3), max_size=12
    )
)
def test_arrays_and_plain_rules_agree(rounds: list[list[int | str | None]]) -> None:
    """Three containers, each with no point, a point 0 to 40 s later, or a restart in every round."""
    arrays, starts = Points.of_size(3), {0: 0, 1: 0, 2: 0}
    plain = [Plain(starts), Plain(starts)]
    time, cpu = [0, 0, 0], [0, 0, 0]
    for acts in rounds:
        batches: list[dict[int, Point]] = [{}, {}]
        for row, act in enumerate(acts):
            if act is None:
                continue
            if act == "restart":
                starts[row] = time[row] = time[row] + SECOND
                arrays.start[row], cpu[row] = time[row], 0
            else:
                time[row] += int(act) * 5 * SECOND
                cpu[row] += int(act) * SECOND
            batches[PODS[row]][row] = (time[row], cpu[row])
        rows = np.array([row for batch in batches for row in batch], np.int64)
        arrays.store(rows, PODS, np.array(time)[rows], np.array(cpu)[rows], np.zeros_like(rows), RESOLUTION)
        for expected, batch in zip(plain, batches, strict=True):
            expected.store(batch)
        for row in range(3):
            of = plain[PODS[row]]
            assert of.last is None or row not in of.last or of.last[row] == (arrays.time[row], arrays.cpu[row])
            assert bool(arrays.time[row] == NEVER) is (of.last is None or row not in of.last)
            assert bool(arrays.earlier_time[row] == NEVER) is (of.earlier is None or row not in of.earlier)
            if of.earlier is not None and row in of.earlier:
                assert of.earlier[row] == (arrays.earlier_time[row], arrays.earlier_cpu[row])
