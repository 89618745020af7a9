"""The runs behind a comparison: their folders and summaries, and the one of each candidate whose details are shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from stowplan_autoscaling.experiment.comparison import CandidateReport, ComparisonReport
from stowplan_autoscaling.results import RunReport, read_summary


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The results of one run."""

    seed: int
    folder: Path
    summary: RunReport


@dataclass(frozen=True, slots=True)
class CandidateRuns:
    """A candidate with its runs that can be read. shown: the one whose curves the page draws, if there is any."""

    candidate: CandidateReport
    runs: tuple[RunFolder, ...]
    shown: RunFolder | None

    @property
    def name(self) -> str:
        """Of the candidate."""
        return self.candidate.name


def load_runs(comparison: ComparisonReport, folder: Path) -> tuple[CandidateRuns, ...]:
    """All candidates. A run that did not begin, or whose summary cannot be read, is left out."""
    found = {candidate.name: _runs_of(candidate, folder) for candidate in comparison.candidates}
    seed = shown_seed(comparison, {name: tuple(run.seed for run in runs) for name, runs in found.items()})
    loaded: list[CandidateRuns] = []
    for candidate in comparison.candidates:
        runs = found[candidate.name]
        same = next((run for run in runs if run.seed == seed), None)
        loaded.append(CandidateRuns(candidate, runs, same or next(iter(runs), None)))
    return tuple(loaded)


def _runs_of(candidate: CandidateReport, folder: Path) -> tuple[RunFolder, ...]:
    runs: list[RunFolder] = []
    for entry in candidate.runs:
        path = folder / entry.folder
        try:
            summary = read_summary(str(path))
        except (OSError, msgspec.MsgspecError):
            continue
        if entry.is_complete:
            runs.append(RunFolder(entry.seed, path, summary))
    return tuple(runs)


def shown_seed(comparison: ComparisonReport, present: dict[str, tuple[int, ...]]) -> int | None:
    """The seed with which the baseline has its median cost (without prices: its median node hours).

    Of the seeds that all candidates have; with an even number of them the cheaper of the two in the middle. The first
    seed, if there is no such number.
    """
    common = [seed for seed in comparison.seeds if all(seed in seeds for seeds in present.values())]
    if not common:
        return None
    baseline = next((one for one in comparison.candidates if one.name == comparison.baseline), None)
    bands = baseline.metrics if baseline is not None else {}
    band = bands.get("cost") or bands.get("nodeHours")
    if band is None or len(band.values) != len(comparison.seeds):
        return common[0]
    values = {
        seed: value
        for seed, value in zip(comparison.seeds, band.values, strict=True)
        if seed in common and value is not None
    }
    order = sorted(values, key=lambda seed: (values[seed], seed))
    return order[(len(order) - 1) // 2] if order else common[0]
