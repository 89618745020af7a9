"""The results as tables for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.results import Results, SpeedLine, Target, Verdict, verdicts

NOTHING = "-"


def rate_text(value: float | None) -> str:
    """Whole pods/s from 100 up, three digits below."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times_text(value: float | None) -> str:
    """As in 6.2x and 105x."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}x" if value >= 100 else f"{value:.3g}x"


def amount_text(value: float, unit: str) -> str:
    """A figure or a limit with its unit."""
    return times_text(value) if unit == "x" else f"{value:,.0f} {unit}"


def target_text(target: Target | None) -> str:
    """As in >= 6x (15x), the moonshot in brackets."""
    if target is None:
        return NOTHING
    text = f"{'>=' if target.at_least else '<='} {amount_text(target.limit, target.unit)}"
    return text if target.moonshot is None else f"{text} ({amount_text(target.moonshot, target.unit)})"


def grid(title: str, left: Sequence[str], right: Sequence[str]) -> Grid:
    """An empty table with columns of text, then columns of numbers."""
    table = Grid(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


# ---- tables ----------------------------------------------------------------------------------------------------------


def speed_grid(lines: Sequence[SpeedLine]) -> Grid:
    """Rates and ratios."""
    numbers = ("nodes", "ours", "kube-scheduler", "ratio", "by core time", "target", "scalar", "ratio")
    table = grid("pods per second, medians", ("workload", "nodes scored"), numbers)
    for line in lines:
        table.add_row(
            line.run.workload,
            "all" if line.run.percent == 100 else "sampled",
            f"{line.run.nodes:,}",
            rate_text(line.rate),
            rate_text(line.upstream_rate),
            times_text(line.ratio),
            times_text(line.core_ratio),
            target_text(line.target),
            rate_text(line.reference),
            times_text(line.reference_ratio),
        )
    return table


def snapshot_grid(lines: Sequence[Mapping[str, float]]) -> Grid:
    """Updates and copies."""
    table = grid(
        "snapshot after two changed nodes", (), ("nodes", "update, us", "90 %", "clone all, ms", "deep copy, ms")
    )
    for line in lines:
        copies = [f"{line[key]:,.1f}" if key in line else NOTHING for key in ("clone_ms", "deep_copy_ms")]
        table.add_row(f"{line['nodes']:,}", f"{line['update_us']:.1f}", f"{line['update_us_p90']:.1f}", *copies)
    return table


def memory_grid(lines: Sequence[Mapping[str, float]]) -> Grid:
    """Bytes beyond the parsed objects."""
    numbers = ("per node", "per bound pod", "per pod placed by us", "memo in the latter, MiB")
    table = grid("memory beyond the parsed objects, bytes", ("workload",), numbers)
    for line in lines:
        amounts = [f"{line[key]:,}" for key in ("per_node", "per_bound_pod", "per_placed_pod")]
        table.add_row(str(line["workload"]), *amounts, f"{line['memo_mb']:.1f}")
    return table


def verdict_grid(found: Sequence[Verdict]) -> Grid:
    """Every target that could be judged."""
    table = grid("targets", ("figure",), ("measured", "target (moonshot)", "verdict"))
    for verdict in found:
        measured = amount_text(verdict.value, verdict.target.unit)
        table.add_row(verdict.what, measured, target_text(verdict.target), verdict.word)
    return table


def print_report(results: Results, console: Console) -> None:
    """All tables that have lines, then what could not run."""
    found = verdicts(results)
    tables = (
        (results.speed, speed_grid(results.speed)),
        (results.snapshot, snapshot_grid(results.snapshot)),
        (results.memory, memory_grid(results.memory)),
        (found, verdict_grid(found)),
    )
    for lines, table in tables:
        if lines:
            console.print(table)
    if shares := [share for line in results.speed for share in (*line.ours_share, *line.upstream_share)]:
        console.print(f"share of the core that the processes had: {min(shares):.0%} to {max(shares):.0%}", markup=False)
    for line in results.speed:
        for pod in line.different:
            console.print(f"{line.run.label}: decided otherwise than the scalar reference: {pod}", markup=False)
    for failure in results.failures:
        console.print(f"could not run: {failure}", markup=False)


# ---- JSON ------------------------------------------------------------------------------------------------------------


def as_json(results: Results, about: Mapping[str, object]) -> dict[str, object]:
    """The content of the file; `about` says when, where and with which options."""
    return {
        **about,
        "speed": [line.as_json() for line in results.speed],
        "snapshot": results.snapshot,
        "memory": results.memory,
        "targets": [verdict.as_json() for verdict in verdicts(results)],
        "hot_spots": results.hot_spots,
        "failures": results.failures,
    }


def write_json(results: Results, about: Mapping[str, object], folder: Path, now: datetime) -> Path:
    """Write the file, named by the time; its folder keeps itself out of git."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    path = folder / f"results-{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(as_json(results, about), indent=2) + "\n", encoding="utf-8")
    return path
