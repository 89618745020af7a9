"""The frame around the commands: quick to start, exit codes, errors of one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from stowplan_operator.cli import cli
from stowplan_operator.cli.application import Application, BadInput, CommandSource, Failure
from stowplan_scheduler import __version__
from support.processes import CLI, environment, python_piped

HEAVY = ("ijson", "msgspec", "numpy", "pydantic", "rich", "yaml")


def stowplan(
    *arguments: str, stdout: Any = subprocess.PIPE, text: bool = True, **variables: str
) -> subprocess.CompletedProcess[Any]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", CLI, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=text,
        timeout=60,
        check=False,
        env=environment(**variables),
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["simulate", "--help"], ["simulate", "-h"], ["nope"]])
def test_nothing_heavy_is_imported_before_a_command_runs(arguments: list[str]) -> None:
    """numpy and pydantic take 0.1 s each: --help must be there at once."""
    code = (
        "import sys, json\nfrom stowplan_operator.cli import cli\n"
        f"try: cli({arguments!r}, prog_name='stowplan')\nexcept SystemExit: pass\n"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment(),
    )
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_version() -> None:
    """Name and version, nothing else, for scripts."""
    result = CliRunner().invoke(cli, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"stowplan {__version__}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands_and_the_exit_codes(flag: str) -> None:
    """What can be done, and what a script may rely on."""
    result = CliRunner().invoke(cli, [flag])
    assert result.exit_code == 0
    assert "simulate" in result.stdout
    assert "Exit codes: 0" in result.stdout


def test_help_of_a_command_has_examples() -> None:
    """They are read first."""
    result = CliRunner().invoke(cli, ["simulate", "-h"])
    assert "kubectl get nodes,pods -A -o json | stowplan simulate -" in result.stdout


USAGE = {
    "unknown command": (["nope"], "No such command 'nope'. (see stowplan --help)"),
    "unknown option": (["simulate", "x", "--frob"], "No such option '--frob'. (see stowplan simulate --help)"),
    "no cluster": (["simulate"], "Missing argument 'CLUSTER...'. (see stowplan simulate --help)"),
    "no such format": (["simulate", "x", "-o", "xml"], "'xml' is not one of 'table', 'json', 'yaml'."),
    "no size": (["simulate", "x", "--max-input", "big"], '"big" is not a size such as 500M or 2Gi'),
    "size of nothing": (["simulate", "x", "--max-input", "100m"], '"100m" is not a size such as 500M or 2Gi'),
    "negative seed": (["simulate", "x", "--seed", "-1"], "-1 is not in the range x>=0."),
}


@pytest.mark.parametrize("case", USAGE)
def test_a_wrong_argument_is_one_line_and_exit_code_2(case: str) -> None:
    """The message says where to read on."""
    arguments, message = USAGE[case]
    result = CliRunner().invoke(cli, arguments, prog_name="stowplan")
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("stowplan: error: ")
    assert message in line


def test_without_arguments_the_help_is_shown() -> None:
    """As most commands do it; it is no success, though."""
    result = CliRunner().invoke(cli, [])
    assert result.exit_code == 2
    assert "Commands:" in result.output


def test_a_command_whose_module_is_not_there_is_not_offered() -> None:
    """A package may be installed without some commands; the others must work."""
    sources = (CommandSource("gone", "stowplan_operator.cli.no_such_module", "never seen"),)
    group = Application("stowplan", commands_from=sources)
    runner = CliRunner()
    assert "gone" not in runner.invoke(group, ["--help"]).output
    result = runner.invoke(group, ["gone"])
    assert (result.exit_code, "No such command 'gone'" in result.stderr) == (2, True)


FAILURES: dict[str, tuple[BaseException, int, str]] = {
    "bad input": (BadInput("a: b", "c"), 2, "stowplan: error: a: b\nstowplan: error: c\n"),
    "failure": (Failure("a\nb\x1b[31m"), 1, "stowplan: error: a\\nb\\x1b[31m\n"),
    "interrupted": (KeyboardInterrupt(), 130, "stowplan: interrupted\n"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures_have_their_exit_codes_and_stay_on_their_lines(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in the input may hold line breaks and control characters: they must not reach the terminal."""
    failure, code, text = FAILURES[case]

    @click.command()
    def fails() -> None:
        raise failure

    group = Application("stowplan")
    monkeypatch.setattr(group, "get_command", lambda ctx, name: fails)
    result = CliRunner().invoke(group, ["fails"])
    assert (result.exit_code, result.stderr.lstrip("\n"), result.stdout) == (code, text, "")


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a person can mend is one line; a fault of the program keeps its traceback."""

    @click.command()
    def breaks() -> None:
        raise ZeroDivisionError

    group = Application("stowplan")
    monkeypatch.setattr(group, "get_command", lambda ctx, name: breaks)
    assert isinstance(CliRunner().invoke(group, ["breaks"]).exception, ZeroDivisionError)


def test_a_reader_that_goes_away_is_no_error_to_speak_of(tmp_path: Path) -> None:
    """`stowplan ... -o json | head -1` must not end with a traceback."""
    rows = "".join(f"n{i},4000,16384,0,\n" for i in range(2000))
    (tmp_path / "nodes.csv").write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{rows}")
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,0,0\n")
    arguments = ["simulate", str(tmp_path / "nodes.csv"), str(tmp_path / "pods.csv"), "--explain", "p", "-o", "json"]
    with python_piped(CLI, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(timeout=60)
    assert (errors, process.returncode) == ("", 0)


def test_a_reader_that_has_gone_before_is_none_either() -> None:
    """The write inside of a command fails then, not the last flush."""
    code = """
import sys
import click
from stowplan_operator.cli.application import Application

@click.command
def talk() -> None:
    for _ in range(100):
        sys.stdout.write("x" * 10_000)

app = Application("app")
app.get_command = lambda ctx, name: talk
sys.stdin.readline()
app.main(["talk"])
"""
    with python_piped(code, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate("go\n", timeout=60)
    assert (errors, process.returncode) == ("", 0)


def test_the_process_ends_with_the_exit_code(tmp_path: Path) -> None:
    """Not only inside of click's runner."""
    done = stowplan("simulate", str(tmp_path / "none.yaml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"stowplan: error: {tmp_path / 'none.yaml'}: no such file or folder\n"


@pytest.mark.parametrize(
    "arguments", [("profile", "lint", "-"), ("profile", "convert", "-"), ("story", "shop/cart", "--log", "-")]
)
def test_a_closed_standard_input_is_told_in_one_line(arguments: tuple[str, ...]) -> None:
    """As in `stowplan profile lint - <&-`: there is no such stream then, not an empty one."""
    code = "import sys; sys.stdin = None; from stowplan_operator.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "stowplan: error: standard input is closed\n"


NODE = "{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: {cpu: 4, pods: 9}}}\n"


@pytest.fixture
def one_node(tmp_path: Path) -> str:
    """A cluster whose node has a name that Latin-1 cannot show."""
    path = tmp_path / "node.yaml"
    path.write_text(NODE % "\u65e5\u672c", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_full_disk_is_told_in_one_line(one_node: str, output: str) -> None:
    """A report that was not written must not look like one that was."""
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = stowplan("simulate", one_node, "-q", "-o", output, stdout=full)
    assert (done.returncode, done.stderr) == (1, "stowplan: error: cannot be written: No space left on device\n")


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "line"),
    [
        ("<&-", "simulate -", 2, "standard input: is not available here"),
        (">&-", "simulate x", 1, "standard output is closed"),
    ],
)
def test_closed_streams_are_told_in_one_line(closed: str, arguments: str, code: int, line: str) -> None:
    """Supervisors start programs like that."""
    program = f"\"$0\" -c 'from stowplan_operator.cli import main; main()' {arguments} {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", program, sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert (done.returncode, done.stderr) == (code, f"stowplan: error: {line}\n")


def test_json_is_utf_8_whatever_the_encoding_of_the_terminal(tmp_path: Path) -> None:
    """Programs read it; a table shows what it can."""
    path = tmp_path / "cluster.yaml"
    spec = "spec: {containers: [{name: c, resources: {requests: {cpu: 8}}}]}"
    labels = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: \u65e5\u672c}, " + spec + "}"
    path.write_text(f"{NODE % 'n1'}---\n{labels}\n", encoding="utf-8")
    done = stowplan("simulate", str(path), "-q", "-o", "json", PYTHONIOENCODING="latin-1", text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode())["configurations"][0]["pending"][0]["pods"] == ["\u65e5\u672c/p"]
    table = stowplan("simulate", str(path), "-q", PYTHONIOENCODING="latin-1", text=False)
    assert (table.returncode, table.stderr) == (0, b"")
