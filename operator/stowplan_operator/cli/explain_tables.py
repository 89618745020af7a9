"""The explanation of one pod as tables: nodes that fit by their total score, then the rejected ones in groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stowplan_autoscaling.placement import ExplanationReport, NodeVerdictReport, RejectionReport

MOST_NODES: Final = 40
"""Nodes listed with their scores; the rest is counted. JSON and YAML hold them all."""

EXAMPLES: Final = 4


def print_explanation(console: Console, configuration: str, explanation: ExplanationReport) -> None:
    """Everything about one pod with one configuration."""
    console.print(Text(f"{explanation.pod} with {configuration}", style="bold"))
    for line in _summary(explanation):
        console.print(Text(f"  {line}"))
    scored = [node for node in explanation.nodes if node.total is not None]
    if scored:
        console.print(_scores(scored, explanation.selected))
    unscored = [node for node in explanation.nodes if not node.rejections and node.total is None]
    if unscored and scored:
        console.print(Text(f"  {len(unscored):,} more nodes fit but were not looked at (percentageOfNodesToScore)"))
    rejected = [node for node in explanation.nodes if node.rejections]
    if rejected:
        console.print(_rejected(rejected))
    if explanation.changes:
        console.print(Text("What would place it", style="bold"))
        for change in explanation.changes:
            opens = f" -> opens {_named(change.nodes)}" if len(change.nodes) > 1 else ""
            console.print(Text(f"  - {change.text}{opens or _single(change.text, change.nodes)}"))
    console.print()


def _summary(explanation: ExplanationReport) -> list[str]:
    lines = []
    if explanation.node:
        lines.append(f"is on {explanation.node}")
    else:
        lines.append(f"is pending: {explanation.message}")
    for victim in explanation.victims:
        lines.append(f"{victim.pod} was removed from {victim.node} for it")
    if explanation.selected:
        choice = f"{explanation.when}: {explanation.feasible_nodes:,} of {explanation.evaluated_nodes:,} nodes fit"
        ties = f", {explanation.ties:,} of them with the best total" if explanation.ties > 1 else ""
        lines.append(f"{choice}{ties}; chosen: {explanation.selected}")
    else:
        lines.append(f"{explanation.when}: no node fits")
    return lines


def _single(text: str, nodes: Sequence[str]) -> str:
    return f" -> opens {nodes[0]}" if nodes and nodes[0] not in text else ""


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - EXAMPLES:,} more" if len(nodes) > EXAMPLES else ""
    return f"{len(nodes):,} nodes: {', '.join(nodes[:EXAMPLES])}{more}"


def _scores(nodes: Sequence[NodeVerdictReport], selected: str) -> Table:
    """A column per plugin: the score times its weight and, where that is another number, what the plugin gave."""
    table = Table(title="score x weight (raw score)", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("node", no_wrap=True)
    table.add_column("total", justify="right", no_wrap=True)
    for score in nodes[0].scores:
        table.add_column(f"{_broken(score.plugin)}\nx{score.weight}", justify="right", no_wrap=True)
    ordered = sorted(nodes, key=lambda node: (node.name != selected, -(node.total or 0)))
    for node in ordered[:MOST_NODES]:
        cells = [
            f"{score.weighted}" if score.raw == score.weighted else f"{score.weighted} ({score.raw})"
            for score in node.scores
        ]
        mark = "* " if node.name == selected else "  "
        table.add_row(f"{mark}{node.name}", f"{node.total}", *cells)
    if len(ordered) > MOST_NODES:
        table.add_row(f"  and {len(ordered) - MOST_NODES:,} more: see -o json", "")
    return table


def _broken(name: str) -> str:
    """NodeResourcesFit over three lines, so that the column is no wider than its numbers need."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "\n", name)


def _rejected(nodes: Sequence[NodeVerdictReport]) -> Table:
    """Nodes that the same plugins reject for the same reasons, in one line."""
    groups: dict[tuple[RejectionReport, ...], list[str]] = {}
    for node in nodes:
        groups.setdefault(node.rejections, []).append(node.name)
    table = Table(title="rejected", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("nodes", justify="right")
    table.add_column("by", overflow="fold")
    table.add_column("such as", overflow="fold")
    for rejections, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        texts = [f"{r.plugin}: {', '.join(r.reasons)}{_nominated(r)}" for r in rejections]
        table.add_row(f"{len(names):,}", "\n".join(texts), ", ".join(names[:EXAMPLES]))
    return table


def _nominated(rejection: RejectionReport) -> str:
    return " (with the pods nominated to it)" if rejection.for_nominated else ""
