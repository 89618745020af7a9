"""The section "Control loops": what each one looks at, how late, within which bounds, and what stopped it."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_autoscaling.results.report import LoopReport

from .amounts import listed
from .markup import Child, Markup, table, tag
from .runs import CandidateRuns
from .sections import Tab, section, tabs


def build(runs: Sequence[CandidateRuns]) -> Markup:
    """The section."""
    shown = [Tab(one.name, _table(one.shown.summary.loops)) for one in runs if one.shown is not None]
    content: Child = (
        tabs("loops", shown, group="candidate") if shown else tag("p", "No run can be read.", class_="empty")
    )
    return section(
        "loops",
        "Control loops",
        "Each loop has a clock of its own. One that acts later than what it reacts to changes cannot keep up.",
        content,
    )


def _table(loops: Sequence[LoopReport]) -> Child:
    if not loops:
        return tag("p", "No autoscaler of pods or nodes.", class_="empty")
    head: list[Child] = [
        "loop",
        "looks at",
        "aims at",
        "every",
        "delay",
        "minimum",
        "maximum",
        "looked",
        "acted",
        "stopped by",
    ]
    rows: list[list[Child]] = [
        [
            loop.loop,
            loop.metric,
            loop.target,
            loop.interval,
            loop.delay,
            loop.minimum,
            loop.maximum,
            f"{loop.runs:,}",
            f"{loop.decisions:,}",
            listed(
                [
                    f"{reason} {count:,}"
                    for reason, count in sorted(loop.stopped_by.items(), key=lambda one: (-one[1], one[0]))
                ]
            )
            or "–",
        ]
        for loop in loops
    ]
    return table(head, rows, label="Control loops", numbers=False)
