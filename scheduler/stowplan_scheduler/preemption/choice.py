"""The best of several nodes on which preemption would help.

Follows pickOneNodeForPreemption of pkg/scheduler/framework/preemption/preemption.go and GetEarliestPodStartTime of
pkg/scheduler/util/utils.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stowplan_scheduler.framework.pod_info import PodInfo

from .importance import start_time

_PRIORITY_OFFSET: Final = 1 << 31
"""Makes every priority positive: else many victims of negative priority would beat a few."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and who would have to leave it: at least one victim, the most important first."""

    row: int
    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int
    """Victims that a disruption budget protects."""

    def cost(self) -> tuple[int, int, int, int, int]:
        """What is compared, in this order; less is better.

        Violated budgets, the highest priority among the victims, the sum of their priorities, their number, and, the
        later the better, the earliest start among those of the highest priority.
        """
        victims = self.victims
        priorities = [victim.priority for victim in victims]
        highest = max(priorities)
        started = min(start_time(v) for v, priority in zip(victims, priorities, strict=True) if priority == highest)
        return (
            self.violations,
            priorities[0],
            sum(priorities) + _PRIORITY_OFFSET * len(victims),
            len(victims),
            -started,
        )


def choose_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """The best candidate, the first of several best ones. Upstream takes any of these: it walks a map."""
    return candidates[0] if len(candidates) == 1 else min(candidates, key=Candidate.cost)
