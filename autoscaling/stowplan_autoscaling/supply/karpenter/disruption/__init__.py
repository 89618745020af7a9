"""Which nodes Karpenter takes away, and what it puts in their place."""

from .candidates import Candidate
from .commands import DELETE, DRIFTED, EMPTY, REPLACE, UNDERUTILIZED, Command
from .controller import DisruptionController, Idle, Start, Wait
from .queue import DisruptionQueue

__all__ = [
    "DELETE",
    "DRIFTED",
    "EMPTY",
    "REPLACE",
    "UNDERUTILIZED",
    "Candidate",
    "Command",
    "DisruptionController",
    "DisruptionQueue",
    "Idle",
    "Start",
    "Wait",
]
