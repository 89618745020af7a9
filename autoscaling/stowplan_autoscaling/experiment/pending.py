"""How long pods waited for a node, those that still wait included: the estimate of Kaplan and Meier.

A pod that was removed, or that waits at the end, says only that it would have waited longer than so long.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from .run_tables import number, read_rows


class Wait(NamedTuple):
    """Seconds from the creation of a pod until it had a node; not `is_over`: it had none by then."""

    seconds: float
    is_over: bool


class Step(NamedTuple):
    """From so many seconds on, this share of the pods still waits."""

    seconds: float
    share: float


def pending_times(folder: str, end: float) -> list[Wait]:
    """Of all pods of a run that ended at a time."""
    waits: list[Wait] = []
    for created, scheduled, ended in read_rows(folder, "pods.csv", "created", "scheduled", "ended"):
        if scheduled:
            waits.append(Wait(float(scheduled) - float(created), is_over=True))
        else:
            waits.append(Wait(max(0.0, (number(ended) if ended else end) - float(created)), is_over=False))
    return waits


def survival(waits: Sequence[Wait]) -> list[Step]:
    """The share of pods that wait longer than each time at which one of them got its node (Kaplan-Meier)."""
    steps: list[Step] = []
    at_risk = len(waits)
    share = 1.0
    for seconds, group in groupby(sorted(waits), key=lambda wait: wait.seconds):
        here = list(group)
        over = sum(wait.is_over for wait in here)
        if over:
            share *= 1 - over / at_risk
            steps.append(Step(seconds, share))
        at_risk -= len(here)
    return steps


def pending_quantile(waits: Sequence[Wait], share: float) -> float | None:
    """The time by which that share of the pods has a node; None without pods.

    Where more pods than that wait on, the longest time that was seen: at least so long.
    """
    if not waits:
        return None
    for step in survival(waits):
        if step.share <= 1 - share + 1e-12:
            return step.seconds
    return max(wait.seconds for wait in waits)
