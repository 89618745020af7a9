"""Scenarios that nobody has seen before, answered by the real kube-scheduler and by ours.

The recorded answers could be learnt by heart; these cannot. ``STOWPLAN_SEED`` chooses other ones; `make differential`
runs more of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from conformance.differential import record
from support.recorded import comparer

SEED = int(os.environ.get("STOWPLAN_SEED") or 20_261)
COUNTS = {"evaluate": 300, "run": 150}
ANSWERED = {"evaluate": 130, "run": 100}
"""At least so many must be left after volumes and devices: a shrunken comparison must not pass unnoticed."""

LEAVES_A_PIPE_OPEN = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
"""The comparer is kept as it was when the answers were recorded; it leaves closing its pipe to the interpreter."""


@pytest.mark.oracle
@LEAVES_A_PIPE_OPEN
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["evaluate", "run"])
def test_fresh_scenarios_are_decided_like_upstream(oracle: Path, tmp_path: Path, mode: str) -> None:
    """What upstream leaves to chance is found by solving it several times, and is not compared."""
    path = tmp_path / f"{mode}.jsonl"
    record(oracle, mode, SEED, COUNTS[mode], None, path)
    command = [sys.executable, "-m", "stowplan_scheduler.conformance", mode]
    report = comparer().check(mode, comparer().load(path, mode), command)
    assert report.different == [], f"seed {SEED}"
    assert report.ok(allow_unsupported=report.total)
    assert report.identical >= ANSWERED[mode]
