"""Comparisons on processes of this machine: the same bytes with any number of them, and nothing runs twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan_autoscaling.experiment import (
    Cell,
    CellResult,
    Done,
    Failures,
    LocalExecutor,
    Plan,
    WorkerLostError,
    compare,
    plan_of,
    read_comparison,
)
from stowplan_autoscaling.experiment.cell import run_cell
from stowplan_autoscaling.experiment.comparison import COMPARISON_FILE, TABLE_FILE
from stowplan_autoscaling.experiment.executor import Listener, Load
from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.results import read_summary
from support.experiments import Heard, contents, endless, written
from support.simulations import write


class InProcess:
    """An executor without processes; counts what it runs. `before` is called with each cell before it runs."""

    def __init__(self, before: Callable[[Cell], None] | None = None) -> None:
        self.ran: list[str] = []
        self._before = before

    def run(
        self, cells: Sequence[Cell], load: Load, root: str, *, stop: Callable[[], bool], listener: Listener
    ) -> Generator[Done, None, None]:
        for cell in cells:
            if stop():
                return
            self.ran.append(str(cell))
            if self._before is not None:
                self._before(cell)
            yield Done(cell, run_cell(load(cell), str(Path(root, cell.folder)), stop=stop))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """A comparison of three candidates with two seeds, on two processes, and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    plan = plan_of(written(folder))
    compare(plan, str(folder / "out"), LocalExecutor(2))
    return plan, folder / "out"


def test_a_plan_has_each_candidate_with_each_seed(tmp_path: Path) -> None:
    """Seed by seed, so that what is finished early can be compared."""
    plan = plan_of(written(tmp_path, seed=7, baseline="more"))
    assert [(cell.candidate, cell.seed) for cell in plan.cells] == [
        ("today", 7), ("more", 7), ("lean", 7), ("today", 8), ("more", 8), ("lean", 8),
    ]  # fmt: skip
    assert (plan.baseline, plan.seeds, plan.cells[1].folder) == ("more", (7, 8), "runs/more/seed-7")
    assert plan_of(written(tmp_path), seeds=3, seed=1).seeds == (1, 2, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"candidates": []}, "spec.candidates: there is nothing to compare: name at least one candidate"),
        (
            {"goals": [{"metric": "slo.fast"}]},
            "spec.goals[0].metric: slo.fast: no candidate has 'fast'; there are none",
        ),
        ({"goals": [{"metric": "latency.visit"}]}, "latency.visit: no candidate has 'visit'; did you mean visits?"),
        ({"goals": [{"metric": "nodeHours.zz"}]}, "nodeHours.zz: no candidate has 'zz'; known are plain"),
        ({"seed": 2**63 - 1}, "spec.seed: 9223372036854775807: the last of 2 seeds would be too large"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    """Before anything runs."""
    with pytest.raises(InputError) as caught:
        plan_of(written(tmp_path, **fields))
    assert message in str(caught.value)


def test_all_candidates_are_checked_before_any_runs(tmp_path: Path) -> None:
    """The last one has no nodes."""
    candidates = [{"name": "today"}, {"name": "none", "spec": {"cluster": {"nodeGroups": []}}}]
    with pytest.raises(InputError, match=r"candidate none: spec\.cluster: has no nodes"):
        plan_of(written(tmp_path, candidates=candidates))


def test_without_goals_it_is_about_waiting_and_objectives(tmp_path: Path) -> None:
    """And about cost, where there are prices."""
    slo = [{"name": "fast", "demand": "visits", "latency": "1s"}]
    names = [goal.metric for goal in plan_of(written(tmp_path, goals=[], slo=slo)).goals]
    assert names == ["waiting.p95", "sloMisses"]
    priced = {"nodeGroups": [{"name": "plain", "count": 2, "capacity": {"cpu": "4", "memory": "8Gi"}, "price": "0.2"}]}
    plan = plan_of(written(tmp_path, goals=[], cluster=priced, candidates=[{"name": "today"}]))
    assert [goal.metric for goal in plan.goals] == ["cost", "waiting.p95"]


def test_a_comparison_has_bands_differences_and_a_verdict(finished: tuple[Plan, Path]) -> None:
    """Three nodes have half as many node-hours more than two: 2 nodes x 10 min are a third of an hour."""
    _, folder = finished
    report = read_comparison((folder / COMPARISON_FILE).read_bytes())
    assert (report.is_complete, report.seeds, report.baseline) == (True, (0, 1), "today")
    today, more, _ = report.candidates
    assert today.metrics["nodeHours"].median == pytest.approx(1 / 3, abs=1e-6)
    assert more.metrics["nodeHours"].values == (0.5, 0.5)
    [found] = [each for each in report.differences if (each.candidate, each.metric) == ("more", "nodeHours")]
    assert found.median == pytest.approx(1 / 6, abs=1e-6)
    assert (found.outcome, found.worse) == ("worse", 2)
    assert more.changes[0].path == "cluster.nodeGroups[plain].count"
    assert {curve.name for curve in today.curves} >= {"demand.visits", "ready", "pending", "nodes"}
    assert [goal.metric for goal in report.goals] == ["nodeHours", "waiting.p95"]
    assert report.goals[1].limit == 300


def test_candidates_meet_the_same_luck(finished: tuple[Plan, Path]) -> None:
    """A third node changes nothing for the visitors: the same noise, the same requests."""
    _, folder = finished
    runs = {name: read_summary(str(folder / "runs" / name / "seed-1")) for name in ("today", "more")}
    assert runs["today"].services[0].offered == runs["more"].services[0].offered
    other = read_summary(str(folder / "runs" / "today" / "seed-0"))
    assert other.services[0].offered != runs["today"].services[0].offered


def test_the_bytes_are_the_same_with_any_number_of_processes(finished: tuple[Plan, Path], tmp_path: Path) -> None:
    """With two, with three, and without any; to the last file."""
    plan, folder = finished
    compare(plan, str(tmp_path / "three"), LocalExecutor(3))
    compare(plan, str(tmp_path / "none"), InProcess())
    expected = contents(folder)
    assert len(expected) > 6 * 10
    assert contents(tmp_path / "three") == expected
    assert contents(tmp_path / "none") == expected


def test_what_is_finished_is_not_run_again(finished: tuple[Plan, Path]) -> None:
    """Nothing runs, and nothing changes."""
    plan, folder = finished
    before = contents(folder)
    executor, heard = InProcess(), Heard()
    compare(plan, str(folder), executor, listener=heard)
    assert executor.ran == []
    assert [share for _, share in heard.shares] == [1.0] * 6
    assert contents(folder) == before


def test_only_what_has_changed_is_run_again(tmp_path: Path) -> None:
    """Another candidate, another seed, a candidate with other settings."""
    root = str(tmp_path / "out")
    candidates: list[dict[str, Any]] = [{"name": "today"}]
    compare(plan_of(written(tmp_path, candidates=candidates, seeds=1)), root, InProcess())
    executor = InProcess()
    candidates.append({"name": "more", "spec": {"cluster": {"nodeGroups": {"plain": {"count": 3}}}}})
    compare(plan_of(written(tmp_path, candidates=candidates, seeds=2)), root, executor)
    assert executor.ran == ["more (seed 0)", "today (seed 1)", "more (seed 1)"]
    executor = InProcess()
    candidates[1]["spec"]["cluster"]["nodeGroups"]["plain"]["count"] = 4
    compare(plan_of(written(tmp_path, candidates=candidates, seeds=1)), root, executor)
    assert executor.ran == ["more (seed 0)"]


def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path: Path, finished: tuple[Plan, Path]) -> None:
    """What is there is readable and says that it is not all; the rest comes to the same bytes."""
    plan, folder = finished
    root = tmp_path / "out"
    executor = InProcess()
    report = compare(plan, str(root), executor, stop=lambda: len(executor.ran) > 3)
    assert not report.is_complete
    assert read_comparison((root / COMPARISON_FILE).read_bytes()) == report
    assert [run.is_complete for run in report.candidates[1].runs] == [True, False]
    assert report.candidates[0].runs[1].stopped == "interrupted"
    assert report.candidates[1].runs[1].stopped == "has not run"
    assert [value is None for value in report.candidates[0].metrics["nodeHours"].values] == [False, True]
    rest = InProcess()
    compare(plan, str(root), rest)
    assert rest.ran == ["today (seed 1)", "more (seed 1)", "lean (seed 1)"]
    assert contents(root) == contents(folder)


def test_a_run_that_fails_does_not_keep_the_others_from_running(tmp_path: Path) -> None:
    """It is named with the bound that it passed; the comparison has the others."""
    candidates = [{"name": "today"}, {"name": "tight", "spec": {"bounds": {"pods": 1}}}]
    plan = plan_of(written(tmp_path, candidates=candidates))
    with pytest.raises(Failures) as caught:
        compare(plan, str(tmp_path / "out"), InProcess())
    assert caught.value.lines == (
        "tight (seed 0): spec.bounds.pods: more than 1 pods exist",
        "tight (seed 1): spec.bounds.pods: more than 1 pods exist",
    )
    report = read_comparison((tmp_path / "out" / COMPARISON_FILE).read_bytes())
    assert [run.is_complete for each in report.candidates for run in each.runs] == [True, True, False, False]


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing in it is touched."""
    plan = plan_of(written(tmp_path))
    with pytest.raises(InputError, match=r"holds simulation\.yaml and no earlier comparison: name an empty"):
        compare(plan, str(tmp_path), InProcess())
    with pytest.raises(InputError, match="is no folder"):
        compare(plan, str(tmp_path / "simulation.yaml"), InProcess())


def test_the_table_has_a_line_for_each_number(finished: tuple[Plan, Path]) -> None:
    """For notebooks."""
    _, folder = finished
    lines = (folder / TABLE_FILE).read_text().splitlines()
    assert lines[0] == "candidate,seed,metric,unit,value"
    assert "more,1,nodeHours,h,0.5" in lines


def test_prices_of_the_book_and_its_commitments_count(tmp_path: Path) -> None:
    """Two machines at 0.6 for ten minutes are 0.2; three committed ones at 0.3, of which one is idle, are 0.15."""
    (tmp_path / "list.csv").write_text("type,price,currency\nm,0.6,EUR\n")
    (tmp_path / "committed.csv").write_text("type,price,currency,committed,committedPrice\nm,0.6,EUR,3,0.3\n")
    group = {"name": "plain", "count": 2, "capacity": {"cpu": "4", "memory": "8Gi"}, "instanceType": "m"}
    candidates = [{"name": "list"}, {"name": "committed", "spec": {"prices": {"file": "committed.csv"}}}]
    plan = plan_of(
        written(tmp_path, cluster={"nodeGroups": [group]}, prices={"file": "list.csv"}, candidates=candidates, goals=[])
    )
    report = compare(plan, str(tmp_path / "out"), InProcess())
    assert report.currency == "EUR"
    assert [each.metrics["cost"].values for each in report.candidates] == [(0.2, 0.2), (0.15, 0.15)]
    assert report.verdict.recommended == "committed"
    assert [(each.path, each.mattered) for each in report.settings] == [("prices.file", ("cost",))]
    served = report.candidates[0].metrics["costPerThousand.visits"].median
    assert report.candidates[1].metrics["costPerThousand.visits"].median == pytest.approx(0.75 * served, rel=1e-4)


def test_findings_are_named_with_their_seeds(tmp_path: Path, finished: tuple[Plan, Path]) -> None:
    """As the runs report them."""
    from stowplan_autoscaling.experiment import report_of
    from stowplan_autoscaling.experiment.measuring import read_measures

    plan, folder = finished
    found = {}
    for cell in plan.cells:
        measures = read_measures(str(folder / cell.folder))
        assert measures is not None
        text = ("pool a: nodes come and go for ever",) if cell.candidate == "lean" else ()
        found[cell] = msgspec.structs.replace(measures, findings=text)
    candidates = report_of(plan, found).candidates
    assert [[(each.text, each.seeds) for each in candidate.findings] for candidate in candidates] == [
        [], [], [("pool a: nodes come and go for ever", (0, 1))],
    ]  # fmt: skip


@pytest.mark.parametrize(("seconds", "outcome"), [(0.0009, "no difference"), (0.0011, "worse")])
def test_less_than_a_millisecond_of_a_time_is_no_difference(
    finished: tuple[Plan, Path], seconds: float, outcome: str
) -> None:
    """Whatever share of the baseline it is."""
    from stowplan_autoscaling.experiment import report_of
    from stowplan_autoscaling.experiment.measuring import read_measures

    plan, folder = finished
    found = {}
    for cell in plan.cells:
        measures = read_measures(str(folder / cell.folder))
        assert measures is not None
        wait = 0.0001 + (seconds if cell.candidate == "more" else 0.0)
        found[cell] = msgspec.structs.replace(measures, values={**measures.values, "waiting.p50": wait})
    differences = {(each.candidate, each.metric): each for each in report_of(plan, found).differences}
    assert differences["more", "waiting.p50"].outcome == outcome


# ---- processes -------------------------------------------------------------------------------------------------------


class KillAtFirstProgress(Heard):
    """Ends the process that runs the first cell that is heard of."""

    def progress(self, cell: Cell, share: float) -> None:
        super().progress(cell, share)
        import multiprocessing

        for child in multiprocessing.active_children():
            os.kill(child.pid or 0, signal.SIGKILL)


def test_a_process_that_dies_is_named_and_what_is_finished_is_kept(tmp_path: Path) -> None:
    """With the signal, and what was running."""
    candidates = [{"name": "short", "spec": {}}]
    plan = plan_of(write(tmp_path, endless(candidates=candidates, seeds=1)))
    with pytest.raises(WorkerLostError) as caught:
        compare(plan, str(tmp_path / "out"), LocalExecutor(1), listener=KillAtFirstProgress())
    assert str(caught.value) == (
        "the process that ran short (seed 0) was ended by SIGKILL; out of memory? --jobs 1 needs less of it"
    )
    report = read_comparison((tmp_path / "out" / COMPARISON_FILE).read_bytes())
    assert report.candidates[0].runs[0].stopped == "has not run"


def test_processes_stop_soon_when_they_are_asked(tmp_path: Path) -> None:
    """The run that is under way leaves what it has, and says that it is not complete."""
    heard = Heard()
    plan = plan_of(write(tmp_path, endless()))
    report = compare(plan, str(tmp_path / "out"), LocalExecutor(2), stop=lambda: bool(heard.shares), listener=heard)
    stopped = [run.stopped for each in report.candidates for run in each.runs]
    assert stopped.count("interrupted") == 2
    assert stopped.count("has not run") == 4
    assert not read_summary(str(tmp_path / "out" / "runs" / "today" / "seed-0")).complete


def test_a_file_that_vanishes_meanwhile_is_an_error_of_the_input(tmp_path: Path) -> None:
    """The other seeds are read when their turn has come."""
    path = written(tmp_path)
    plan = plan_of(path)
    with pytest.raises(InputError, match="no such file"):
        compare(plan, str(tmp_path / "out"), InProcess(before=lambda cell: Path(path).unlink(missing_ok=True)))


def test_a_file_that_changes_meanwhile_ends_the_comparison(tmp_path: Path) -> None:
    """Otherwise some seeds would be of another simulation than the others."""
    path = Path(written(tmp_path))
    plan = plan_of(str(path))
    text = path.read_text()
    with pytest.raises(InputError, match="candidate today: a file has changed while the comparison ran"):
        compare(plan, str(tmp_path / "out"), InProcess(before=lambda cell: _put(path, f"{text}# new\n")))


def _put(path: Path, text: str) -> None:
    path.write_text(text)


def test_a_result_is_a_plain_pair() -> None:
    """It goes through a pipe."""
    assert CellResult("complete") == ("complete", "")
