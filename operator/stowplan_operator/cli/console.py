"""The terminal that tables are printed to. NO_COLOR and TERM=dumb are honoured."""

from __future__ import annotations

import os
from typing import IO, Final

from rich.console import Console

WIDTH: Final = 120
"""Columns where the output is no terminal and COLUMNS does not say otherwise."""


class PipeConsole(Console):
    """One whose reader may leave: that is no failure, as `Application.main` has it for all output."""

    def on_broken_pipe(self) -> None:
        """Not rich's: that ends the program with 1."""
        raise BrokenPipeError


def console_of(file: IO[str]) -> Console:
    """The console of a file."""
    width = None if file.isatty() or os.environ.get("COLUMNS") else WIDTH
    return PipeConsole(file=file, width=width, highlight=False, markup=False, emoji=False)
