"""Facts about the machine that a reader needs to judge a figure."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import numpy as np

import stowplan_scheduler

REPOSITORY = Path(__file__).resolve().parents[2]


def cpu_model() -> str:
    """As the kernel names it; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def go_version() -> str | None:
    """As in go1.26.0; None without Go."""
    words = _said("go", "version").split()
    return words[2] if len(words) > 2 else None


def commit() -> str | None:
    """The commit that is checked out, with + for changes on top; None outside of git."""
    name = _said("git", "-C", str(REPOSITORY), "rev-parse", "--short=12", "HEAD").strip()
    changed = _said("git", "-C", str(REPOSITORY), "status", "--porcelain", "--untracked-files=no").strip()
    return f"{name}{'+' if changed else ''}" if name else None


def _said(*command: str) -> str:
    """What the command printed; nothing if it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def load_average() -> list[float] | None:
    """Of the last 1, 5 and 15 minutes; None where the system does not count it."""
    try:
        return [round(load, 2) for load in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def facts() -> dict[str, object]:
    """Everything but the load, which changes while we measure."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "stowplan": stowplan_scheduler.__version__,
        "commit": commit(),
        "go": go_version(),
    }
