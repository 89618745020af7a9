"""Preemption as the real kube-scheduler does it: recorded answers, and fresh ones where its program is at hand."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stowplan_scheduler.conformance.evaluate import evaluate

Line = dict[str, Any]

TAGS = {"preemption", "pdb", "nominated"}
FIELDS = ("postFilter", "message", "fitMessage", "rejectors")
FEATURES = "preemption,pdb,nominated,host-ports,existing-anti-affinity,pod-anti-affinity,pod-affinity,spread-hard"


def differences(lines: Iterable[Line]) -> tuple[int, int, list[str]]:
    """(compared scenarios, those with victims, ids of those that differ)."""
    compared, preempting, different = 0, 0, []
    for line in lines:
        want, got = line["expected"], evaluate(line["scenario"])
        if "unsupported" in got or want["error"] or want["postFilter"] is None:
            continue
        compared += 1
        preempting += bool(want["postFilter"].get("victims"))
        fields = [name for name in FIELDS if name not in want.get("unstable", ())]
        if any(want[name] != got[name] for name in fields):
            different.append(line["scenario"]["id"])
    return compared, preempting, different


def test_recorded_answers(repository: Path) -> None:
    """Victims, node, texts and nomination of every recorded scenario about preemption that is supported."""
    with gzip.open(repository / "tests/conformance/golden/evaluate.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if TAGS & set(line["scenario"]["tags"])]
    compared, preempting, different = differences(lines)
    assert different == []
    # If fewer are compared, something that was decided before is refused now.
    assert (compared >= 100, preempting >= 30) == (True, True), (compared, preempting)


@pytest.mark.oracle
def test_fresh_answers(repository: Path, oracle: Path) -> None:
    """Scenarios that nobody has fitted the code to, with rules about other nodes' pods and host ports mixed in.

    The oracle solves each one several times, so that ties that upstream breaks at random are marked.
    """
    generator = repository / "tests/conformance/gen.py"
    command = [sys.executable, str(generator), "evaluate", "--seed", "77", "--count", "150", "--features", FEATURES]
    scenarios = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    answer = subprocess.run(
        [str(oracle), "evaluate", "-repeat", "4", "-golden"],
        input=scenarios,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    compared, preempting, different = differences(map(json.loads, answer.splitlines()))
    assert different == []
    assert (compared >= 40, preempting >= 10) == (True, True), (compared, preempting)
