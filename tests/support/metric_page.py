"""docs/metrics.md, read."""

from __future__ import annotations

import re
from pathlib import Path


def rows(repository: Path) -> dict[str, tuple[str, str]]:
    """Type and labels of each metric that the page has a row for, by name."""
    found = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", _page(repository), flags=re.MULTILINE)
    return {name: (kind, labels.strip()) for name, kind, labels in found}


def reasons(repository: Path) -> list[str]:
    """The metrics that only kube-scheduler has, as patterns with `*`."""
    section = _page(repository).partition("## What only kube-scheduler has")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| (`[^|]*) \| [^|]+ \|$", section, flags=re.MULTILINE)
    return [pattern for cell in listed for pattern in re.findall(r"`([^`]+)`", cell)]


def _page(repository: Path) -> str:
    return (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
