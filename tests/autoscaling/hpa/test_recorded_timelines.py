"""Timelines of the real controller, sync by sync."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.conformance.hpa import run_hpa


def empty(value: Any) -> bool:
    """What Go's JSON leaves out."""
    return value is None or value in ("", [], {})


def differences(expected: Any, got: Any, path: str = "") -> list[str]:
    """Paths at which two answers differ, absent and empty values being the same."""
    if isinstance(expected, dict) and isinstance(got, dict):
        keys = [*expected, *(key for key in got if key not in expected)]
        return [d for key in keys for d in differences(expected.get(key), got.get(key), f"{path}.{key}")]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [d for index, (one, other) in pairs for d in differences(one, other, f"{path}[{index}]")]
    return [] if expected == got or (empty(expected) and empty(got)) else [f"{path}: {expected!r} != {got!r}"]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "count"), [("vectors", 70), ("hpa", 90)])
def test_our_timelines_are_those_of_the_real_controller(shared_dir: Path, name: str, count: int) -> None:
    """Every number, reason, event, condition and error text; the rest of the recorded ones is compared in the suite."""
    with gzip.open(shared_dir / f"conformance/hpa/{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        recorded = [json.loads(line) for line in itertools.islice(lines, count)]
    assert len(recorded) == count
    wrong = {
        one["scenario"]["id"]: found
        for one in recorded
        if (found := differences(one["expected"], run_hpa(one["scenario"])))
    }
    assert wrong == {}


def test_the_command_line_answers_line_by_line() -> None:
    """An autoscaler that the API server refuses is an answer, too."""
    scenario = {
        "id": "one",
        "hpa": {"metadata": {"name": "web"}, "spec": {"maxReplicas": 0}},
        "target": {"kind": "Deployment", "name": "web", "replicas": 1},
        "until": 10,
    }
    command = [sys.executable, "-m", "stowplan_autoscaling.conformance"]
    text = f"{json.dumps(scenario)}\n\n"
    output = subprocess.run([*command, "hpa"], input=text, check=True, capture_output=True, text=True).stdout
    answers = [json.loads(line) for line in output.splitlines()]
    assert [answer["id"] for answer in answers] == ["one"]
    assert "spec.maxReplicas: Required value" in answers[0]["invalid"]
    wrong = subprocess.run([*command, "nothing"], check=False, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: ")
