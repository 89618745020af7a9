"""Hooks that write down what a scheduler tells them."""

from __future__ import annotations

from stowplan_scheduler.framework.evaluations import Evaluations


class Stopwatch:
    """A clock that moves by one with every look, and a list of all that was measured.

    `sampling`: whether attempts that begin have their plugins' calls measured.
    """

    def __init__(self, *, sampling: bool = True) -> None:
        self.time = 0
        self.sampling = sampling
        self.sampled = False
        self.evaluations = Evaluations()
        self.calls: list[tuple[str, str, str, int]] = []
        """(plugin, extension point, status, duration)."""
        self.points: list[tuple[str, str, str, int]] = []
        """(profile, extension point, status, duration)."""
        self.hints: list[tuple[str, str, str, int]] = []
        """(plugin, event, hint, duration)."""

    def clock(self) -> int:
        self.time += 1
        return self.time

    def sample(self) -> bool:
        return self.sampling

    def observe(self, plugin: str, point: str, status: str, nanoseconds: int) -> None:
        self.calls.append((plugin, point, status, nanoseconds))

    def observe_point(self, profile: str, point: str, status: str, nanoseconds: int) -> None:
        self.points.append((profile, point, status, nanoseconds))

    def observe_hint(self, plugin: str, event: str, hint: str, nanoseconds: int) -> None:
        self.hints.append((plugin, event, hint, nanoseconds))

    def take_points(self) -> list[tuple[str, str]]:
        """Extension points and their statuses since the last time, in order."""
        seen = [(point, status) for _, point, status, _ in self.points]
        self.points.clear()
        return seen
