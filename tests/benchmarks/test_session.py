"""The pass over the table: order, budget, what could not run. No process is started that takes long."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import processes
from benchmarks.processes import ONE_THREAD, RunError, json_line, parsed, upstream_program
from benchmarks.run import Session, main
from benchmarks.table import TABLE, TableError, load_table

REAL = Path("/real/bench")


class Machine:
    """Answers commands with made-up lines, and counts them."""

    def __init__(self, **fields: object) -> None:
        self.asked: list[str] = []
        self.fields = fields

    def __call__(self, command: Sequence[str], timeout_seconds: float) -> Mapping[str, Any]:
        assert timeout_seconds >= 60
        self.asked.append(kind_of(command))
        pods = next((int(each.removeprefix("--pods=")) for each in command if each.startswith("--pods=")), 0)
        line: dict[str, object] = {"pods_per_s": 100, "placed": pods, "different": [], "nodes": 500, "core_share": 0.5}
        line |= {"update_us": 5, "per_node": 1, "per_bound_pod": 1, "workload": "plain"}
        return line | self.fields


def kind_of(command: Sequence[str]) -> str:
    if command[0] == str(REAL):
        return "upstream"
    return "ours" if command[1] == "-c" else Path(command[1]).stem


def session(machine: Machine, upstream: Path | None = REAL) -> Session:
    return Session(load_table(), upstream, ask=machine, clock=lambda: 0.0)


def test_ours_and_the_real_scheduler_take_turns() -> None:
    """A busy minute must hit both; ours frames the real one."""
    machine = Machine()
    measured = session(machine)
    measured.speed(load_table().lines()[0])
    assert machine.asked == ["ours", "upstream", "ours", "upstream", "ours", "scalar_rate"]
    (line,) = measured.results.speed
    assert (line.ours, line.upstream, line.reference) == ([100] * 3, [100] * 2, 100)


def test_without_the_real_scheduler_ours_is_measured_alone() -> None:
    """No Go is no failure."""
    machine = Machine()
    measured = session(machine, None)
    measured.measure()
    assert "upstream" not in machine.asked
    assert {"ours", "scalar_rate", "snapshot_cost", "memory_use"} == set(machine.asked)
    assert measured.results.failures == []


def test_the_whole_table_is_measured_once() -> None:
    """Each line of speeds, each size of the snapshot, memory of each workload."""
    machine = Machine()
    measured = session(machine)
    measured.measure()
    table = load_table()
    assert sorted(line.run.label for line in measured.results.speed) == sorted(run.label for run in table.lines())
    assert len(measured.results.snapshot) == len(table.snapshot.nodes)
    assert len(measured.results.memory) == len(table.memory.workloads)
    assert machine.asked.index("snapshot_cost") < machine.asked.index("memory_use") < len(machine.asked) - 1


def test_only_one_workload_leaves_the_rest_out() -> None:
    """For work on one rule."""
    machine = Machine()
    measured = session(machine)
    measured.measure(frozenset({"anti"}))
    assert {line.run.workload for line in measured.results.speed} == {"anti"}
    assert machine.asked.count("memory_use") == 1
    assert "snapshot_cost" not in machine.asked


def test_a_rate_of_pods_that_found_no_node_is_refused() -> None:
    """It would compare other work than the real scheduler's."""
    measured = session(Machine(placed=1))
    measured.speed(load_table().lines()[0])
    assert measured.results.failures == [
        "plain, 5,000 nodes, sampled: placed 1 of 3000 pods: the rate would say nothing"
    ]
    assert measured.results.speed[0].ours == []


def test_a_backlog_may_find_no_node() -> None:
    """That is what it is."""
    measured = session(Machine(placed=0))
    measured.speed(next(run for run in load_table().lines() if run.workload == "backlog"))
    assert measured.results.failures == []


def test_a_decision_that_differs_from_the_reference_is_a_failure() -> None:
    """A speed of wrong decisions is worth nothing."""
    measured = session(Machine(different=["pod-1: node-2 instead of none"]))
    measured.speed(load_table().lines()[0])
    assert measured.results.failures == ["scalar reference: plain, 5,000 nodes, sampled: 1 decisions differ"]


def test_after_the_budget_nothing_is_started() -> None:
    """`make bench` keeps its fifteen minutes on any machine, and says what it left out."""
    machine, times = Machine(), iter([0.0, 0.0, *[15 * 60.0] * 1000])
    measured = Session(load_table(), REAL, ask=machine, clock=lambda: next(times))
    measured.measure()
    assert machine.asked == ["ours"]
    assert measured.results.failures[0] == "kube-scheduler: plain, 5,000 nodes, sampled: the 15 minutes are over"
    assert "snapshot, 500 nodes: the 15 minutes are over" in measured.results.failures


def test_only_lines_that_missed_a_target_are_profiled() -> None:
    """Ten lines miss theirs here, four are looked at."""
    machine = Machine()
    measured = session(machine)
    measured.measure()
    machine.asked.clear()
    measured.hot_spots()
    assert machine.asked == ["hot_spots"] * 4
    assert len(measured.results.hot_spots) == 4


# ---- one process -----------------------------------------------------------------------------------------------------


def test_a_process_has_one_thread() -> None:
    """The real scheduler and numpy take what they find otherwise."""
    code = "import json, os; print(json.dumps({name: os.environ[name] for name in %r}))" % sorted(ONE_THREAD)  # noqa: UP031
    assert json_line([sys.executable, "-c", code], 30).items() >= ONE_THREAD.items()


def test_a_process_that_waits_has_a_small_share_of_the_core() -> None:
    """The share tells a busy machine from a slow program."""
    line = json_line([sys.executable, "-S", "-c", "import time; time.sleep(1); print('{}')"], 30)
    assert 0 <= line["core_share"] < 0.5


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; print('a\\nwrong flag', file=sys.stderr); sys.exit(3)", "exit code 3: wrong flag"),
        ("import sys; sys.exit(3)", "exit code 3: it printed nothing"),
        ("print('{}\\n{}')", "expected one JSON line, got 2 lines"),
    ],
)
def test_a_process_that_fails_says_why_in_one_line(code: str, why: str) -> None:
    """The rest of its output would bury the table."""
    with pytest.raises(RunError, match=why):
        json_line([sys.executable, "-c", code], 30)


def test_a_process_that_hangs_is_ended() -> None:
    """And one that cannot be started is named."""
    with pytest.raises(RunError, match=r"not done after 0\.2 s"):
        json_line([sys.executable, "-c", "import time; time.sleep(60)"], 0.2)
    with pytest.raises(RunError, match="No such file"):
        json_line(["/nowhere/bench"], 1)


@pytest.mark.parametrize("output", ["", "nonsense\n", "[1]\n", "{}\n{}\n"])
def test_anything_but_one_json_object_is_refused(output: str) -> None:
    """A half-written line must not become a figure."""
    with pytest.raises(RunError):
        parsed(output)


def test_the_real_scheduler_is_found_where_the_build_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """STOWPLAN_BUILD names the folder; a file that cannot be run does not count."""
    monkeypatch.setenv("STOWPLAN_BUILD", str(tmp_path))
    program = tmp_path / "bin/bench"
    assert upstream_program() is None
    program.parent.mkdir()
    program.touch(mode=0o600)
    assert upstream_program() is None or os.geteuid() == 0
    program.chmod(0o700)
    assert upstream_program() == program


def test_why_there_is_no_real_scheduler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reasons, two remedies."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert processes.why_no_upstream() == "Go is not installed: measured without the real kube-scheduler"
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/go")
    assert "build.sh bench" in processes.why_no_upstream()


# ---- the table -------------------------------------------------------------------------------------------------------


def test_both_tables_can_be_read() -> None:
    """They hold what the targets need: all five workloads at 5,000 nodes both ways, plain at 20,000."""
    for quick in (False, True):
        lines = load_table(quick=quick).lines()
        compared = {(run.workload, run.percent) for run in lines if run.upstream and run.nodes == 5000}
        assert len(compared) == 10
        assert ("plain", 20_000, 0) in {(run.workload, run.nodes, run.percent) for run in lines}


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("workloads: [taints, mix, backlog]\n", "workloads: [taints, huge]\n", "'huge': must be one of plain, "),
        ("      upstream: true\n", "      upstream: maybe\n", "upstream: Input should be a valid boolean"),
        ("  budget_minutes: 15\n", "", "full.budget_minutes: Field required"),
        ("      initial: 1000\n", "      inital: 1000\n", "inital: Extra inputs are not permitted"),
        ("    deep_copy_nodes: 5000\n", "    deep_copy_nodes: 6000\n", "deep_copy_nodes: must be one of nodes"),
        ("full:\n", "full: [\n", "expected"),
    ],
)
def test_a_mistake_in_the_table_is_named(tmp_path: Path, before: str, after: str, problem: str) -> None:
    """With the path to it."""
    text = TABLE.read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "workloads.yaml"
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(TableError, match=problem):
        load_table(path=path)


def test_upstream_is_not_asked_for_workloads_of_our_own(tmp_path: Path) -> None:
    """It would take them for `plain`."""
    path = tmp_path / "workloads.yaml"
    text = TABLE.read_text(encoding="utf-8")
    path.write_text(text.replace("[plain, distinct, anti, spread, preferred]", "[mix]", 1), encoding="utf-8")
    with pytest.raises(TableError, match="'mix': must be one of plain, distinct, anti, spread, preferred"):
        load_table(path=path)


def test_a_workload_that_the_quick_table_lacks_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table would look like a result."""
    assert main(["--quick", "--only", "taints"]) == 2
    assert "no line for taints" in capsys.readouterr().err
