"""One cell of a comparison: a candidate with a seed. Runs in a process of its own, here or on another machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from stowplan_autoscaling.cosim import run
from stowplan_autoscaling.inputs.errors import InputError
from stowplan_autoscaling.results import FolderSink, RunReport, UnfinishedError, read_summary
from stowplan_scheduler import __version__

from .comparison import RUNS_FOLDER
from .measuring import Measures, measure, read_measures, write_measures
from .run_tables import check_headers

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation

COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
FAILED: Final = "failed"

State = Literal["complete", "interrupted", "failed"]


class Cell(NamedTuple):
    """A candidate with a seed; `number` counts the cells of a comparison."""

    number: int
    candidate: str
    seed: int

    @property
    def folder(self) -> str:
        """Of its results, relative to that of the comparison."""
        return f"{RUNS_FOLDER}/{self.candidate}/seed-{self.seed}"

    def __str__(self) -> str:
        return f"{self.candidate} (seed {self.seed})"


class CellResult(NamedTuple):
    """How a run ended; `message` says why, unless it is complete."""

    state: State
    message: str = ""


def run_cell(
    loaded: LoadedSimulation,
    folder: str,
    *,
    progress: Callable[[float], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> CellResult:
    """Runs it into a folder. `progress` is told the share that is done; `stop` as that of a run."""
    length = loaded.spec.duration / 1e9

    def reached(seconds: float) -> None:
        if progress is not None:
            progress(seconds / length)

    try:
        with FolderSink(folder) as sink:
            report = run(loaded, progress=reached, stop=stop, sink=sink)
    except UnfinishedError as error:
        return CellResult(FAILED, str(error))
    except InputError as error:
        return CellResult(FAILED, str(error))
    except OSError as error:
        return CellResult(FAILED, f"{folder}: cannot be written: {error.strerror}")
    if not report.complete:
        return CellResult(INTERRUPTED, report.stopped)
    write_measures(folder, measure(folder, report, loaded))
    return CellResult(COMPLETE)


def finished(folder: str, loaded: LoadedSimulation) -> Measures | None:
    """The measures of a run that is there already, of just this simulation by just this version.

    None if it is not, or if its tables are damaged.
    """
    try:
        report = read_summary(folder)
    except (OSError, msgspec.DecodeError):
        return None
    if not _is_of(report, loaded):
        return None
    found = read_measures(folder)
    try:
        check_headers(folder)
        if found is None or (found.digest, found.seed, found.version) != (loaded.digest, loaded.spec.seed, __version__):
            found = measure(folder, report, loaded)
            write_measures(folder, found)
    except (OSError, ValueError):
        # Somebody wrote into its tables: it runs again.
        return None
    return found


def _is_of(report: RunReport, loaded: LoadedSimulation) -> bool:
    inputs = report.inputs
    return (
        report.complete
        and inputs.digest == loaded.digest
        and inputs.seed == loaded.spec.seed
        and inputs.version == __version__
    )


def folder_of(cell: Cell, root: str) -> str:
    """Where the results of a cell are."""
    return str(Path(root, cell.folder))
