"""Python's collector of reference cycles, set for programs that hold many objects.

The scheduler core makes no reference cycles (tests/scheduler/test_no_cycles.py holds it to that), and its objects live
long. The collector walks all of them again and again and finds nothing: a third of the time of a run in which every pod
is of another shape. It stays on, for what libraries leave behind, but passes are rare.
"""

from __future__ import annotations

import gc

THRESHOLDS = (50_000, 50, 100)
"""Allocations before a young pass, young passes before a middle one, those before a full one. Python: 700, 10, 10."""


def relax_collector() -> None:
    """Take what is there out of the collector's sight, and make its passes rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
