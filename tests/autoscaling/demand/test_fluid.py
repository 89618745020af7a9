"""Backlogs as fluid: by hand, and against thousands of small steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.demand.fluid import Flow, flow


def one(
    *,
    backlog: float = 0,
    arrival: float = 0,
    slope: float = 0,
    service: float = 0,
    limit: float = np.inf,
    seconds: float = 10,
) -> Flow:
    columns = np.asarray([[backlog], [arrival], [slope], [service], [limit]], dtype=float)
    return flow(columns[0], columns[1], columns[2], columns[3], columns[4], seconds)


def test_a_backlog_grows_by_what_arrives_too_much() -> None:
    """10/s in, 6/s out, 10 s: 40 wait."""
    part = one(arrival=10, service=6)
    assert (part.backlog[0], part.arrived[0], part.served[0], part.dropped[0]) == (40, 100, 60, 0)


def test_a_backlog_that_is_worked_off_stays_at_zero() -> None:
    """20 wait, 4/s net out: empty after 5 s, then only what arrives is served."""
    part = one(backlog=20, arrival=6, service=10)
    assert (part.backlog[0], part.served[0]) == (0, 80)


def test_beyond_its_limit_a_backlog_drops() -> None:
    """4/s too much against room for 15: 25 are dropped."""
    part = one(arrival=10, service=6, limit=15)
    assert (part.backlog[0], part.dropped[0], part.served[0]) == (15, 25, 60)


def test_a_load_that_rises_past_the_capacity_waits_only_from_then_on() -> None:
    """From 0 to 20/s in 10 s against 10/s: nothing waits for 5 s, then 5 · 10 / 2 = 25."""
    part = one(slope=2, service=10)
    assert (part.backlog[0], part.served[0]) == (25, 75)


def test_a_load_that_falls_fills_first_and_drains_then() -> None:
    """From 20/s to 0: 25 wait after 5 s, and none at the end: the second half drains as much as the first filled."""
    part = one(arrival=20, slope=-2, service=10)
    assert part.backlog[0] == pytest.approx(0)
    limited = one(arrival=20, slope=-2, service=10, limit=10)
    assert (limited.backlog[0], limited.dropped[0]) == (0, 15)
    assert limited.served[0] == pytest.approx(85)


def test_endless_capacity_serves_all_at_once() -> None:
    """Work that costs nothing."""
    part = one(backlog=5, arrival=3, service=np.inf)
    assert (part.backlog[0], part.served[0]) == (0, 35)


amounts = st.integers(0, 40)


@given(amounts, amounts, amounts, amounts, st.one_of(st.just(np.inf), st.integers(0, 30)), st.integers(1, 8))
@settings(max_examples=150)
def test_one_exact_step_equals_many_small_ones(
    backlog: int, first: int, last: int, service: int, limit: float, seconds: int
) -> None:
    """Midpoint rule with 20,000 steps; at a turn it is off by at most a step's worth."""
    backlog = int(min(backlog, limit))
    slope = (last - first) / seconds
    part = one(backlog=backlog, arrival=first, slope=slope, service=service, limit=limit, seconds=seconds)
    n = 20_000
    dt = seconds / n
    waiting, served, dropped = float(backlog), 0.0, 0.0
    for i in range(n):
        arriving = (first + slope * (i + 0.5) * dt) * dt
        done = min(waiting + arriving, service * dt)
        waiting += arriving - done
        served += done
        over = max(waiting - limit, 0.0)
        waiting -= over
        dropped += over
    assert part.backlog[0] == pytest.approx(waiting, abs=0.05)
    assert part.served[0] == pytest.approx(served, abs=0.05)
    assert part.dropped[0] == pytest.approx(dropped, abs=0.05)
    assert part.arrived[0] == pytest.approx(part.served[0] + part.dropped[0] + part.backlog[0] - backlog)


@given(amounts, amounts, amounts, amounts, st.floats(0.1, 0.9))
@settings(max_examples=100)
def test_two_steps_make_one(backlog: int, first: int, last: int, service: int, share: float) -> None:
    """Where a piece is cut does not matter: metrics may be read at any moment."""
    slope = (last - first) / 10
    whole = one(backlog=backlog, arrival=first, slope=slope, service=service)
    early = one(backlog=backlog, arrival=first, slope=slope, service=service, seconds=10 * share)
    late = one(
        backlog=float(early.backlog[0]),
        arrival=max(first + slope * 10 * share, 0.0),
        slope=slope,
        service=service,
        seconds=10 * (1 - share),
    )
    assert late.backlog[0] == pytest.approx(whole.backlog[0], abs=1e-6)
    assert early.served[0] + late.served[0] == pytest.approx(whole.served[0], abs=1e-6)
