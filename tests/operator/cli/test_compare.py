"""`stowplan compare` from the arguments to the output."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from shutil import copytree
from time import monotonic, sleep
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan_autoscaling.experiment import read_comparison
from stowplan_autoscaling.experiment.comparison import ComparisonReport, Finding
from stowplan_operator.cli import cli
from stowplan_operator.cli.compare_progress import compare_progress
from stowplan_operator.cli.compare_tables import print_comparison
from support.experiments import contents, endless, written
from support.processes import CLI, python_piped
from support.simulations import write


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["compare", *arguments], prog_name="stowplan")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Result]:
    """A simulation, the folder of its comparison, and what the command said."""
    folder = tmp_path_factory.mktemp("compare")
    path = written(folder)
    result = invoke("-f", path, "--results", str(folder / "out"), "--jobs", "2", "--no-report")
    return path, folder / "out", result


@pytest.fixture(scope="module")
def report(done: tuple[str, Path, Result]) -> ComparisonReport:
    """What is in the folder."""
    return read_comparison((done[1] / "comparison.json").read_bytes())


def test_a_comparison_begins_with_its_verdict(done: tuple[str, Path, Result]) -> None:
    """Then come all metrics, curves, and the settings."""
    _, folder, result = done
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "small: 3 candidates, seeds 0 to 1, 00:10:00 each from 2026-01-05T00:00:00Z"
    assert lines[2].startswith(("Keep today", "No difference", "lean is better than today"))
    assert "limit of waiting p95, 5.0 min: kept by today, more, lean" in result.stdout
    assert "+50.0 % worse?" in result.stdout
    assert "cluster.nodeGroups[plain].count" in result.stdout
    assert "today (baseline)" in result.stdout
    assert "visits offered" in result.stdout
    assert "█" in result.stdout
    assert lines[-1] == f"results: {folder}"
    assert "\x1b[" not in result.stdout


def test_each_finished_run_is_told_on_standard_error(done: tuple[str, Path, Result]) -> None:
    """Where nobody looks at a bar."""
    told = done[2].stderr.splitlines()
    assert len(told) == 6
    assert told[-1].endswith("finished, 6 of 6")


def test_the_second_time_nothing_runs_and_the_answer_is_the_same(done: tuple[str, Path, Result]) -> None:
    """To the byte, in a fraction of the time; as JSON and as YAML, too."""
    path, folder, first = done
    before = contents(folder)
    again = invoke("-f", path, "--results", str(folder), "--no-report", "-q")
    assert (again.stdout, again.stderr) == (first.stdout, "")
    as_json = invoke("-f", path, "--results", str(folder), "--no-report", "-q", "-o", "json")
    assert as_json.stdout_bytes == (folder / "comparison.json").read_bytes()
    as_yaml = invoke("-f", path, "--results", str(folder), "--no-report", "-q", "-o", "yaml")
    assert yaml.safe_load(as_yaml.stdout)["verdict"] == json.loads(as_json.stdout)["verdict"]
    assert contents(folder) == before


def test_limits_can_fail_a_pipeline(tmp_path: Path) -> None:
    """With an exit code of its own, and only if it is asked for."""
    goals = [{"metric": "nodes.peak", "limit": 1}]
    path = written(tmp_path, goals=goals, seeds=1, candidates=[{"name": "today"}])
    arguments = ("-f", path, "--results", str(tmp_path / "out"), "--no-report")
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert "No candidate keeps all limits: today has nodes, peak 2 (limit 1)." in result.stdout
    assert invoke(*arguments, "--require-limits").exit_code == 3
    # Nor is it lost on a reader that has seen enough, as in `| head -1`.
    with python_piped(CLI, "compare", *arguments, "--require-limits", "-q") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(timeout=60)
    assert (errors, process.returncode) == ("", 3)


def test_the_folder_is_named_after_the_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is said where it is."""
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, seeds=1, candidates=[{"name": "today"}])
    result = invoke("-f", path, "--no-report")
    assert "stowplan: results go to small-comparison; --results DIR names another folder" in result.stderr
    assert (tmp_path / "small-comparison" / "runs" / "today" / "seed-0" / "summary.json").exists()


def test_seeds_and_time_of_the_command_line_count(tmp_path: Path) -> None:
    """Instead of those of the file."""
    path = written(tmp_path, candidates=[{"name": "today"}])
    result = invoke("-f", path, "--results", str(tmp_path / "out"), "--no-report", "--seeds", "1", "--seed", "9",
                    "--duration", "2m", "-o", "json")  # fmt: skip
    found = json.loads(result.stdout)
    assert (found["seeds"], found["duration"]) == ([9], 120)


def test_a_page_is_written_and_named(done: tuple[str, Path, Result], tmp_path: Path) -> None:
    """Where it was asked for; what cannot be written is an error, and the results stay."""
    path, folder, _ = done
    page = tmp_path / "page.html"
    result = invoke("-f", path, "--results", str(folder), "-q", "--report", str(page))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-2:] == [f"results: {folder}", f"report:  {page}"]
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_noticed_before_anything_runs(tmp_path: Path) -> None:
    """The folder of the results may be a new one."""
    path = written(tmp_path, seeds=1, candidates=[{"name": "today"}])
    out = tmp_path / "out"
    for page, message in ((tmp_path / "no" / "x", f"there is no folder {tmp_path / 'no'}"), (tmp_path, "is a folder")):
        wrong = run_program("-f", path, "--results", str(out), "-q", "--report", str(page), cwd=tmp_path)
        assert wrong.returncode == 2
        assert wrong.stderr.startswith(f"stowplan: error: --report: {page}: ")
        assert wrong.stderr.endswith(f"{message}\n")
        assert wrong.stderr.count("\n") == 1
        assert not out.exists()
    assert invoke("-f", path, "--results", str(out), "-q", "--report", str(out / "page.html")).exit_code == 0


def test_a_table_that_is_damaged_is_run_again_or_named(done: tuple[str, Path, Result], tmp_path: Path) -> None:
    """Garbage is seen at once, a single cell by whoever needs it."""
    path, before, first = done
    folder = tmp_path / "out"
    copytree(before, folder)
    pods = folder / "runs" / "today" / "seed-0" / "pods.csv"
    good = pods.read_text()
    pods.write_text("garbage\n")
    again = invoke("-f", path, "--results", str(folder), "--jobs", "1")
    assert again.exit_code == 0
    assert pods.read_text() == good
    lines = good.splitlines()
    lines[1] = lines[1].replace(",", ",x", 5)
    pods.write_text("\n".join(lines) + "\n")
    wrong = run_program("-f", path, "--results", str(folder), "-q", cwd=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(f"stowplan: error: {pods}: row 1: created: ")
    assert wrong.stderr.count("\n") == 1
    assert first.exit_code == 0


def test_tables_become_parquet(done: tuple[str, Path, Result]) -> None:
    """Those of all runs, and that of the comparison."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'stowplan[parquet]'")
    path, folder, _ = done
    assert invoke("-f", path, "--results", str(folder), "--no-report", "-q", "--parquet").exit_code == 0
    table = parquet.read_table(folder / "comparison.parquet")
    rows = list(csv.DictReader(StringIO((folder / "comparison.csv").read_text())))
    assert table.num_rows == len(rows)
    assert (folder / "runs" / "lean" / "seed-1" / "pods.parquet").exists()
    for path_ in folder.rglob("*.parquet"):
        path_.unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "stowplan: error: Missing option '-f' / '--file'. (see stowplan compare --help)\n"),
        (("-f", "none.yaml"), "stowplan: error: none.yaml: no such file or folder\n"),
        (
            ("--executor", "cluster:1"),
            '--executor: "cluster:1" is no address of a Dask cluster such as dask://host:8786\n',
        ),
        (
            ("--executor", "dask://h:1", "-j", "2"),
            "--jobs is for this machine: with --executor the cluster's workers count",
        ),
        (("--report", "a.html", "--no-report"), "--report and --no-report exclude each other"),
        (("--seeds", "0"), "0 is not in the range 1<=x<=1000"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """With exit code 2."""
    path = written(tmp_path)
    given = arguments if not arguments or "-f" in arguments else ("-f", path, *arguments)
    result = run_program(*given, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_simulation_without_candidates_is_refused(tmp_path: Path) -> None:
    """It says what to write, and what else there is."""
    result = run_program("-f", written(tmp_path, candidates=[]), cwd=tmp_path)
    assert result.returncode == 2
    assert "spec.candidates: there is nothing to compare: name at least one candidate" in result.stderr
    assert not (tmp_path / "small-comparison").exists()


def test_runs_that_fail_are_named_and_the_others_kept(tmp_path: Path) -> None:
    """Exit code 1."""
    candidates = [{"name": "today"}, {"name": "tight", "spec": {"bounds": {"pods": 1}}}]
    path = written(tmp_path, candidates=candidates, seeds=1)
    result = run_program("-f", path, "--results", "out", "--no-report", "-q", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "stowplan: error: tight (seed 0): spec.bounds.pods: more than 1 pods exist\n"
    assert (tmp_path / "out" / "runs" / "today" / "seed-0" / "measures.json").exists()


# ---- signals ---------------------------------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-c", "from stowplan_operator.cli import main; main()", "compare"]


def run_program(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run([*PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def children_of(pid: int) -> list[int]:
    """Processes that another one started and that still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A comparison whose two runs have begun and would take for ever."""
    candidates = [{"name": "today"}, {"name": "more", "spec": {"settle": "1m"}}]
    path = write(tmp_path, endless(hours=2000, candidates=candidates, seeds=1))
    command = [*PROGRAM, "-f", path, "--results", "out", "--no-report", "--jobs", "2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    began = monotonic()
    while len(list(tmp_path.glob("out/runs/*/seed-0/summary.json"))) < 2 and monotonic() - began < 60:
        sleep(0.1)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("name", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_the_message_says_how_to_go_on(
    running: subprocess.Popen[str], tmp_path: Path, name: signal.Signals, code: int
) -> None:
    """Also if it goes to all processes, as from a terminal: only the first one acts on it."""
    os.killpg(running.pid, name)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == code
    assert (
        errors
        == "stowplan: interrupted: 0 of 2 runs are finished and kept in out; the same command goes on from there\n"
    )
    found = read_comparison((tmp_path / "out" / "comparison.json").read_bytes())
    assert [run.stopped for each in found.candidates for run in each.runs] == ["interrupted", "interrupted"]


def test_workers_go_when_the_program_is_gone(running: subprocess.Popen[str]) -> None:
    """Nobody is left behind who computes for nobody."""
    workers = children_of(running.pid)
    assert len(workers) >= 2
    running.kill()
    running.wait()
    began = monotonic()
    while any(Path(f"/proc/{pid}").exists() and _is_alive(pid) for pid in workers) and monotonic() - began < 20:
        sleep(0.1)
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists() and _is_alive(pid)] == []


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_dies_ends_it_with_one_message(running: subprocess.Popen[str]) -> None:
    """With exit code 1; what was running is named."""
    [*_, worker] = sorted(children_of(running.pid))
    os.kill(worker, signal.SIGKILL)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    [line] = errors.splitlines()
    assert line.startswith("stowplan: error: the process that ran ")
    assert line.endswith("finished runs are kept in out, the same command goes on from there")


# ---- tables and progress ---------------------------------------------------------------------------------------------


def shown(report: ComparisonReport) -> str:
    """As a terminal without colours shows it."""
    text = StringIO()
    print_comparison(report, text, "out", "out/report.html")
    return text.getvalue()


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_tables_keep_to_the_width_of_the_terminal(
    report: ComparisonReport, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """With fewer candidates beside each other, and the baseline in each table."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(report).splitlines()
    assert max(len(line) for line in lines) <= columns
    assert sum("today (baseline)" in line for line in lines) == (2 if columns < 112 else 1)


def test_findings_and_the_page_are_named_at_the_end(report: ComparisonReport) -> None:
    """With the seeds they were found in."""
    lean = msgspec.structs.replace(report.candidates[2], findings=(Finding(text="pool a oscillates", seeds=(1,)),))
    text = shown(msgspec.structs.replace(report, candidates=(*report.candidates[:2], lean)))
    assert "lean: pool a oscillates (seed 1)" in text
    assert text.endswith("results: out\nreport:  out/report.html\n")


def test_money_is_shown_with_its_currency(report: ComparisonReport) -> None:
    """Once in each cell."""
    metric = msgspec.structs.replace(report.metrics[0], name="nodeHours", title="cost", unit="EUR")
    text = shown(msgspec.structs.replace(report, metrics=(metric, *report.metrics[1:])))
    assert "EUR 0.33" in text


def test_an_output_without_block_characters_gets_others(report: ComparisonReport) -> None:
    """Rather than question marks."""

    class Plain(StringIO):
        encoding = "ascii"

    text = Plain()
    print_comparison(report, text, "out")
    assert "█" not in text.getvalue()
    assert "@@@" in text.getvalue()


def test_a_bar_shows_all_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard error is a terminal; notes stand above it."""
    from stowplan_autoscaling.experiment import Cell

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with compare_progress(4, quiet=False) as listener:
        listener.progress(Cell(0, "a", 0), 0.5)
        listener.progress(Cell(1, "a", 1), 1.0)
        listener.note("worker w is gone")
    assert "1 of 4 runs" in terminal.getvalue()
    assert "stowplan: worker w is gone" in terminal.getvalue()


def test_quiet_still_tells_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """But no progress."""
    from stowplan_autoscaling.experiment import Cell

    with compare_progress(4, quiet=True) as listener:
        listener.progress(Cell(0, "a", 0), 1.0)
        listener.note("worker w is gone")
    assert capsys.readouterr().err == "stowplan: worker w is gone\n"


def test_one_candidate_can_be_run_alone(tmp_path: Path) -> None:
    """With `simulate`, which otherwise looks at no candidate."""
    path = written(tmp_path)
    arguments: list[Any] = ["simulate", "-f", path, "-o", "json", "-q"]
    plain = json.loads(CliRunner().invoke(cli, arguments).stdout)
    more = json.loads(CliRunner().invoke(cli, [*arguments, "--candidate", "more"]).stdout)
    assert (plain["cluster"]["nodes"]["final"], more["cluster"]["nodes"]["final"]) == (2, 3)
    wrong = CliRunner().invoke(cli, [*arguments, "--candidate", "mor"], prog_name="stowplan")
    assert wrong.exit_code == 2
