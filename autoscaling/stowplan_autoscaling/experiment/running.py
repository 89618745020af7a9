"""Runs a plan: what is there already is not run again, and what is finished is kept, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from stowplan_autoscaling.inputs.errors import InputError

from .assembling import report_of, write_comparison
from .cell import COMPLETE, FAILED, Cell, finished, folder_of
from .comparison import COMPARISON_FILE, RUNS_FOLDER, ComparisonReport
from .executor import Executor, Listener
from .measuring import Measures, read_measures
from .plan import Plan


class Failures(Exception):  # noqa: N818 - some runs failed, the rest is there
    """Runs that could not be finished; `report` has the others."""

    def __init__(self, lines: Sequence[str], report: ComparisonReport) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)
        self.report = report


def compare(
    plan: Plan,
    root: str,
    executor: Executor,
    *,
    stop: Callable[[], bool] = lambda: False,
    listener: Listener | None = None,
) -> ComparisonReport:
    """Runs what is not there yet, writes the comparison to the folder `root`, and returns it.

    It is not complete if `stop` said yes. Raises Failures for runs that cannot be finished, and what the executor
    raises; what is finished is in the folder in every case. Raises InputError for a folder of something else.
    """
    claim(root)
    listener = listener or _Silent()
    found: dict[Cell, Measures] = {}
    stopped: dict[Cell, str] = {}
    missing = list(_missing(plan, root, found, listener))
    failures: list[str] = []
    try:
        with closing(executor.run(missing, plan.load, root, stop=stop, listener=listener)) as done:
            for cell, result in done:
                if result.state == COMPLETE:
                    found[cell] = _measured(cell, root)
                    listener.progress(cell, 1.0)
                else:
                    stopped[cell] = result.message
                if result.state == FAILED:
                    failures.append(f"{cell}: {result.message}")
    finally:
        report = report_of(plan, found, stopped)
        write_comparison(report, root)
    if failures:
        raise Failures(failures, report)
    return report


class _Silent:
    """Listens to nothing."""

    def progress(self, cell: Cell, share: float) -> None:
        """Not shown."""

    def note(self, text: str) -> None:
        """Not shown."""


def claim(root: str) -> None:
    """Makes the folder of a comparison. Raises InputError for one that holds something else."""
    folder = Path(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in folder.iterdir())
    except (FileExistsError, NotADirectoryError):
        raise InputError(root, "", "", "is no folder") from None
    except OSError as error:
        raise InputError(root, "", "", f"cannot be written: {error.strerror}") from None
    if names and RUNS_FOLDER not in names and COMPARISON_FILE not in names:
        raise InputError(root, "", "", f"holds {names[0]} and no earlier comparison: name an empty or a new folder")


def _missing(plan: Plan, root: str, found: dict[Cell, Measures], listener: Listener) -> Iterator[Cell]:
    """The cells that must run; those that are there already go to `found`."""
    for cell in plan.cells:
        measures = finished(folder_of(cell, root), plan.load(cell)) if Path(folder_of(cell, root)).exists() else None
        if measures is None:
            yield cell
        else:
            found[cell] = measures
            listener.progress(cell, 1.0)


def _measured(cell: Cell, root: str) -> Measures:
    measures = read_measures(folder_of(cell, root))
    if measures is None:
        raise OSError(f"{folder_of(cell, root)}: its measures cannot be read")
    return measures
