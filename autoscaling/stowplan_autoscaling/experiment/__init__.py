"""Candidates x seeds, with the same luck for each candidate: runs them, and says which one is better at what.

plan = plan_of("simulation.yaml", seeds=5)
report = compare(plan, "results/", LocalExecutor(jobs=2))
"""

from __future__ import annotations

from .assembling import report_of, write_comparison
from .cell import Cell, CellResult
from .comparison import ComparisonReport, read_comparison
from .dask import DaskExecutor
from .executor import Done, Executor, ExecutorError, Listener, WorkerLostError
from .local import LocalExecutor
from .plan import Plan, plan_of
from .running import Failures, claim, compare

__all__ = [
    "Cell",
    "CellResult",
    "ComparisonReport",
    "DaskExecutor",
    "Done",
    "Executor",
    "ExecutorError",
    "Failures",
    "Listener",
    "LocalExecutor",
    "Plan",
    "WorkerLostError",
    "claim",
    "compare",
    "plan_of",
    "read_comparison",
    "report_of",
    "write_comparison",
]
