"""What tests start ends with them, also where the start itself fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from integration.stowplan_process import ProcessError, StowplanProcess
from support.processes import is_alive


class Sleeper(StowplanProcess):
    """Runs some code; `starts=False`: waits in vain for it to listen."""

    what = "sleeper"
    patience = 0.2

    def __init__(self, folder: Path, code: str = "import time; time.sleep(600)", *, starts: bool = True) -> None:
        super().__init__(folder / "sleeper.log")
        self._code = code
        self._starts = starts

    def start(self) -> None:
        self.run([sys.executable, "-c", self._code])
        if not self._starts:
            self.until(lambda: False, "it listens")


def test_a_process_ends_with_its_block(tmp_path: Path) -> None:
    with Sleeper(tmp_path) as sleeper:
        assert sleeper.process is not None
        assert is_alive(sleeper.process.pid)
    assert not is_alive(sleeper.process.pid)


def test_a_process_that_does_not_start_in_time_is_ended(tmp_path: Path) -> None:
    """Otherwise it stays, and slows down all tests that follow."""
    sleeper = Sleeper(tmp_path, starts=False)
    with pytest.raises(ProcessError, match="it listens: not after 0 s"), sleeper:
        pass
    assert sleeper.process is not None
    assert not is_alive(sleeper.process.pid)


def test_a_process_that_ends_before_its_time_is_no_wait(tmp_path: Path) -> None:
    """The end of its log says why."""
    code = "import sys; sys.stderr.write('out of luck\\n'); sys.exit(7)"
    with Sleeper(tmp_path, code) as sleeper:
        with pytest.raises(ProcessError, match="ended with exit code 7 before it is there:\nout of luck"):
            sleeper.until(lambda: False, "it is there", patience=60)
        assert sleeper.ended() == 7
