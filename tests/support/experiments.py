"""Small comparisons for tests: ten minutes of a Deployment with an HPA, with candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stowplan_autoscaling.experiment import Cell

from .simulations import small, write

WEB = {"namespace": "shop", "name": "web"}


def comparison(**fields: Any) -> dict[str, Any]:
    """As it is, with three nodes, and with smaller requests; two seeds. `fields` of spec replace others."""
    simulation = small()
    simulation["spec"]["demand"][0]["series"] = {"diurnal": {"low": 10, "high": 60, "peak": "0s", "noise": "0.3"}}
    simulation["spec"].update(
        {
            "candidates": [
                {"name": "today"},
                {"name": "more", "spec": {"cluster": {"nodeGroups": {"plain": {"count": 3}}}}},
                {"name": "lean", "requests": [{"target": WEB, "cpu": "250m"}]},
            ],
            "seeds": 2,
            "goals": [{"metric": "nodeHours"}, {"metric": "waiting.p95", "limit": "5m"}],
            **fields,
        }
    )
    return simulation


def endless(hours: int = 4000, **fields: Any) -> dict[str, Any]:
    """One that nobody waits for the end of."""
    return comparison(duration=f"{hours}h", **fields)


def written(folder: Path, **fields: Any) -> str:
    """The path of `comparison` in a folder."""
    return write(folder, comparison(**fields))


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.shares: list[tuple[Cell, float]] = []
        self.notes: list[str] = []

    def progress(self, cell: Cell, share: float) -> None:
        """Remembered."""
        self.shares.append((cell, share))

    def note(self, text: str) -> None:
        """Remembered."""
        self.notes.append(text)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder by their path in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
