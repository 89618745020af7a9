"""The progress of a comparison on standard error: a bar where a person looks at it, else a line for each run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from stowplan_autoscaling.experiment import Cell, Listener

SECONDS_BETWEEN = 0.1


@contextmanager
def compare_progress(cells: int, *, quiet: bool) -> Iterator[Listener]:
    """A listener for so many runs."""
    if quiet:
        yield _Quiet()
    elif not sys.stderr.isatty():
        yield _Lines(cells)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[text]}", markup=False),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Bar(bar, cells)


def _note(text: str) -> None:
    click.echo(f"stowplan: {text}", err=True)


class _Quiet:
    """Only notes."""

    def progress(self, cell: Cell, share: float) -> None:
        """Not shown."""

    def note(self, text: str) -> None:
        """Shown all the same: it is about something that went wrong."""
        _note(text)


class _Lines(_Quiet):
    """A line for each run that is finished."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._done: set[int] = set()

    def progress(self, cell: Cell, share: float) -> None:
        """Only its end is told."""
        if share >= 1 and cell.number not in self._done:
            self._done.add(cell.number)
            _note(f"{cell}: finished, {len(self._done)} of {self._cells}")


class _Bar(_Quiet):
    """All runs in one bar."""

    def __init__(self, bar: Any, cells: int) -> None:
        self._bar = bar
        self._cells = cells
        self._shares: dict[int, float] = {}
        self._began = monotonic()
        self._drawn = 0.0
        self._task = bar.add_task("comparing", total=cells, text="")

    def progress(self, cell: Cell, share: float) -> None:
        """The bar is drawn anew at most ten times a second."""
        self._shares[cell.number] = min(share, 1.0)
        now = monotonic()
        if now - self._drawn >= SECONDS_BETWEEN or share >= 1:
            self._drawn = now
            done = sum(self._shares.values())
            self._bar.update(self._task, completed=done, text=self._text(done, now - self._began))

    def _text(self, done: float, elapsed: float) -> str:
        finished = sum(share >= 1 for share in self._shares.values())
        text = f"{finished} of {self._cells} runs"
        if done <= 0 or elapsed < 1:
            return text
        left = round((self._cells - done) * elapsed / done)
        return f"{text}  ETA {left // 60}:{left % 60:02d}"

    def note(self, text: str) -> None:
        """Above the bar."""
        self._bar.console.print(f"stowplan: {text}", markup=False, highlight=False)
