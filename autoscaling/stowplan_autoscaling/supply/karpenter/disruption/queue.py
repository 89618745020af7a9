"""Commands that are being carried out: replacements come up, then the candidates are deleted.

Follows pkg/controllers/disruption/queue.go of Karpenter core v1.15.0. What a command does to the cluster (taint,
launch, delete) is the caller's; the queue says when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan_autoscaling.kernel import MILLISECOND, MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter.cluster_state import ClusterState

from .commands import Command

POLL: Final = SECOND
"""How soon a command that waits is looked at again."""

WAITING: Final = "waiting"
READY: Final = "ready"
FAILED: Final = "failed"

_RETRY_PER_COMMAND: Final = 80 * MILLISECOND
_RETRY_LEAST: Final = 10 * MINUTE
_RETRY_MOST: Final = 60 * MINUTE


@dataclass(slots=True)
class Running:
    """A command under way since `started`; `replacements` are the names of its claims."""

    command: Command
    started: int
    replacements: Sequence[str] = ()
    initialized: set[str] = field(default_factory=set)


class DisruptionQueue:
    """The commands under way."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._by_key: dict[str, Running] = {}

    def holds(self, key: str) -> bool:
        """Whether a command holds the node, by provider id."""
        return key in self._by_key

    @property
    def running(self) -> list[Running]:
        """The commands under way, in the order in which they began."""
        return list({id(item): item for item in self._by_key.values()}.values())

    def start(self, command: Command, replacements: Sequence[str], now: int) -> Running:
        """The candidates were tainted and the replacements launched under these names; the candidates are marked."""
        running = Running(command, now, replacements)
        keys = [candidate.key for candidate in command.candidates]
        self._state.mark_for_deletion(keys, now)
        self._by_key.update((key, running) for key in keys)
        return running

    def check(self, running: Running, is_initialized: Callable[[str], bool | None], now: int) -> str:
        """How a command stands: waiting, ready (delete the candidates), or failed (untaint them).

        `is_initialized` says so of a claim; None: the claim is gone, and with it the command.
        """
        late = now - running.started > self.patience
        for name in running.replacements:
            if name in running.initialized:
                continue
            answer = is_initialized(name)
            if answer is None:
                return FAILED
            if not answer:
                return FAILED if late else WAITING
            running.initialized.add(name)
        return READY

    def finish(self, running: Running, *, succeeded: bool) -> None:
        """The candidates were deleted, or the command was given up."""
        keys = [candidate.key for candidate in running.command.candidates]
        if not succeeded:
            self._state.unmark(keys)
        for key in keys:
            self._by_key.pop(key, None)

    @property
    def patience(self) -> int:
        """After how long a command is given up, in nanoseconds: the more of them, the longer."""
        return min(max(_RETRY_PER_COMMAND * len(self._by_key), _RETRY_LEAST), _RETRY_MOST)
