"""When cAdvisor looks at containers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_autoscaling.metrics import Housekeeping
from stowplan_autoscaling.metrics.housekeeping import NEVER, Rhythm, uniforms

ROW = np.zeros(1, np.int64)


def moments(seed: int, start: int, until: int, rule: Housekeeping, reads: int) -> list[int]:
    """The moments that somebody sees who reads `reads` times between start and until."""
    rhythm = Rhythm.of_size(1)
    rhythm.start(0, seed, start)
    seen: list[int] = []
    for read in np.linspace(start, until, reads, dtype=np.int64):
        rhythm.advance(ROW, np.array([read]), rule)
        seen.append(int(rhythm.moment[0]))
    return seen


def test_the_generator_is_splitmix64() -> None:
    """The first outputs of SplitMix64 for the seed 1234567 are published with its reference code."""
    drawn = uniforms(np.full(3, 1234567, np.uint64), np.arange(3))
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert drawn.tolist() == [(n >> 11) / 2**53 for n in expected]


def test_a_container_is_looked_at_when_it_starts() -> None:
    """cAdvisor's first timer is zero; at the start itself there is nothing to be seen yet."""
    rhythm = Rhythm.of_size(1)
    rhythm.start(0, 7, 3 * SECOND)
    rhythm.advance(ROW, np.array([3 * SECOND]), Housekeeping())
    assert rhythm.moment[0] == NEVER
    rhythm.advance(ROW, np.array([3 * SECOND + MILLISECOND]), Housekeeping())
    assert rhythm.moment[0] == 3 * SECOND + MILLISECOND


def test_without_jitter_the_looks_are_ten_seconds_apart() -> None:
    """Started at 1 s: 1.001, 11.001, 21.001, ... so a read at 45 s sees 41.001 s."""
    assert moments(0, SECOND, 45 * SECOND, Housekeeping(jitter=0), 2)[-1] == 41 * SECOND + MILLISECOND


@given(seed=st.integers(0, 2**53 - 1), reads=st.integers(2, 40))
def test_the_moments_do_not_depend_on_who_reads_when(seed: int, reads: int) -> None:
    """Reading is only looking: often or rarely, the last moment is the same."""
    rule = Housekeeping()
    assert moments(seed, SECOND, 300 * SECOND, rule, reads)[-1] == moments(seed, SECOND, 300 * SECOND, rule, 2)[-1]


@given(seed=st.integers(0, 2**53 - 1))
def test_waits_are_between_ten_and_twenty_seconds(seed: int) -> None:
    """jitter(10 s, 1.0) of cAdvisor, in whole milliseconds."""
    seen = sorted(set(moments(seed, 0, 300 * SECOND, Housekeeping(), 3001)) - {NEVER})
    waits = np.diff(np.array(seen))
    assert waits.min() >= 10 * SECOND
    assert waits.max() < 20 * SECOND
    assert not (waits % MILLISECOND).any()
