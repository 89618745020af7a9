"""Scenarios that nobody has seen before, run by the real controllers and by ours.

The recorded timelines could be learnt by heart; these cannot. Every run draws a new seed and prints it; with
``STOWPLAN_SEED`` set to it, the same scenarios come again. `make differential` runs more of them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from conformance.differential import program_path, record_controllers
from conformance.run import compare_mode

SEED = int(os.environ.get("STOWPLAN_SEED") or random.SystemRandom().randrange(10_000, 2**31))
COUNTS = {"hpa": 300, "cluster": 20, "workloads": 60}

LEAVES_A_PIPE_OPEN = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
"""The comparer is kept as it was when the answers were recorded; it leaves closing its pipe to the interpreter."""


@pytest.mark.oracle
@LEAVES_A_PIPE_OPEN
@pytest.mark.slow
@pytest.mark.parametrize("mode", list(COUNTS))
def test_fresh_scenarios_run_like_upstream(
    oracle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    """Byte for byte, as nothing in these runs is left to chance."""
    program = program_path(mode)
    assert program.is_file(), f"{program} is not built, though {oracle} is: run `make oracle`"
    with capsys.disabled():  # also in the log of a run that passes
        print(f" {mode}: STOWPLAN_SEED={SEED} ", end="", flush=True)
    path = tmp_path / f"{mode}.jsonl"
    record_controllers(program, mode, SEED, COUNTS[mode], path)
    report = compare_mode(mode, path).report
    assert report.different == [], f"STOWPLAN_SEED={SEED}"
    assert (report.missing, report.unsupported, report.exit_code) == ([], [], 0), f"STOWPLAN_SEED={SEED}"
    assert report.identical == COUNTS[mode]
