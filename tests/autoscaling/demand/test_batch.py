"""Batch jobs: as long as planned when alone, longer in proportion to the CPU that they do not get."""

from __future__ import annotations

import math

import pytest

from stowplan_autoscaling.demand.batch import BatchModel, BatchRun
from stowplan_autoscaling.inputs.errors import FieldError


def test_a_run_alone_takes_its_duration() -> None:
    """60 s at 2 cores from t = 10: done at 70 with 120 core seconds."""
    run = BatchRun(BatchModel(duration=60, cpu=2), 10)
    assert (run.wanted, run.finishes_at) == (2, 70)
    run.advance(70)
    assert run.done
    assert run.cpu_seconds == 120
    assert run.wanted == 0


def test_half_the_cpu_takes_twice_as_long_from_then_on() -> None:
    """30 of 60 s at full speed, the other half at half: done at 90; then full speed again from 50 on: 70."""
    run = BatchRun(BatchModel(duration=60, cpu=2), 0)
    run.advance(30)
    run.grant(1)
    assert run.finishes_at == 90
    run.advance(50)
    run.grant(2)
    assert run.finishes_at == 70
    run.advance(70)
    assert run.done
    assert run.cpu_seconds == pytest.approx(120)


def test_waiting_does_not_slow_down_and_costs_nothing() -> None:
    """20 s of waiting, then 40 s of work at half speed."""
    run = BatchRun(BatchModel(duration=60, cpu=1, wait=20), 0)
    run.grant(0.5)
    assert (run.wanted, run.next_change, run.finishes_at) == (0, 20, 100)
    run.advance(20)
    assert (run.wanted, run.next_change) == (1, 100)
    run.advance(100)
    assert run.done
    assert run.cpu_seconds == 40


def test_a_faster_core_needs_a_smaller_share() -> None:
    """Twice as fast: half a core is enough for the planned duration."""
    run = BatchRun(BatchModel(duration=60, cpu=1), 0, speed=2)
    assert run.wanted == 0.5
    run.grant(0.5)
    assert run.finishes_at == 60


def test_without_cpu_it_never_ends() -> None:
    """Unless it needs none."""
    run = BatchRun(BatchModel(duration=60), 0)
    run.grant(0)
    run.advance(1e6)
    assert run.finishes_at == math.inf
    sleeper = BatchRun(BatchModel(duration=60, cpu=0), 0)
    sleeper.grant(0)
    assert sleeper.finishes_at == 60


def test_what_makes_no_sense_is_refused() -> None:
    """By field."""
    with pytest.raises(FieldError, match="duration: 0: must be a number greater than 0"):
        BatchModel(duration=0)
    with pytest.raises(FieldError, match="duration: 5: must be a number of at least 6"):
        BatchModel(duration=5, wait=6)
    with pytest.raises(ValueError, match="cannot go back"):
        BatchRun(BatchModel(duration=5), 10).advance(9)
