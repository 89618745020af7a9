"""Ctrl-C and SIGTERM ask a run to stop at its next good moment; a second one ends the program at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stop:
    """Whether to stop, and why: the number of the signal, 0 for none."""

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        """Asked by the run."""
        return self.signal != 0

    @property
    def exit_code(self) -> int:
        """As shells do it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """While it lasts, signals set the Stop; the handlers before are put back."""
    stop = Stop()
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        for name, handler in before.items():
            signal.signal(name, handler)

    try:
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.getsignal(name)
            signal.signal(name, handle)
    except ValueError:  # not the main thread: whoever started it handles signals
        before.clear()
    try:
        yield stop
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
