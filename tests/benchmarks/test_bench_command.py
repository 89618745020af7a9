"""`stowplan bench scheduler`: what scripts rely on."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from stowplan_operator.bench.workloads import WORKLOADS
from stowplan_operator.cli import cli


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["bench", "scheduler", *args])


def test_it_prints_exactly_one_json_line() -> None:
    """As the real scheduler's benchmark does, keys in order."""
    result = run("--workload", "mix", "--nodes", "20", "--pods", "10", "--initial", "0", "--percent", "100")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("}\n")
    assert result.stdout.count("\n") == 1
    line = json.loads(result.stdout)
    assert list(line) == sorted(line)
    assert (line["workload"], line["nodes"], line["pods"], line["percent"]) == ("mix", 20, 10, 100)
    assert line["placed"] == 10
    assert line["pods_per_s"] > 0


def test_without_the_memo_it_places_the_same() -> None:
    """The option is for judging what the memo is worth; it must not change the work."""
    result = run("--nodes", "10", "--pods", "5", "--initial", "2", "--no-memo")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["placed"] == 5


def test_help_explains_every_workload_and_gives_examples() -> None:
    """The names alone say little."""
    text = run("--help").stdout
    described = {line.split()[0] for line in text.splitlines() if line.startswith("    ") and line.split()}
    assert set(WORKLOADS) <= described
    assert "stowplan bench scheduler --workload anti" in text


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (("--workload", "huge"), "'huge'"),
        (("--nodes", "0"), "--nodes"),
        (("--nodes", "many"), "'many'"),
        (("--pods", "0"), "--pods"),
        (("--pods", "-1"), "--pods"),
        (("--initial", "-1"), "--initial"),
        (("--percent", "101"), "--percent"),
        (("--percent", "half"), "'half'"),
        (("--threads", "2"), "--threads"),
        (("everything",), "everything"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_2(args: tuple[str, ...], names: str) -> None:
    """It names what is wrong, and nothing is on standard output for a script to take for a result."""
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("stowplan: error: ")
    assert names in result.stderr
