"""The recorded timelines of the real controllers: ours are the same, and so are those of the carried Go program."""

from __future__ import annotations

import gzip
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.differential import ASKED_AGAIN, program_path
from conformance.run import SHARED_ONLY, SUPPLY_MODES, compare_mode, golden_path

LEAVES_A_PIPE_OPEN = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
"""The comparer is kept as it was when the answers were recorded; it leaves closing its pipe to the interpreter."""

FILES = [(mode, name) for mode, names in SHARED_ONLY.items() if mode not in SUPPLY_MODES for name in names]
SCENARIOS = {"hpa/hpa.jsonl.gz": 1500, "hpa/vectors.jsonl.gz": 70, "cluster/cluster.jsonl.gz": 60}
SAMPLE = {"hpa": 40, "cluster": 3, "workloads": 12}


@pytest.fixture(scope="session")
def controllers(oracle: Path) -> Path:
    """The program that runs the real controllers; built together with the real scheduler, so never absent alone."""
    program = program_path("hpa")
    assert program.is_file(), f"{program} is not built, though {oracle} is: run `make oracle`"
    return program


def recorded(path: Path, count: int) -> list[dict[str, Any]]:
    """The first recorded lines of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, count)]


def generated(repository: Path, mode: str, count: int) -> list[dict[str, Any]]:
    """Scenarios of seed 1, with which the recorded ones were made."""
    script = repository / f"tests/conformance/controllers/gen_{mode}.py"
    command = [sys.executable, str(script), "--seed", "1", "--count", str(count)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def answers(program: Path, mode: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = "".join(json.dumps(line["scenario"]) + "\n" for line in lines)
    output = subprocess.run([str(program), mode], input=text, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def otherwise(program: Path, mode: str, lines: list[dict[str, Any]]) -> list[str]:
    """The scenarios that the program never answers as recorded, asked again as often as fresh ones are.

    About one answer of a thousand depends on which goroutine was quicker.
    """
    for _ in range(1 + ASKED_AGAIN):
        found = answers(program, mode, lines) if lines else []
        lines = [line for line, answer in zip(lines, found, strict=True) if answer != line["expected"]]
    return [line["scenario"]["id"] for line in lines]


@pytest.mark.shared
@LEAVES_A_PIPE_OPEN
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "name"), FILES)
def test_our_timelines_are_the_recorded_ones(shared_dir: Path, mode: str, name: str) -> None:
    """Every proposal, condition, event, pod and second is the real controllers'."""
    comparison = compare_mode(mode, shared_dir / "conformance" / name)
    report = comparison.report
    assert report.different == []
    assert (report.missing, report.noise, report.unsupported, report.exit_code) == ([], [], [], 0)
    assert report.identical == SCENARIOS[name]


@LEAVES_A_PIPE_OPEN
@pytest.mark.slow
def test_our_timelines_of_other_workloads_are_the_recorded_ones() -> None:
    """Jobs, stateful sets, daemon sets and what else the carried program runs beside deployments."""
    report = compare_mode("workloads", golden_path("workloads", shared=None)).report
    assert report.different == []
    assert (report.missing, report.noise, report.unsupported, report.exit_code) == ([], [], [], 0)
    assert report.identical == report.total > 0


@pytest.mark.shared
@pytest.mark.parametrize("mode", ["hpa", "cluster"])
def test_the_generator_still_makes_the_recorded_scenarios(repository: Path, shared_dir: Path, mode: str) -> None:
    """Otherwise fresh scenarios would no longer be of the kind that the recorded ones stand for."""
    lines = recorded(shared_dir / "conformance" / SHARED_ONLY[mode][0], SAMPLE[mode])
    assert generated(repository, mode, SAMPLE[mode]) == [line["scenario"] for line in lines]


def test_the_generator_still_makes_the_recorded_scenarios_of_other_workloads(repository: Path) -> None:
    """The same for those that are carried."""
    lines = recorded(golden_path("workloads", shared=None), SAMPLE["workloads"])
    assert generated(repository, "workloads", SAMPLE["workloads"]) == [line["scenario"] for line in lines]


@pytest.mark.shared
@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["hpa", "cluster"])
def test_the_carried_program_gives_the_recorded_timelines(shared_dir: Path, controllers: Path, mode: str) -> None:
    """It has learnt more controllers since the timelines were recorded; what it does with these must not change."""
    lines = recorded(shared_dir / "conformance" / SHARED_ONLY[mode][0], SAMPLE[mode])
    assert otherwise(controllers, mode, lines) == []


@pytest.mark.oracle
def test_the_carried_program_gives_the_recorded_timelines_of_other_workloads(controllers: Path) -> None:
    """A build with other dependencies, or a change of the Go program, must not judge by other answers."""
    lines = recorded(golden_path("workloads", shared=None), SAMPLE["workloads"])
    assert otherwise(controllers, "cluster", lines) == []
