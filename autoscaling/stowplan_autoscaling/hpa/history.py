"""What the controller remembers of one autoscaler: its own recommendations and the changes that it made.

Both are lists whose expired slots are used again, as upstream has them: which slot is overwritten matters when a spec
changes its windows. Follows pkg/controller/podautoscaler/horizontal.go (stabilizeRecommendation, storeScaleEvent,
getReplicasChangePerPeriod) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from .fixed_width import wrap32


class Recommendations:
    """Unstabilised proposals with their times in nanoseconds, slot by slot."""

    __slots__ = ("replicas", "times")

    def __init__(self) -> None:
        self.replicas: list[int] = []
        self.times: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.replicas, self.times, strict=True)

    def begin(self, current: int, now: int) -> None:
        """The first sync of an autoscaler counts what it finds as a recommendation."""
        if not self.replicas:
            self.put(-1, current, now)

    def put(self, slot: int, replicas: int, now: int) -> None:
        """Write into an expired slot, or append where there is none (-1)."""
        if slot >= 0:
            self.replicas[slot] = replicas
            self.times[slot] = now
        else:
            self.replicas.append(replicas)
            self.times.append(now)


class ScaleEvents:
    """Changes in one direction: how many pods, and when."""

    __slots__ = ("_outdated", "changes", "times")

    def __init__(self) -> None:
        self.changes: list[int] = []
        self.times: list[int] = []
        self._outdated: list[bool] = []

    def within(self, period: int, now: int) -> int:
        """Pods added or removed less than `period` nanoseconds ago."""
        if not self.times:
            return 0
        cutoff = now - period
        changes = zip(self.changes, self.times, strict=True)
        return wrap32(sum(change for change, time in changes if time > cutoff))

    def store(self, change: int, longest_period: int, now: int) -> None:
        """Remember a change; one that no policy looks back to any more gives up its slot."""
        cutoff = now - longest_period
        slot = -1
        for index, time in enumerate(self.times):
            if time < cutoff:
                self._outdated[index] = True  # for good, even if a longer period comes later
            if self._outdated[index]:
                slot = index
        if slot >= 0:
            self.changes[slot], self.times[slot], self._outdated[slot] = change, now, False
        else:
            self.changes.append(change)
            self.times.append(now)
            self._outdated.append(False)


class History:
    """All that is remembered of one autoscaler."""

    __slots__ = ("down", "recommendations", "up")

    def __init__(self) -> None:
        self.recommendations = Recommendations()
        self.up = ScaleEvents()
        self.down = ScaleEvents()
