"""What stopped a loop, in the table of control loops."""

from __future__ import annotations

from stowplan_autoscaling.report.loops import _table
from stowplan_autoscaling.report.markup import text
from stowplan_autoscaling.results.report import LoopReport


def test_what_stopped_a_loop_most_comes_first() -> None:
    """Equals by name."""
    loop = LoopReport(
        loop="ScaleUp",
        metric="",
        target="",
        interval="",
        delay="",
        minimum="",
        maximum="",
        stopped_by={"Backoff": 1, "OutOfStock": 1200, "MaxSize": 1200},
    )
    assert "<td>MaxSize 1,200, OutOfStock 1,200, Backoff 1</td>" in text(_table([loop]))
