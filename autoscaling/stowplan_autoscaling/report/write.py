"""Writes the report."""

from __future__ import annotations

from pathlib import Path

from stowplan_autoscaling.experiment.comparison import ComparisonReport
from stowplan_autoscaling.experiment.wording import seconds
from stowplan_autoscaling.results.folder import replace_file

from . import loops, metric_table, origin, packing, pending, settings, supply, timeline, verdict, waiting
from .amounts import counted
from .embedding import Documents
from .page import page
from .pods import read_pods
from .runs import load_runs


def write_report(comparison: ComparisonReport, folder: str, path: str) -> None:
    """Writes the page about a comparison to `path`, the same bytes for the same comparison and runs.

    folder: of the comparison; the curves come from the runs in it. A run that is missing is left out. Raises OSError.
    """
    replace_file(Path(path), render(comparison, Path(folder)).encode())


def render(comparison: ComparisonReport, folder: Path) -> str:
    """The page as text."""
    runs = load_runs(comparison, folder)
    pods = {one.name: [read_pods(run.folder) for run in one.runs] for one in runs}
    documents = Documents()
    sections = [
        ("verdict", "Verdict", verdict.build(comparison)),
        ("time", "Over time", timeline.build(comparison, runs, documents)),
        ("pending", "Pending", pending.build(comparison, runs, pods, documents)),
        ("waiting", "Why pods waited", waiting.build(runs, pods)),
        ("packing", "Packing", packing.build(comparison, runs, documents)),
        ("supply", "Supply", supply.build(comparison, runs, documents)),
        ("loops", "Loops", loops.build(runs)),
        ("metrics", "Metrics", metric_table.build(comparison)),
        ("settings", "Settings", settings.build(comparison)),
        ("origin", "Origin", origin.build(comparison)),
    ]
    names = [one.name for one in comparison.candidates]
    seeds = counted(len(comparison.seeds), "seed")
    subtitle = f"{' · '.join(names)} — {seconds(comparison.duration)} of virtual time, {seeds}"
    return page(f"{comparison.name}: candidates compared", subtitle, sections, documents)
