"""The recorded answers, the generator that made their scenarios, and the program that gave them belong together."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.run import compare_mode, golden_path, may_be_left_out

SAMPLE = 12
SUPPORTED = {"evaluate": 890, "run": 230, "config": 37}
"""So many scenarios of each mode have neither volumes nor claims, and must be answered."""

LEAVES_A_PIPE_OPEN = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
"""The comparer is kept as it was when the answers were recorded; it leaves closing its pipe to the interpreter."""


def recorded(repository: Path, mode: str) -> list[dict[str, Any]]:
    """The first recorded lines of a mode."""
    with gzip.open(repository / f"tests/conformance/golden/{mode}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, SAMPLE)]


@pytest.mark.parametrize(("mode", "seed"), [("evaluate", 1001), ("run", 2001)])
def test_the_generator_still_makes_the_recorded_scenarios(repository: Path, mode: str, seed: int) -> None:
    """Otherwise fresh scenarios would no longer be of the kind that the recorded ones stand for."""
    generator = repository / "tests/conformance/gen.py"
    command = [sys.executable, str(generator), mode, "--seed", str(seed), "--count", str(SAMPLE + 2)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    made = {scenario["id"]: scenario for scenario in map(json.loads, output.splitlines())}
    want = [line["scenario"] for line in recorded(repository, mode)]
    assert [made.get(scenario["id"]) for scenario in want] == want


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["evaluate", "run"])
def test_the_real_scheduler_still_gives_the_recorded_answers(repository: Path, oracle: Path, mode: str) -> None:
    """A build with other dependencies, or a change of the Go program, must not judge by other answers."""
    lines = recorded(repository, mode)
    text = "".join(json.dumps(line["scenario"]) + "\n" for line in lines)
    output = subprocess.run([str(oracle), mode], input=text, check=True, capture_output=True, text=True).stdout
    answers = [json.loads(line) for line in output.splitlines()]
    for line, answer in zip(lines, answers, strict=True):
        unstable = {"unstable", *line["expected"].get("unstable", [])}
        want = {name: value for name, value in line["expected"].items() if name not in unstable}
        assert {name: answer.get(name) for name in want} == want


@LEAVES_A_PIPE_OPEN
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["evaluate", "run", "config"])
def test_our_answers_are_the_recorded_ones(mode: str) -> None:
    """The promise of the project: every status, score, message, victim, time and error text is upstream's."""
    comparison = compare_mode(mode, golden_path(mode, shared=None))
    report = comparison.report
    assert report.different == []
    assert (report.missing, report.noise, report.exit_code) == ([], [], 0)
    assert comparison.needless == []
    assert report.identical >= SUPPORTED[mode]
    assert comparison.ok


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, True),
        ({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}, False),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, False),
        ({"resourceClaims": [{"name": "r"}]}, True),
        ({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]}, True),
        ({"initContainers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/c": "1"}}}]}, True),
        ({"containers": [{"resources": {"requests": {"example.com/other": "1"}}}]}, False),
    ],
)
def test_only_volumes_and_devices_excuse_a_missing_answer(spec: dict[str, Any], allowed: bool) -> None:
    """Otherwise an answer that differs could be hidden by declaring it unsupported."""
    classes = [{"metadata": {"name": "c"}, "spec": {"extendedResourceName": "example.com/gpu"}}]
    scenario = {"objects": {"deviceClasses": classes, "pods": [{"spec": {}}]}, "pod": {"spec": spec}}
    assert may_be_left_out(scenario) is allowed
    step = {"kind": "Pod", "op": "create", "object": {"spec": spec}}
    assert may_be_left_out({"objects": {"deviceClasses": classes}, "steps": [step]}) is allowed
