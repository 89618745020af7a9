"""The report as tables for a terminal: a column per configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import IO, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stowplan_autoscaling.placement import (
    Amount,
    ConfigurationReport,
    LargestPod,
    Report,
    ResourceReport,
    highlights,
)

from .console import console_of
from .explain_tables import print_explanation

MOST_MESSAGES: Final = 10

Cell = Callable[[ConfigurationReport], str]


def print_report(report: Report, file: IO[str]) -> None:
    """The explanations, if any were asked for; else comparison, pending pods, and what to look at.

    NO_COLOR and TERM=dumb are honoured.
    """
    console = console_of(file)
    explained = [(c.name, c.explanation) for c in report.configurations if c.explanation is not None]
    for name, explanation in explained:
        print_explanation(console, name, explanation)
    if not explained:
        _print_comparison(console, report)


def _print_comparison(console: Console, report: Report) -> None:
    console.print(_comparison(report))
    for table in _pending(report.configurations):
        console.print(table)
    lines = highlights(report)
    if lines:
        console.print(Text("What to look at", style="bold"))
        for line in lines:
            console.print(Text(f"  - {line}"))


# ---- side by side ------------------------------------------------------------------------------------------------


def _comparison(report: Report) -> Table:
    title = f"{report.cluster.nodes:,} nodes, {report.cluster.pods:,} pods"
    if report.reschedule_all:
        title += ", all placed anew"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for configuration in report.configurations:
        table.add_column(configuration.name, justify="right", overflow="fold")
    for label, cell in _rows(report):
        style = "bold" if not label.startswith(" ") else ""
        table.add_row(Text(label, style=style), *(cell(c) if cell else "" for c in report.configurations))
    return table


def _rows(report: Report) -> Iterator[tuple[str, Cell | None]]:
    configurations = report.configurations
    yield "pods placed", lambda c: f"{c.pods.placed:,}"
    if any(c.pods.kept for c in configurations):
        yield "pods that keep their node", lambda c: f"{c.pods.kept:,}"
    yield "pods pending", lambda c: f"{c.pods.pending:,}"
    if any(c.pods.other_schedulers for c in configurations):
        yield "pods of other schedulers", lambda c: f"{c.pods.other_schedulers:,}"
    if any(c.pods.victims for c in configurations):
        yield "pods removed by preemption", lambda c: f"{c.pods.victims:,}"
    yield "nodes in use", lambda c: f"{c.nodes.in_use:,} of {c.nodes.total:,}"
    names = list(dict.fromkeys(r.name for c in configurations for r in c.resources))
    yield "requested / allocatable", None
    for name in names:
        yield f"  {name}", _on(name, lambda r: f"{r.requested.text} / {r.allocatable.text}{_share(r)}")
    yield "stranded: free where another resource is full", None
    for name in names:
        if name != "pods" and any(_has_requests(c, name) for c in configurations):
            yield f"  {name}", _on(name, lambda r: f"{r.stranded.text}{_part(r.stranded, r.allocatable)}")
    yield "balance over nodes in use: mean, deviation", None
    for name in names:
        if any(_has_requests(c, name) for c in configurations):
            yield f"  {name}", _on(name, _balance)
    yield "  |cpu - memory|", lambda c: f"{100 * c.cpu_memory_gap:.1f} points"
    yield from _room(configurations)
    yield from _decisions()


def _on(name: str, text: Callable[[ResourceReport], str]) -> Cell:
    """A cell about one resource."""

    def cell(configuration: ConfigurationReport) -> str:
        return next((text(resource) for resource in configuration.resources if resource.name == name), "")

    return cell


def _has_requests(configuration: ConfigurationReport, name: str) -> bool:
    return any(resource.name == name and resource.requested.raw > 0 for resource in configuration.resources)


def _share(resource: ResourceReport) -> str:
    return _part(resource.requested, resource.allocatable)


def _part(part: Amount, whole: Amount) -> str:
    """A share in percent, of a fixed width so that columns line up."""
    return f" {100 * part.raw / whole.raw:5.1f} %" if whole.raw else ""


def _balance(resource: ResourceReport) -> str:
    balance = resource.balance
    return "" if balance is None else f"{100 * balance.mean:.1f} %, {100 * balance.standard_deviation:.1f} points"


def _room(configurations: Sequence[ConfigurationReport]) -> Iterator[tuple[str, Cell | None]]:
    shape = next((c.largest_pod.shape for c in configurations if c.largest_pod is not None), None)
    if shape is not None:
        yield f"room for pods like {shape}", None
        yield "  the largest that fits", _with_room(_largest)
        yield "  how many of exactly this shape", _with_room(lambda room: f"{room.count:,}")


def _with_room(text: Callable[[LargestPod], str]) -> Cell:
    return lambda c: "" if c.largest_pod is None else text(c.largest_pod)


def _largest(room: LargestPod) -> str:
    if not room.node:
        return "none"
    return ", ".join(f"{name} {amount.text}" for name, amount in room.amounts.items())


def _decisions() -> Iterator[tuple[str, Cell | None]]:
    yield "decisions", lambda c: f"{c.decisions.attempts:,}"
    yield "  nodes that fit, of those looked at (mean)", _fitting
    yield "  best nodes: one", lambda c: f"{c.decisions.tie_sets['1']:,}"
    yield "  best nodes: 2-10", lambda c: f"{c.decisions.tie_sets['2-10']:,}"
    yield "  best nodes: 11-100", lambda c: f"{c.decisions.tie_sets['11-100']:,}"
    yield "  best nodes: over 100", lambda c: f"{c.decisions.tie_sets['over 100']:,}"
    yield "  only one node fits", lambda c: f"{c.decisions.single_feasible:,}"
    yield "decisions per second", _speed


def _speed(configuration: ConfigurationReport) -> str:
    timing = configuration.timing
    return f"{timing.decisions_per_second:,.0f}" if timing is not None and configuration.decisions.attempts else ""


def _fitting(configuration: ConfigurationReport) -> str:
    decisions = configuration.decisions
    return f"{decisions.mean_feasible_nodes:,.1f} of {decisions.mean_evaluated_nodes:,.1f}"


# ---- pending pods ------------------------------------------------------------------------------------------------


def _pending(configurations: Sequence[ConfigurationReport]) -> Iterator[Table]:
    for configuration in configurations:
        if configuration.pending:
            yield _messages(configuration)
    for configuration in configurations[:1]:
        for other in configuration.other_schedulers:
            table = _plain(f"Not placed by any profile here: schedulerName {other.scheduler_name}")
            table.add_row(f"{other.count:,}", f"e.g. {', '.join(other.pods)}")
            yield table


def _messages(configuration: ConfigurationReport) -> Table:
    table = _plain(f"Pending with {configuration.name}")
    for group in configuration.pending[:MOST_MESSAGES]:
        text = Text(group.message)
        text.append(f"\ne.g. {group.pods[0]}", style="dim")
        table.add_row(f"{group.count:,}", text)
    left = configuration.pending[MOST_MESSAGES:]
    if left:
        count = sum(group.count for group in left)
        table.add_row(f"{count:,}", f"with {len(left):,} other messages; -o json shows them all")
    return table


def _plain(title: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        show_header=False,
        pad_edge=False,
        padding=(0, 1),
    )
    table.add_column(justify="right", no_wrap=True, min_width=6)
    table.add_column(overflow="fold")
    return table
