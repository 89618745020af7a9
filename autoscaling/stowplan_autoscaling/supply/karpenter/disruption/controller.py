"""The disruption loop as a state machine: at most one command at a time is decided, and looked at again 15 s later.

Follows pkg/controllers/disruption/controller.go of Karpenter core v1.15.0. Upstream waits inside the loop; here the
caller comes back when `Wait` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan_autoscaling.kernel import SECOND

from .budgets import remaining
from .candidates import Candidate, CandidateFinder
from .commands import Command
from .methods import Drift, Emptiness, Method, MultiNode, SingleNode
from .queue import DisruptionQueue
from .simulation import Scene
from .validation import VALIDATION_DELAY

POLLING_PERIOD: Final = 10 * SECOND


@dataclass(frozen=True, slots=True)
class Start:
    """Carry it out: taint the candidates, launch the replacements, then `DisruptionQueue.start`; come back at once."""

    command: Command
    kind: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A command was found; come back then to have it looked at again."""

    until: int


@dataclass(frozen=True, slots=True)
class Idle:
    """There is nothing to do; come back then."""

    until: int


class DisruptionController:
    """Tries the methods in order. A command that does not hold any more leaves the turn to the next method."""

    def __init__(self, queue: DisruptionQueue) -> None:
        finder = CandidateFinder()
        self.methods: tuple[Method, ...] = tuple(
            method(finder, queue.holds) for method in (Emptiness, Drift, MultiNode, SingleNode)
        )
        self._at = 0
        self._proposal: Command | None = None

    @property
    def is_at_rest(self) -> bool:
        """Whether the next step begins a round: no command waits to be looked at again."""
        return self._proposal is None

    def drifted(self, scene: Scene, now: int) -> list[Candidate]:
        """The drifted nodes that pods and budgets of pods would let go now."""
        method = next(method for method in self.methods if isinstance(method, Drift))
        return method.candidates(scene, now)[0]

    def advance(self, scene: Scene, now: int) -> Start | Wait | Idle:
        """Go on from where the loop stands."""
        if self._proposal is not None:
            method, proposal = self.methods[self._at], self._proposal
            self._proposal = None
            command = method.confirm(scene, proposal, now)
            if command is not None:
                self._at = 0
                return Start(command, method.kind)
            self._at += 1
        while self._at < len(self.methods):
            method = self.methods[self._at]
            command = self._propose(method, scene, now)
            if command is not None and method.needs_confirmation:
                self._proposal = command
                return Wait(now + VALIDATION_DELAY)
            if command is not None:
                self._at = 0
                return Start(command, method.kind)
            self._at += 1
        self._at = 0
        return Idle(now + POLLING_PERIOD)

    @staticmethod
    def _propose(method: Method, scene: Scene, now: int) -> Command | None:
        if method.is_idle(scene, now):
            return None
        candidates, totals = method.candidates(scene, now)
        if not candidates:
            return None
        budgets = remaining(scene.catalogue.pools, scene.snapshot.pool_counts(), method.reason, now)
        return method.propose(scene, candidates, totals, budgets, now)
