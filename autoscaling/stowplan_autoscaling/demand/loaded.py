"""What services and queues have in common: pods under a load, and the cores that these have used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .ceilings import Ceiling
from .pods import NO_PODS, PodColumns
from .series import Floats, Series


class LoadedPods(ABC):
    """Pods that work on a load. Times are seconds since the start of the run."""

    def __init__(self, load: Series, ceilings: Sequence[Ceiling], start: float) -> None:
        self.load = load
        self.ceilings = tuple(ceilings)
        self.now = start
        self.pods = NO_PODS
        self.arrived = 0.0
        self.served = 0.0
        self._cpu_seconds: Floats = np.zeros(0)
        self._settled = start
        self._cores: Floats = np.zeros(0)

    def advance(self, now: float) -> None:
        """Settle what happened up to `now` with the pods and cores in force. Raises ValueError for a time gone by."""
        if now < self.now:
            raise ValueError(f"cannot go back from {self.now} to {now}")
        for piece in self.load.pieces(self.now, now):
            self._piece(piece.start, piece.end, piece.value, piece.slope)
        self.now = now

    @property
    def cpu_seconds(self) -> Floats:
        """Per pod: core seconds used since the pod was first named."""
        self._settle()
        return self._cpu_seconds

    def _take_over(self, pods: PodColumns) -> None:
        """Other pods from now on. Those that stay keep what they used; new ones may use all the cores there are."""
        before = self.pods
        self._cpu_seconds = pods.carried(before, self._cpu_seconds)
        self._cores = pods.carried(before, self._cores, new=np.inf)
        self.pods = pods

    @abstractmethod
    def _piece(self, a: float, b: float, value: float, slope: float) -> None:
        """Work on a straight piece of load."""

    @abstractmethod
    def _settle(self) -> None:
        """Book what the pods did since pods, cores or costs last changed."""
