"""`stowplan simulate -f` from the arguments to the output, with a small engine in the place of the virtual cluster."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import FolderSink, NullSink
from stowplan_autoscaling.results.report import (
    AutoscalerReport,
    ContentionReport,
    CostReport,
    Distribution,
    Level,
    ObjectiveReport,
    PoolReport,
    RunReport,
    SchedulingReport,
    ServiceReport,
    WaitingReport,
    WorkCounts,
)
from stowplan_operator.cli import cli, simulation_run
from stowplan_operator.cli.console import console_of
from stowplan_operator.cli.run_progress import progress_text
from stowplan_operator.cli.run_tables import print_run, sparkline
from support import run_engine
from support.processes import environment
from support.simulations import small, write


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation_run, "engine", lambda: run_engine.run)


def simulate(folder: Path, *arguments: str, simulation: Any = None) -> Result:
    """The command with -f and a simulation in `folder`."""
    path = write(folder, simulation or small())
    return CliRunner().invoke(cli, ["simulate", "-f", path, *arguments], prog_name="stowplan")


def test_a_run_ends_with_tables(tmp_path: Path) -> None:
    """A line per workload and demand, then what happened."""
    result = simulate(tmp_path)
    assert result.exit_code == 0, result.output
    assert "small: 00:10:00 from 2026-01-05T00:00:00Z, seed 0" in result.stdout
    assert "shop/web" in result.stdout
    assert "▁" in result.stdout
    assert "40 placed, 0 found no node" in result.stdout
    assert "filtered (M) 2.0, in all 80; scored (K) 1.0, in all 40" in result.stdout
    assert "\x1b[" not in result.stdout


def test_numbers_stay_whole_in_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and headers are folded instead, and sparklines are short."""
    monkeypatch.setenv("COLUMNS", "80")
    result = simulate(tmp_path)
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    row = next(line.split() for line in result.stdout.splitlines() if line.startswith(" visits"))
    assert row[2:] == ["5,850", "90.00", "%", "250", "ms", "250", "ms", "0", "0", "s"]


def test_long_names_leave_room_for_numbers(tmp_path: Path) -> None:
    """In 120 columns a name of 44 would push the last column out of sight."""
    report = run_engine.run(load_simulation(write(tmp_path, small())), progress=None, stop=None, sink=NullSink())
    name = "visits-of-those-who-come-from-far-and-stay"
    services = [msgspec.structs.replace(report.services[0], demand=name)]
    screen = StringIO()
    print_run(msgspec.structs.replace(report, services=services), screen)
    row = next(line for line in screen.getvalue().splitlines() if line.startswith(f" {name} "))
    assert row.split()[-2:] == ["0", "s"]
    assert len(row) <= 120


def test_pools_and_their_cost_are_shown(tmp_path: Path) -> None:
    """A line per node pool, the total among the facts, and findings at the end."""
    report = run_engine.run(load_simulation(write(tmp_path, small())), progress=None, stop=None, sink=NullSink())
    half, two = Level(mean=0.5, minimum=0, maximum=1), Level(mean=1.5, minimum=1, maximum=2)
    pool = PoolReport(
        pool="general",
        nodes=two,
        starting=half,
        node_hours=3.04,
        cost=1.236,
        cpu_requested=half,
        cpu_used=half,
        cpu_stranded=half,
        memory_requested=half,
        memory_used=half,
        memory_stranded=half,
        started=7,
        ended=6,
        failed=1,
        interrupted=0,
        curve=(1.0, 2.0),
    )
    cost = CostReport(
        currency="USD",
        total=1.236,
        hourly=two,
        node_hours=3.04,
        by_pool={"general": 1.236},
        by_instance_type={"m2": 1.236},
        by_capacity_type={"on-demand": 1.0, "spot": 0.236},
        commitments=-0.25,
        curve=(1.0, 2.0),
    )
    screen = StringIO()
    print_run(msgspec.structs.replace(report, pools=(pool,), cost=cost, findings=("nodes come and go",)), screen)
    shown = screen.getvalue()
    row = next(line.split() for line in shown.splitlines() if line.startswith(" general "))
    assert row[2:] == ["1", "1.5", "2", "7", "6", "1", "50.0", "%", "3.0", "1.24"]
    assert (
        "1.24 USD for 3.0 node hours (on-demand 1.00, spot 0.24); commitments -0.25; 1.50 an hour, at most 2.00"
        in " ".join(shown.split())
    )
    assert shown.endswith("finding: nodes come and go\n")


def run_report(folder: Path) -> RunReport:
    """Of the small engine, for tests that put their own numbers into it."""
    return run_engine.run(load_simulation(write(folder, small())), progress=None, stop=None, sink=NullSink())


def screen_of(report: RunReport) -> str:
    """What is shown of it."""
    screen = StringIO()
    print_run(report, screen)
    return screen.getvalue()


def row_of(shown: str, name: str) -> list[str]:
    """The words of the row that begins with a name."""
    return next(line.split() for line in shown.splitlines() if line.split()[:1] == [name])


def test_each_workload_has_its_numbers_in_order_the_largest_first(tmp_path: Path) -> None:
    """Ready min, mean, max; pending max; made; p50 and p99. Twenty are shown."""
    report = run_report(tmp_path)
    waiting = WaitingReport(ready=Distribution(count=9, p50=0.5, p90=15, p99=130), split={}, never_ready=0)
    small_one = msgspec.structs.replace(
        report.workloads[0],
        workload="shop/small",
        ready=Level(minimum=1, mean=2.5, maximum=4),
        pending=Level(minimum=2, maximum=3),
        pods_created=12,
        waiting=waiting,
    )
    large = msgspec.structs.replace(small_one, workload="shop/large", ready=Level(maximum=5))
    shown = screen_of(msgspec.structs.replace(report, workloads=(small_one, large)))
    assert row_of(shown, "shop/small")[-8:] == ["1", "2.5", "4", "3", "12", "500", "ms", "00:02:10"]
    assert shown.index("shop/large") < shown.index("shop/small")
    assert "more; -o json" not in shown
    many = tuple(msgspec.structs.replace(small_one, workload=f"shop/w{number}") for number in range(22))
    shown = screen_of(msgspec.structs.replace(report, workloads=many))
    assert "shop/w19" in shown
    assert "shop/w20" not in shown
    assert "2 more; -o json shows them all" in shown


def test_each_demand_and_objective_has_its_numbers_in_order(tmp_path: Path) -> None:
    """Total, served, latency, worst latency, longest queue, oldest item; wanted, held, missed for."""
    service = ServiceReport(
        demand="visits",
        offered=1000,
        served=990,
        failed=10,
        latency=0.25,
        worst_latency=1.5,
        queue_length=Level(mean=2, maximum=7),
        worst_queue_age=90,
        curve=(1.0,),
    )
    missed = ObjectiveReport(name="fast", wanted=0.99, share=0.985, met=False, total=1000, missed=15, missed_seconds=60)
    kept = msgspec.structs.replace(missed, name="up", share=1.0, met=True, missed_seconds=0)
    report = msgspec.structs.replace(run_report(tmp_path), services=(service,), objectives=(missed, kept))
    shown = screen_of(report)
    assert " ".join(row_of(shown, "visits")[-10:]) == "1,000 99.00 % 250 ms 1.5 s 7 90.0 s"
    assert " ".join(row_of(shown, "fast")) == "fast missed 99.00 % 98.50 % 60.0 s"
    assert " ".join(row_of(shown, "up")) == "up met 99.00 % 100.00 % 0 s"


def test_facts_say_what_happened(tmp_path: Path) -> None:
    """Each number where it belongs, the most frequent events first."""
    report = run_report(tmp_path)
    cluster = msgspec.structs.replace(
        report.cluster,
        nodes=Level(minimum=1, mean=2, maximum=3),
        in_use=Level(minimum=2, mean=2, maximum=2),
        cpu_requested=Level(minimum=0.1, mean=0.5, maximum=0.75),
        cpu_used=Level(minimum=0, mean=0.25, maximum=0.375),
        memory_requested=Level(mean=0.625, maximum=0.875),
        memory_used=Level(mean=0.125, maximum=1),
    )
    waiting = WaitingReport(
        ready=Distribution(count=9, p50=1, p90=2, p99=3, maximum=4),
        split={"queue": 0.25, "image": 0.0004, "node": 40.0},
        never_ready=5,
    )
    scheduling = SchedulingReport(
        attempts=9,
        scheduled=4,
        unschedulable=3,
        errors=2,
        preemptions=1,
        evaluated=WorkCounts(total=18, mean=2.0),
        feasible=WorkCounts(total=8, mean=1.5),
    )
    contention = ContentionReport(throttled_core_seconds=7, oom_kills=6, evictions=5, preempted=4)
    scaler = AutoscalerReport(
        autoscaler="shop/web", syncs=40, scale_ups=3, scale_downs=2, desired=Level(), stopped_by={}
    )
    facts = " ".join(
        screen_of(
            msgspec.structs.replace(
                report,
                cluster=cluster,
                waiting=waiting,
                scheduling=scheduling,
                contention=contention,
                autoscalers=(scaler, scaler),
                events={"Rare": 1, "Often": 1200, "Also": 1},
            )
        ).split()
    )
    for text in (
        "nodes 1 to 3 (mean 2.0); in use 2 cpu",
        "cpu requested, used 50.0 % (at most 75.0 %), 25.0 % (at most 37.5 %) of allocatable",
        "memory requested, used 62.5 % (at most 87.5 %), 12.5 % (at most 100.0 %)",
        "pods that wait p50 1.0 s, p90 2.0 s, p99 3.0 s, at most 4.0 s; 5 never ready",
        "on average: queue 250 ms, node 40.0 s",
        "scheduling attempts 9: 4 placed, 3 found no node, 2 errors, 1 preemptions",
        "filtered (M) 2.0, in all 18; scored (K) 1.5, in all 8",
        "contention 7 core seconds throttled, 6 OOM kills, 5 evictions, 4 preempted",
        "autoscalers 80 syncs, 6 up, 4 down",
        "events Often 1,200, Also 1, Rare 1",
    ):
        assert text in facts


def test_the_waits_of_the_three_largest_scaled_workloads_are_split(tmp_path: Path) -> None:
    """Those that no autoscaler made pods for have no line."""
    report = run_report(tmp_path)
    workloads = []
    for number in range(5):
        split = {"autoscaler": 0.0 if number == 4 else 15.0 + number, "queue": 1.0}
        waiting = WaitingReport(ready=Distribution(), split=split, never_ready=0)
        workloads.append(
            msgspec.structs.replace(
                report.workloads[0], workload=f"w{number}", ready=Level(maximum=number), waiting=waiting
            )
        )
    shown = screen_of(msgspec.structs.replace(report, workloads=tuple(workloads)))
    lines = [" ".join(line.split()) for line in shown.splitlines() if line.startswith("  w")]
    assert lines == [f"w{number} on average: autoscaler {15 + number}.0 s, queue 1.0 s" for number in (3, 2, 1)]


def test_who_reads_only_the_first_lines_sees_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `| head`: rich would end the program with 1."""

    class Closed(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        console_of(Closed()).print("x")


def test_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, exit code 1."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FolderSink, "checkpoint", full)
    monkeypatch.setattr(FolderSink, "finish", full)
    result = simulate(tmp_path, "--results", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.stderr == f"stowplan: error: --results: {tmp_path}/out: cannot be written: No space left on device\n"


def test_json_and_yaml_hold_the_same(tmp_path: Path) -> None:
    """The schema's name and everything in it."""
    as_json = json.loads(simulate(tmp_path, "-o", "json").stdout)
    as_yaml = yaml.safe_load(simulate(tmp_path, "-o", "yaml").stdout)
    assert as_json == as_yaml
    assert as_json["schema"] == "stowplan.io/run/v1"
    assert as_json["complete"] is True


def test_seed_and_duration_replace_those_of_the_file(tmp_path: Path) -> None:
    """--seed 0 is a seed, too: it replaces the 5 of the file."""
    simulation = small()
    simulation["spec"]["seed"] = 5
    found = [
        json.loads(simulate(tmp_path, "-o", "json", *arguments, simulation=simulation).stdout)
        for arguments in ((), ("--seed", "0", "--duration", "5m"))
    ]
    assert [(report["inputs"]["seed"], report["reached"]) for report in found] == [(5, 600), (0, 300)]


def test_results_go_to_a_folder(tmp_path: Path) -> None:
    """What -o json prints is the summary."""
    result = simulate(tmp_path, "--results", str(tmp_path / "out"), "-o", "json")
    assert (tmp_path / "out" / "summary.json").read_text() == result.stdout
    assert (tmp_path / "out" / "series" / "workloads.csv").is_file()


def test_a_run_that_passes_a_bound_is_one_line_and_keeps_what_is_finished(tmp_path: Path) -> None:
    """Exit code 1; the table shows how far it came."""
    simulation = small()
    simulation["spec"]["bounds"] = {"pods": 3}
    result = simulate(tmp_path, "--results", str(tmp_path / "out"), simulation=simulation)
    assert result.exit_code == 1
    assert result.stderr == (
        f"stowplan: error: {tmp_path}/simulation.yaml: spec.bounds.pods: more than 3 pods exist; "
        f"what was finished is in {tmp_path}/out\n"
    )
    assert "not complete (too many pods)" in result.stdout
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["complete"] is False


def test_warnings_are_lines_that_quiet_silences(tmp_path: Path) -> None:
    """On standard error, so that -o json stays JSON."""
    simulation = small()
    simulation["spec"]["demand"] = []
    assert simulate(tmp_path, "-o", "json", simulation=simulation).stderr.startswith("stowplan: warning: Horizontal")
    assert simulate(tmp_path, "-q", simulation=simulation).stderr == ""


ARGUMENTS = {
    "both": (["{}", "nodes.yaml"], "-f and CLUSTER exclude each other: nodes.yaml goes into spec.cluster.files"),
    "an option of the other": (["{}", "--config", "a.yaml"], "--config is for CLUSTER, not for -f"),
    "another": (["{}", "--reschedule-all"], "--reschedule-all is for CLUSTER, not for -f"),
    "no duration": (
        ["{}", "--duration", "1d"],
        "Invalid value for '--duration': \"1d\" is not a duration such as 90m or 24h",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_exclude_each_other_are_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    """With exit code 2 and where to read on."""
    path = write(tmp_path, small())
    made = [argument.replace("{}", path) for argument in arguments]
    result = CliRunner().invoke(cli, ["simulate", "-f", *made], prog_name="stowplan")
    assert result.exit_code == 2
    assert result.stderr == f"stowplan: error: {message} (see stowplan simulate --help)\n"


def test_options_of_a_run_need_a_simulation() -> None:
    """They mean nothing for manifests."""
    result = CliRunner().invoke(cli, ["simulate", "nodes.yaml", "--results", "out"], prog_name="stowplan")
    assert result.exit_code == 2
    assert result.stderr == "stowplan: error: --results needs -f (see stowplan simulate --help)\n"


def test_parquet_needs_a_folder(tmp_path: Path) -> None:
    """And says so before the run."""
    result = simulate(tmp_path, "--parquet")
    assert (result.exit_code, result.stderr) == (
        2,
        "stowplan: error: --parquet: needs --results, the folder to write to\n",
    )


def test_bad_input_is_one_line_with_exit_code_2(tmp_path: Path) -> None:
    """File, path in the YAML, what is allowed."""
    simulation = small()
    simulation["spec"]["samplin"] = {}
    result = simulate(tmp_path, simulation=simulation)
    assert result.exit_code == 2
    assert result.stderr == (
        f"stowplan: error: {tmp_path}/simulation.yaml: spec.samplin: unknown field; did you mean sampling?\n"
    )


def test_a_folder_that_is_not_ours_is_refused_before_the_run(tmp_path: Path) -> None:
    """Nobody wants to learn it after an hour."""
    result = simulate(tmp_path, "--results", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr == (
        f"stowplan: error: --results: {tmp_path}: holds simulation.yaml and no earlier result: "
        "name an empty or a new folder\n"
    )


SLOW = """
import sys, time
from support import run_engine
from stowplan_operator.cli import main, simulation_run

def slow(simulation, *, progress, stop, sink):
    def asked():
        time.sleep(0.02)
        print("running", file=sys.stderr, flush=True)
        return stop()
    return run_engine.run(simulation, progress=progress, stop=asked, sink=sink)

simulation_run.engine = lambda: slow
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_leaves_what_is_finished(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """A real process and a real signal: the summary is whole, says `interrupted`, and so does the output."""
    path = write(tmp_path, small())
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    command = [
        sys.executable,
        str(script),
        "simulate",
        "-f",
        path,
        "--results",
        str(tmp_path / "out"),
        "--duration",
        "24h",
    ]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "running\n"
        time.sleep(0.2)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == code
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["complete"], summary["stopped"]) == (False, "interrupted")
    rows = len((tmp_path / "out" / "pods.csv").read_text().splitlines()) - 1
    assert summary["reached"] == rows * 15 > 0
    assert "not complete (interrupted)" in stdout
    assert stderr.splitlines()[-1].endswith(f"; what was finished is in {tmp_path}/out")


def test_a_sparkline_shows_the_largest_of_each_part() -> None:
    """Zero is blank, anything above it is seen, the maximum is full."""
    assert sparkline([0, 1, 100, 50], "_abcd", 4) == "_adb"
    assert sparkline([0, 1, 100, 50], "_abcd", 2) == "ad"
    assert sparkline([0, 0], "_abcd") == "__"
    assert sparkline([]) == ""


def test_progress_tells_virtual_time_speed_and_what_is_left() -> None:
    """An hour of two in one second: 3,600 times as fast as the clock, and one second to go."""
    assert progress_text(3600, 7200, 1.0) == "01:00:00 of 02:00:00  3,600x  ETA 0:01"
    assert progress_text(0, 7200, 0.0) == "00:00:00 of 02:00:00"
