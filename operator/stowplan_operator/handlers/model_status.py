"""The status of a NodePool or a Simulation: whether what it says could be simulated.

Nothing of these kinds runs in the cluster. They are checked as `stowplan simulate` checks them, so that a mistake shows
where the object is, and not only to whoever simulates with it. Checks take time: their verdicts are part of what
`reconcile` is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .choosing import INVALID, ProblemError
from .conditions import condition, conditions_of, written
from .names import ACCEPTED, READY
from .observed import Observed

VerdictKey = tuple[str, str, int]
"""Kind, UID and generation."""


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """What a check found; None if nothing is wrong."""

    problem: ProblemError | None


def verdict_key(kind: str, about: Observed) -> VerdictKey:
    """What a verdict on an object as it is now is filed under."""
    return kind, about.uid, about.generation


def model_status(about: Observed, verdict: ModelVerdict, now: int) -> dict[str, Any]:
    """The whole status that is to stand there. `now`: nanoseconds since the epoch."""
    generation, problem = about.generation, verdict.problem
    if problem is not None:
        message = f"{problem.field or 'spec'}: {problem.message}"
        conditions = (
            condition(READY, False, INVALID, message, generation),
            condition(ACCEPTED, False, INVALID, message, generation),
        )
    else:
        conditions = (
            condition(READY, True, "Ready", "it can be simulated", generation),
            condition(ACCEPTED, True, "Accepted", f"generation {generation} is good", generation),
        )
    return {"observedGeneration": generation, "conditions": written(conditions, conditions_of(about.status), now)}
