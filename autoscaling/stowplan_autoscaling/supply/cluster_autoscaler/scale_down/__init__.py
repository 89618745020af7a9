"""Scaling down: which nodes are not needed, which of them can go now, and how they go."""

from .actuator import ActuationStatus
from .controller import ScaleDown
from .disruption import RemainingBudgets
from .drain_rules import PodsToMove

__all__ = ["ActuationStatus", "PodsToMove", "RemainingBudgets", "ScaleDown"]
