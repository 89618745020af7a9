"""Where the cells of a comparison run: an interface, and what all executors have in common."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .cell import Cell, CellResult

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation


class Done(NamedTuple):
    """A cell that has ended."""

    cell: Cell
    result: CellResult


class WorkerLostError(RuntimeError):
    """A worker is gone and took a run with it. The message names both, and what may be the reason."""


class ExecutorError(RuntimeError):
    """The place where runs should go cannot be used."""


class Listener(Protocol):
    """Is told how far things are."""

    def progress(self, cell: Cell, share: float) -> None:
        """That share of the run is done."""

    def note(self, text: str) -> None:
        """Something that a person should know at once."""


Load = Callable[[Cell], "LoadedSimulation"]
"""Reads the simulation of a cell when its turn has come."""


class Executor(Protocol):
    """Runs cells, several at once. The results do not depend on where and in which order they run."""

    def run(
        self, cells: Sequence[Cell], load: Load, root: str, *, stop: Callable[[], bool], listener: Listener
    ) -> Generator[Done, None, None]:
        """Each cell as it ends, its results in its folder under `root`. When `stop` says yes, no cell is begun, and
        those that run end early. Raises WorkerLostError, ExecutorError, and what `load` raises.
        """
