"""Scenarios that nobody has seen before, run by the real controllers and by ours.

The recorded timelines could be learnt by heart; these cannot. Every run draws a new seed and prints it; with
``STOWPLAN_SEED`` set to it, the same scenarios come again. `make differential` runs more of them.

The real controllers work in parallel. What they do in virtual time is nearly always the same in every run, but some
preemptions, and autoscalers that share a target, are races. A scenario that we answer otherwise is given to them again:
if they contradict themselves, it proves nothing.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

from conformance.differential import MOST_UNSETTLED, program_path, record_controllers, unsettled
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
    """Byte for byte, but for the few scenarios that upstream itself answers in several ways."""
    program = program_path(mode)
    assert program.is_file(), f"{program} is not built, though {oracle} is: run `make oracle`"
    with capsys.disabled():  # also in the log of a run that passes
        print(f" {mode}: STOWPLAN_SEED={SEED} ", end="", flush=True)
    path = tmp_path / f"{mode}.jsonl"
    record_controllers(program, mode, SEED, COUNTS[mode], path)
    report = compare_mode(mode, path).report
    chance = unsettled(program, mode, path, [name for name, _ in report.different])
    if chance:
        with capsys.disabled():
            print(f"unsettled: {', '.join(chance)} ", end="", flush=True)
    assert [each for each in report.different if each[0] not in chance] == [], f"STOWPLAN_SEED={SEED}"
    assert len(chance) <= MOST_UNSETTLED, f"STOWPLAN_SEED={SEED}"
    assert (report.missing, report.unsupported, report.exit_code) == ([], [], 0), f"STOWPLAN_SEED={SEED}"
    assert report.identical + len(chance) == COUNTS[mode]


FICKLE = """#!{python}
import json, pathlib, sys
for line in sys.stdin:
    name = json.loads(line)["id"]
    asked = pathlib.Path(__file__).with_name(name)
    asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
    print(json.dumps({{"id": name, "answer": name == "fickle" and len(asked.read_text()) == 2}}))
"""


def test_only_a_program_that_contradicts_itself_is_not_believed(tmp_path: Path) -> None:
    """It is asked again for the scenarios in question alone, three times at most, and once is enough."""
    program = tmp_path / "program"
    program.write_text(FICKLE.format(python=sys.executable))
    program.chmod(0o755)
    path = tmp_path / "golden.jsonl"
    names = ("steady", "fickle", "other")
    lines = [{"scenario": {"id": name}, "expected": {"id": name, "answer": False}} for name in names]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert unsettled(program, "cluster", path, ["steady", "fickle"]) == ["fickle"]
    assert (tmp_path / "steady").read_text() == "xxx"
    assert (tmp_path / "fickle").read_text() == "xx"
    assert not (tmp_path / "other").exists()
    assert unsettled(program, "cluster", path, []) == []
