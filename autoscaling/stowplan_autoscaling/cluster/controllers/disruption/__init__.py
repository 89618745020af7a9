"""The disruption controller: what disruption budgets allow at the moment."""

from .controller import DisruptionController

__all__ = ["DisruptionController"]
