"""The report of a run as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import IO, Final, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from stowplan_autoscaling.results.report import CostReport, Level, RunReport, WaitingReport, WorkloadReport

from .console import console_of
from .run_progress import clock

SPARK_COLUMNS: Final = 24
NARROW_SPARK_COLUMNS: Final = 8
WIDEST_NAME: Final = 44
"""Columns that names get before they are folded."""
NARROW_NAME: Final = 12
"""Columns that they keep in a narrow terminal."""
MOST_ROWS: Final = 20
MOST_EVENTS: Final = 8
MOST_SCALED: Final = 3

SPARKS: Final = " ▁▂▃▄▅▆▇█"
PLAIN_SPARKS: Final = " .:-=+*#@"
"""For terminals that cannot print those."""


class _Room(NamedTuple):
    """What the terminal has room for. In a narrow one sparklines are short and headers have one word per line, so that
    names are readable and numbers stay whole.
    """

    sparks: str
    is_narrow: bool

    def curve(self, curve: Sequence[float]) -> str:
        """A sparkline."""
        return sparkline(curve, self.sparks, NARROW_SPARK_COLUMNS if self.is_narrow else SPARK_COLUMNS)


def print_run(report: RunReport, file: IO[str]) -> None:
    """What happened, workload by workload, and what it cost. NO_COLOR and TERM=dumb are honoured."""
    console = console_of(file)
    console.print(Text(_title(report), style="bold"))
    sparks = SPARKS if can_print(file, SPARKS) else PLAIN_SPARKS
    for make in (_workloads, _services, _objectives, _pools):
        table = make(report, _Room(sparks, is_narrow=False))
        if table is not None and table.__rich_measure__(console, console.options).maximum > console.width:
            table = make(report, _Room(sparks, is_narrow=True))
        if table is not None:
            console.print(table)
    console.print(_facts(report))
    for finding in report.findings:
        console.print(Text.assemble(("finding: ", "bold yellow"), finding))


def _title(report: RunReport) -> str:
    inputs = report.inputs
    title = f"{inputs.name}: {clock(report.reached)} from {inputs.start}, seed {inputs.seed}"
    return title if report.complete else f"{title}, not complete ({report.stopped}): of {clock(report.duration)}"


def can_print(file: IO[str], text: str) -> bool:
    """Whether the encoding of a file has these characters."""
    try:
        text.encode(getattr(file, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def sparkline(curve: Sequence[float], sparks: str = SPARKS, columns: int = SPARK_COLUMNS) -> str:
    """A curve in one line, each column the largest value of its part; from 0 to the curve's maximum."""
    if not curve:
        return ""
    columns = min(columns, len(curve))
    bounds = [len(curve) * column // columns for column in range(columns + 1)]
    values = [max(curve[low:high]) for low, high in pairwise(bounds)]
    highest = max(values)
    steps = len(sparks) - 1
    return "".join(sparks[0 if value <= 0 else max(1, round(value / highest * steps))] for value in values)


def _table(room: _Room, names: Iterable[str], *columns: tuple[str, str]) -> Table:
    """`names`: what stands in the first column; where there is room for the rest, it is not folded."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if room.is_narrow else (0, 1))
    most = NARROW_NAME if room.is_narrow else WIDEST_NAME
    wide: int | None = min(max((len(name) for name in names), default=0), most)
    for name, side in columns:
        justify: Literal["left", "right"] = "right" if side == "right" else "left"
        header = name.replace(" ", "\n") if room.is_narrow else name
        is_whole = side == "spark" or (room.is_narrow and side == "right")
        table.add_column(header, justify=justify, no_wrap=is_whole, overflow="fold", min_width=wide)
        wide = None
    return table


# ---- workloads, services, objectives -----------------------------------------------------------------------------


def _workloads(report: RunReport, room: _Room) -> Table | None:
    shown = sorted(report.workloads, key=lambda workload: -workload.ready.maximum)[:MOST_ROWS]
    if not shown:
        return None
    table = _table(
        room,
        (workload.workload for workload in shown),
        ("workload", "left"),
        ("ready", "spark"),
        ("min", "right"),
        ("mean", "right"),
        ("max", "right"),
        ("pending", "right"),
        ("made", "right"),
        ("wait p50", "right"),
        ("wait p99", "right"),
    )
    for workload in shown:
        ready = workload.waiting.ready
        table.add_row(
            workload.workload,
            room.curve(workload.curve),
            _count(workload.ready.minimum),
            f"{workload.ready.mean:,.1f}",
            _count(workload.ready.maximum),
            _count(workload.pending.maximum),
            f"{workload.pods_created:,}",
            _seconds(ready.p50) if ready.count else "",
            _seconds(ready.p99) if ready.count else "",
        )
    left = len(report.workloads) - len(shown)
    if left:
        table.add_row(f"{left:,} more; -o json shows them all")
    return table


def _services(report: RunReport, room: _Room) -> Table | None:
    if not report.services:
        return None
    table = _table(
        room,
        (service.demand for service in report.services),
        ("demand", "left"),
        ("offered", "spark"),
        ("total", "right"),
        ("served", "right"),
        ("latency", "right"),
        ("worst", "right"),
        ("longest queue", "right"),
        ("oldest item", "right"),
    )
    for service in report.services[:MOST_ROWS]:
        table.add_row(
            service.demand,
            room.curve(service.curve),
            f"{service.offered:,.0f}",
            f"{100 * service.served / service.offered:.2f} %" if service.offered else "",
            "" if service.latency is None else _seconds(service.latency),
            "" if service.worst_latency is None else _seconds(service.worst_latency),
            _count(service.queue_length.maximum),
            _seconds(service.worst_queue_age),
        )
    return table


def _objectives(report: RunReport, room: _Room) -> Table | None:
    if not report.objectives:
        return None
    table = _table(
        room,
        (objective.name for objective in report.objectives),
        ("objective", "left"),
        ("", "left"),
        ("wanted", "right"),
        ("held", "right"),
        ("missed for", "right"),
    )
    for objective in report.objectives:
        verdict = Text("met", style="green") if objective.met else Text("missed", style="bold red")
        table.add_row(
            objective.name,
            verdict,
            f"{100 * objective.wanted:.2f} %",
            f"{100 * objective.share:.2f} %",
            _seconds(objective.missed_seconds),
        )
    return table


def _pools(report: RunReport, room: _Room) -> Table | None:
    """Nodes come and go, or cost something: otherwise the facts say enough."""
    if not any(pool.started or pool.ended or pool.failed for pool in report.pools) and report.cost is None:
        return None
    # Names need the room that a long currency would take.
    cost = "cost" if report.cost is None else f"cost {report.cost.currency}"
    table = _table(
        room,
        (pool.pool or "(none)" for pool in report.pools),
        ("node pool", "left"),
        ("nodes", "spark"),
        ("min", "right"),
        ("mean", "right"),
        ("max", "right"),
        ("came", "right"),
        ("went", "right"),
        ("never came", "right"),
        ("cpu requested", "right"),
        ("node hours", "right"),
        (cost, "right"),
    )
    for pool in report.pools[:MOST_ROWS]:
        table.add_row(
            pool.pool or "(none)",
            room.curve(pool.curve),
            _count(pool.nodes.minimum),
            f"{pool.nodes.mean:,.1f}",
            _count(pool.nodes.maximum),
            f"{pool.started:,}",
            f"{pool.ended:,}",
            f"{pool.failed:,}",
            f"{100 * pool.cpu_requested.mean:.1f} %",
            f"{pool.node_hours:,.1f}",
            "" if report.cost is None else f"{pool.cost:,.2f}",
        )
    left = len(report.pools) - MOST_ROWS
    if left > 0:
        table.add_row(f"{left:,} more; -o json shows them all")
    return table


# ---- everything else -----------------------------------------------------------------------------------------------


def _facts(report: RunReport) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")
    for label, text in _rows(report):
        table.add_row(Text(label, style="bold"), text)
    return table


def _rows(report: RunReport) -> Iterator[tuple[str, str]]:
    cluster, scheduling, contention = report.cluster, report.scheduling, report.contention
    yield "nodes", f"{_range(cluster.nodes)}; in use {_range(cluster.in_use)}"
    yield "cpu requested, used", f"{_percent(cluster.cpu_requested)}, {_percent(cluster.cpu_used)} of allocatable"
    yield "memory requested, used", f"{_percent(cluster.memory_requested)}, {_percent(cluster.memory_used)}"
    if report.cost is not None:
        yield "cost", _cost(report.cost)
    yield "pods that wait", _waiting(report.waiting)
    yield "", _split(report.waiting)
    for workload in _scaled(report):
        yield f"  {workload.workload}", _split(workload.waiting)
    yield (
        "scheduling attempts",
        (
            f"{scheduling.attempts:,}: {scheduling.scheduled:,} placed, {scheduling.unschedulable:,} found no node"
            + (f", {scheduling.errors:,} errors" if scheduling.errors else "")
            + (f", {scheduling.preemptions:,} preemptions" if scheduling.preemptions else "")
        ),
    )
    yield (
        "nodes per attempt",
        (
            f"filtered (M) {scheduling.evaluated.mean:,.1f}, in all {scheduling.evaluated.total:,}; "
            f"scored (K) {scheduling.feasible.mean:,.1f}, in all {scheduling.feasible.total:,}"
        ),
    )
    yield (
        "contention",
        (
            f"{contention.throttled_core_seconds:,.0f} core seconds throttled, {contention.oom_kills:,} OOM kills, "
            f"{contention.evictions:,} evictions, {contention.preempted:,} preempted"
        ),
    )
    if report.autoscalers:
        ups = sum(autoscaler.scale_ups for autoscaler in report.autoscalers)
        downs = sum(autoscaler.scale_downs for autoscaler in report.autoscalers)
        syncs = sum(autoscaler.syncs for autoscaler in report.autoscalers)
        yield "autoscalers", f"{syncs:,} syncs, {ups:,} up, {downs:,} down"
    if report.events:
        most = sorted(report.events.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_EVENTS]
        yield "events", ", ".join(f"{reason} {count:,}" for reason, count in most)


def _cost(cost: CostReport) -> str:
    kinds = ", ".join(f"{name} {part:,.2f}" for name, part in cost.by_capacity_type.items())
    text = f"{cost.total:,.2f} {cost.currency} for {cost.node_hours:,.1f} node hours"
    text += f" ({kinds})" if len(cost.by_capacity_type) > 1 else ""
    if cost.commitments:
        text += f"; commitments {cost.commitments:+,.2f}"
    return f"{text}; {cost.hourly.mean:,.2f} an hour, at most {cost.hourly.maximum:,.2f}"


def _scaled(report: RunReport) -> list[WorkloadReport]:
    """Workloads that an autoscaler made pods for, the largest first: their waiting begins before there is a pod."""
    found = [each for each in report.workloads if each.waiting.split.get("autoscaler")]
    return sorted(found, key=lambda each: -each.ready.maximum)[:MOST_SCALED]


def _waiting(waiting: WaitingReport) -> str:
    ready = waiting.ready
    text = f"p50 {_seconds(ready.p50)}, p90 {_seconds(ready.p90)}, p99 {_seconds(ready.p99)}"
    text += f", at most {_seconds(ready.maximum)}"
    return f"{text}; {waiting.never_ready:,} never ready" if waiting.never_ready else text


def _split(waiting: WaitingReport) -> str:
    parts = [f"{name} {_seconds(seconds)}" for name, seconds in waiting.split.items() if seconds >= 0.0005]
    return f"on average: {', '.join(parts)}" if parts else ""


def _seconds(value: float) -> str:
    """Milliseconds below a second, a clock from two minutes on."""
    if value < 1:
        return f"{value * 1000:,.0f} ms" if value else "0 s"
    return f"{value:,.1f} s" if value < 120 else clock(value)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _range(level: Level) -> str:
    if level.minimum == level.maximum:
        return _count(level.maximum)
    return f"{_count(level.minimum)} to {_count(level.maximum)} (mean {level.mean:,.1f})"


def _percent(level: Level) -> str:
    return f"{100 * level.mean:.1f} % (at most {100 * level.maximum:.1f} %)"
