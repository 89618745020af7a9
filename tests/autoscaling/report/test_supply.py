"""Lines of nodes: phases that happened, names that differ."""

from __future__ import annotations

import re
from pathlib import Path

from stowplan_autoscaling.report.markup import text
from stowplan_autoscaling.report.runs import RunFolder, load_runs
from stowplan_autoscaling.report.supply import NAME, _decisions, _edges, _labels
from stowplan_autoscaling.results import FolderSink, SupplyRecord

from .conftest import Written


def life(**times: str) -> dict[str, str]:
    names = ("requested", "launched", "registered", "ready", "disrupted", "ended")
    return {name: times.get(name, "") for name in names}


def test_a_node_that_is_there_at_the_end_takes_pods_until_then() -> None:
    """Asked for, launched, registered, ready; being emptied has no width."""
    row = life(requested="10", launched="12", registered="40", ready="55")
    assert _edges(row, 100.0) == [10, 12, 40, 55, 100, 100]


def test_a_node_that_never_came_is_only_asked_for() -> None:
    """Until the loop gave up."""
    assert _edges(life(requested="10", ended="70"), 100.0) == [10, 70, 70, 70, 70, 70]


def test_a_node_that_was_emptied_has_all_phases() -> None:
    """In their order."""
    row = life(requested="0", launched="1", registered="2", ready="3", disrupted="50", ended="60")
    assert _edges(row, 100.0) == [0, 1, 2, 3, 50, 60]


def test_what_happened_before_the_run_does_not_go_backwards() -> None:
    """A node that was ready before it was registered in the table still has phases in order."""
    row = life(requested="-5", launched="-5", registered="9", ready="0")
    assert _edges(row, 100.0) == sorted(_edges(row, 100.0))


def test_long_names_are_cut_in_front_and_stay_apart() -> None:
    """The end of a node's name is what tells it from others."""
    long = "ip-10-0-0-1.eu-central-1.compute.internal"
    labels = _labels([long, f"x{long}", "a", "a"])
    assert labels[0] == f"…{long[-NAME + 1 :]}"
    assert labels[1] == f"{labels[0]} #2"
    assert labels[2:] == ["a", "a #2"]


def test_a_decision_counts_the_nodes_that_it_asks_for(tmp_path: Path, shop: Written) -> None:
    """Three in one decision and one in another, then two fewer."""
    with FolderSink(str(tmp_path / "run")) as sink:
        for nodes, reason in ((3, "Pending"), (1, "Pending"), (-2, "Empty")):
            sink.row(SupplyRecord(10.0, "ScaleUp", "general", nodes, 9, reason, False, ""))
        run = load_runs(shop.comparison, shop.folder)[0].runs[0]
        sink.finish(run.summary)
    found = text(_decisions(RunFolder(1, tmp_path / "run", run.summary)))
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", found)
    assert cells[:6] == ["general", "Empty", "done", "1", "\N{MINUS SIGN}2", "9"]
    assert cells[6:] == ["general", "Pending", "done", "2", "+4", "18"]
