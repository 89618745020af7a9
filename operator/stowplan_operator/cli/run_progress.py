"""The progress of a run on standard error: virtual time, speed and what is left. Only where a person looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

SECONDS_BETWEEN = 0.1
"""The bar is drawn anew at most ten times a second."""


@contextmanager
def run_progress(name: str, duration: float, *, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """A callback that is told the virtual seconds reached; None if no bar is wanted or stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=duration, text=progress_text(0, duration, 0))
        began = monotonic()
        drawn = 0.0

        def reached(seconds: float) -> None:
            nonlocal drawn
            now = monotonic()
            if now - drawn >= SECONDS_BETWEEN or seconds >= duration:
                drawn = now
                bar.update(task, completed=seconds, text=progress_text(seconds, duration, now - began))

        yield reached


def progress_text(seconds: float, duration: float, elapsed: float) -> str:
    """Virtual time, simulated seconds per second, time left: "06:12:00 of 24:00:00  3,600x  ETA 0:18"."""
    text = f"{clock(seconds)} of {clock(duration)}"
    if seconds <= 0 or elapsed <= 0:
        return text
    speed = seconds / elapsed
    left = round((duration - seconds) / speed)
    return f"{text}  {speed:,.0f}x  ETA {left // 60}:{left % 60:02d}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: "06:12:00"."""
    whole = int(seconds)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
