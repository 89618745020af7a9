"""rate() of Prometheus: the per-second increase of a counter over a window, extended to the window's ends.

Follows extrapolatedRate in promql/functions.go of Prometheus v3 (windows open on the left).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stowplan_autoscaling.kernel import SECOND


def rate(times: Sequence[int], values: Sequence[float], end: int, window: int) -> float | None:
    """Increase per second of a counter in (end - window, end]; None with fewer than two samples.

    `times` (nanoseconds, increasing) and `values` are the samples inside the window. A value below the one before is
    a counter that began at zero again.
    """
    if len(times) < 2:
        return None
    resets = sum(before for before, after in pairwise(values) if after < before)
    increase = values[-1] - values[0] + resets
    to_start, to_end = (times[0] - (end - window)) / SECOND, (end - times[-1]) / SECOND
    sampled = (times[-1] - times[0]) / SECOND
    between = sampled / (len(times) - 1)
    near = between * 1.1
    if to_start >= near:
        to_start = between / 2
    if increase > 0 and values[0] >= 0:
        # A counter does not reach back beyond its zero.
        to_start = min(to_start, sampled * (values[0] / increase))
    if to_end >= near:
        to_end = between / 2
    return increase * ((sampled + to_start + to_end) / sampled) / (window / SECOND)
