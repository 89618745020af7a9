"""The benchmark of whole simulations: its document, its verdicts, and that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.run_rate import SIZES, Measured, Size, measure, simulation
from stowplan_autoscaling.resources.load import parse_simulation

SMALL = Size(services=2, pods=6, cores=(0.5, 1.0), initial=1, period=2, seconds=30)


def test_the_documents_are_valid_and_as_large_as_they_say() -> None:
    """300 services of 100 pods at the peak: 0.5 cores at 60 % are 30 requests of 10 ms a second."""
    small, large = (parse_simulation(simulation(SIZES[name])).spec for name in "ab")
    assert (len(small.demand), len(large.demand)) == (50, 300)
    series = large.demand[0].series
    assert series is not None
    assert series.diurnal is not None
    assert series.diurnal.high == 100 * 30


def test_the_target_shrinks_with_the_hours_and_memory_counts_too() -> None:
    """2 of 24 h: a twelfth of 240 s."""
    size = SIZES["b"]

    def line(seconds: float, memory: float) -> str:
        found = Measured(hours=2, seconds=seconds, memory=memory, bindings=1, attempts=1, syncs=1, pods=1, nodes=1)
        return found.text("b", size)

    assert line(20.0, 2000).endswith("(target 20 s and 2000 MB reached)")
    assert line(20.1, 100).endswith("(target 20 s and 2000 MB missed)")
    assert line(20.0, 2001).endswith("(target 20 s and 2000 MB missed)")


def test_a_small_cluster_runs(tmp_path: Path) -> None:
    """Two services from midnight, when their load is lowest; the HPAs sync every 15 s for six minutes."""
    found = measure(SMALL, 0.1, tmp_path)
    assert found.syncs == pytest.approx(2 * 24, abs=2)
    assert found.pods >= 2 * 2
    assert found.nodes >= 1
    assert found.bindings <= found.attempts
    assert found.seconds > 0
