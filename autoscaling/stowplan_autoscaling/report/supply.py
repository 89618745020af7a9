"""The section "Supply": the life of each node as a bar, and what the node-supply loop decided and could not do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from bokeh.models import FactorRange, HoverTool
from bokeh.models.renderers import DataRenderer
from bokeh.plotting import figure

from stowplan_autoscaling.experiment.comparison import ComparisonReport
from stowplan_autoscaling.experiment.run_tables import Floats
from stowplan_autoscaling.results.records import NodeRecord, SupplyRecord

from . import palette
from .amounts import listed
from .embedding import Documents
from .figures import TimeAxis, source
from .markup import Child, Markup, key, legend, table, tag
from .rows import number_of, records
from .runs import CandidateRuns, RunFolder
from .sections import Tab, panel, section, tabs
from .timeline import pool_name

NODES: Final = 1000
"""So many nodes of a candidate are shown: the first that were asked for."""

PAGE: Final = 40
"""Nodes on a page of the chart."""

NAME: Final = 26
"""Letters of a node's name; of longer ones the end."""

ROW_HEIGHT: Final = 15
_PHASES: Final = ("asked", "launched", "registered", "serving", "emptying")


def build(comparison: ComparisonReport, runs: Sequence[CandidateRuns], documents: Documents) -> Markup:
    """The section."""
    lives = {one.name: _life(comparison, one.shown, documents) for one in runs if one.shown is not None}
    if not any(lives.values()):
        return section("supply", "Supply of nodes", "No node of a pool came or went.")
    nothing = tag("p", "No node of a pool came or went.", class_="empty")
    shown = [Tab(name, life or nothing) for name, life in lives.items()]
    phases = [
        key(palette.GREY, "asked for", "line"),
        key(palette.GREY, "launched, boots", "pale"),
        key(palette.GREY, "registered, not ready", "hatch"),
        key(palette.GREY, "takes pods"),
        key(palette.GREY, "is being emptied", "dots"),
    ]
    return section(
        "supply",
        "Supply of nodes",
        "A line for each node: from the decision that asked for it to its end. The colour says why it ended.",
        legend(*phases),
        tabs("supply", shown, group="candidate"),
    )


_END_WORDS: Final = {
    "Running": "still there",
    "Unneeded": "unneeded",
    "Empty": "empty",
    "Underutilized": "underutilized",
    "Drifted": "drifted",
    "Expired": "expired",
    "Interrupted": "interrupted",
    "Failed": "failed",
    "OutOfStock": "out of stock",
}


def _life(comparison: ComparisonReport, run: RunFolder, documents: Documents) -> Child:
    nodes = sorted(records(run.folder, NodeRecord), key=lambda row: (number_of(row["requested"]) or 0.0, row["node"]))
    decisions = _decisions(run)
    if not nodes:
        return decisions
    cut = nodes[:NODES]
    made = _gantt(comparison, cut)
    ends = Counter(row["end"] for row in nodes)
    began = Counter(row["began"] for row in nodes)
    words = (
        f"{len(nodes):,} nodes ({_counts(began)}); {_counts(ends)}."
        f" In the order in which they were asked for, {PAGE} on a page."
        + (f" Shown are the first {NODES:,}." if len(nodes) > NODES else "")
    )
    (place,) = documents.add([made], [f"Life of nodes: {words}"])
    colours = [key(colour, _END_WORDS[reason]) for reason, colour in palette.END_REASONS.items() if reason in ends]
    if not ends.keys() <= palette.END_REASONS.keys():
        colours.append(key(palette.GREY, "for another reason"))
    return (_pager(cut), panel("Life of nodes", "", place, words, legend(*colours)), decisions)


def _counts(these: Counter[str]) -> str:
    return listed([f"{count:,} {_END_WORDS.get(name, name)}" for name, count in sorted(these.items())])


def _pager(nodes: Sequence[dict[str, str]]) -> Markup:
    """Pages of nodes, all of them or those of one pool or with one end."""

    def choice(column: str, title: str) -> Markup | None:
        found = sorted({row[column] for row in nodes})
        if len(found) < 2:
            return None
        words = [pool_name(name) if column == "pool" else _END_WORDS.get(name, name) for name in found]
        options = [tag("option", "all", value="")]
        options += [tag("option", word, value=name) for name, word in zip(found, words, strict=True)]
        return tag("label", f"{title} ", tag("select", options, data_filter=column), class_="picker")

    if len(nodes) <= PAGE and len({(row["pool"], row["end"]) for row in nodes}) < 2:
        return Markup()
    buttons = [
        tag("button", sign, type="button", data_page=step, aria_label=title, title=title)
        for step, sign, title in (("-1", "◀", "Nodes before"), ("1", "▶", "Nodes after"))
    ]
    turn = tag("span", buttons, tag("span", class_="page-words", role="status"), class_="buttons")
    return tag(
        "div",
        turn,
        choice("pool", "Pool"),
        choice("end", "Ended"),
        class_="controls pager",
        data_size=str(PAGE),
        data_total=str(len(nodes)),
    )


def _gantt(comparison: ComparisonReport, nodes: Sequence[dict[str, str]]) -> figure:
    axis = TimeAxis(comparison.start, comparison.duration)
    labels = _labels([row["node"] for row in nodes])
    edges = np.array([_edges(row, comparison.duration) for row in nodes])
    moments = axis.moments(edges)
    columns: dict[str, Floats | Sequence[str]] = {}
    for index, phase in enumerate(_PHASES):
        # A phase that did not happen has no width, and is not drawn.
        empty = edges[:, index] >= edges[:, index + 1]
        columns[f"{phase}_from"] = np.where(empty, np.nan, moments[:, index])
        columns[f"{phase}_to"] = np.where(empty, np.nan, moments[:, index + 1])
    texts = {
        "label": labels,
        "node": [row["node"] for row in nodes],
        "pool": [row["pool"] for row in nodes],
        "pool_words": [pool_name(row["pool"]) for row in nodes],
        "machine": [
            ", ".join(row[part] for part in ("instance_type", "capacity_type", "zone") if row[part]) for row in nodes
        ],
        "began": [row["began"] for row in nodes],
        "end": [row["end"] for row in nodes],
        "end_words": [_END_WORDS.get(row["end"], row["end"]) for row in nodes],
        "colour": [palette.END_REASONS.get(row["end"], palette.GREY) for row in nodes],
        **{
            f"{name}_words": [_clock(row[name]) for row in nodes]
            for name in ("requested", "launched", "registered", "ready", "disrupted", "ended")
        },
    }
    data = source(columns | texts, exact=True)
    first = labels[:PAGE]
    made = axis.figure(
        1.0,
        height=56 + ROW_HEIGHT * max(len(first), 4),
        y_range=FactorRange(factors=first[::-1], name="nodes"),
        tags=[{"pager": True, "row": ROW_HEIGHT, "around": 56}],
    )
    bars: list[DataRenderer] = []
    for phase, look in zip(_PHASES, _LOOKS, strict=True):
        bars.append(
            made.hbar(
                y="label", left=f"{phase}_from", right=f"{phase}_to", source=data, line_color=None, name="nodes", **look
            )
        )
    rows = [
        ("node", "@node"),
        ("pool", "@pool_words"),
        ("machine", "@machine"),
        ("made for", "@began"),
        ("ended", "@end_words"),
    ]
    rows += [
        (name, f"@{name}_words") for name in ("requested", "launched", "registered", "ready", "disrupted", "ended")
    ]
    made.add_tools(HoverTool(renderers=bars, tooltips=rows, point_policy="follow_mouse"))
    made.yaxis.major_label_text_font_size = "10px"
    return made


_LOOKS: Final[tuple[dict[str, Any], ...]] = (
    {"height": 0.16, "fill_color": "colour"},
    {"height": 0.72, "fill_color": "colour", "fill_alpha": 0.3},
    {"height": 0.72, "fill_color": "colour", "fill_alpha": 0.3, "hatch_pattern": "right_diagonal_line",
     "hatch_color": "colour", "hatch_scale": 6},
    {"height": 0.72, "fill_color": "colour", "fill_alpha": 0.85},
    {"height": 0.72, "fill_color": "colour", "fill_alpha": 0.3, "hatch_pattern": "dot", "hatch_color": "colour",
     "hatch_scale": 5},
)  # fmt: skip


def _edges(row: dict[str, str], end: float) -> list[float]:
    """The moments between the phases; what did not happen is put off to the next that did, at the latest to the end."""
    last = number_of(row["ended"])
    moments = [end if last is None else last]
    for name in ("disrupted", "ready", "registered", "launched", "requested"):
        found = number_of(row[name])
        moments.append(moments[-1] if found is None else min(found, moments[-1]))
    return moments[::-1]


def _clock(cell: str) -> str:
    """Hours, minutes and seconds of the run."""
    if not cell:
        return "–"
    seconds = round(float(cell))
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _labels(names: Sequence[str]) -> list[str]:
    """Short names, no two alike."""
    seen: Counter[str] = Counter()
    labels: list[str] = []
    for name in names:
        short = name if len(name) <= NAME else f"…{name[-NAME + 1 :]}"
        seen[short] += 1
        labels.append(short if seen[short] == 1 else f"{short} #{seen[short]}")
    return labels


# ---- decisions -----------------------------------------------------------------------------------------------------


def _decisions(run: RunFolder) -> Child:
    """What the loop did, and what it wanted and could not, added up."""
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    nodes: Counter[tuple[str, str, str, bool]] = Counter()
    pods: Counter[tuple[str, str, str, bool]] = Counter()
    for row in records(run.folder, SupplyRecord):
        name = (row["loop"], row["pool"], row["reason"], row["is_stopped"] in {"True", "1"})
        counts[name] += 1
        nodes[name] += int(float(row["nodes"] or 0))
        pods[name] += int(float(row["pods"] or 0))
    if not counts:
        return None
    rows: list[list[Child]] = [
        [
            loop,
            pool or "–",
            reason,
            "stopped" if stopped else "done",
            f"{counts[loop, pool, reason, stopped]:,}",
            f"{nodes[loop, pool, reason, stopped]:+,}".replace("-", "−"),
            f"{pods[loop, pool, reason, stopped]:,}",
        ]
        for loop, pool, reason, stopped in sorted(counts)
    ]
    head: list[Child] = ["loop", "pool", "reason", "outcome", "times", "nodes", "pods"]
    return (tag("h3", "Decisions"), table(head, rows, label="Decisions of the supply loop", words=4))
