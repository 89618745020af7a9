"""Processes of this machine (Linux)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CLI = "from stowplan_operator.cli import main; main()"
"""The command line, as code for `python_piped`."""


def environment(**more: str) -> dict[str, str]:
    """That of a Python process that sees the modules that this one sees."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


def python_piped(code: str, *arguments: str, stdin: int | None = None) -> subprocess.Popen[str]:
    """Python code in a process of its own, whose output can be read as it comes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended, but was not waited for yet, does not."""
    try:
        # The name in brackets may hold anything; the state follows it.
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
