"""CycleState: what plugins wrote down for one scheduling attempt.

Follows pkg/scheduler/framework/cycle_state.go of Kubernetes v1.37.2. States are never changed in place, so a copy is a
shallow one; hypotheses (nominated pods, preemption) work on copies.
"""

from __future__ import annotations


class CycleState:
    """States of Filter rules by plugin name, and what plugins share under keys of their own.

    `not_asked`: plugins whose PreFilter did not run because an earlier one ended the loop. `said`: plugins whose
    PreFilter did not skip; None where that follows from the plan and from `filters`.
    """

    __slots__ = ("data", "filters", "not_asked", "said")

    def __init__(self) -> None:
        """Nothing written yet."""
        self.filters: dict[str, object] = {}
        self.data: dict[str, object] = {}
        self.not_asked: frozenset[str] = frozenset()
        self.said: list[str] | None = None

    def clone(self) -> CycleState:
        """A copy whose entries can be replaced without touching this one."""
        copy = CycleState()
        copy.filters.update(self.filters)
        copy.data.update(self.data)
        copy.not_asked = self.not_asked
        copy.said = self.said
        return copy
