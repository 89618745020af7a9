"""Backlogs as fluid: exact over a straight piece of load, whatever its length.

Between two changes of load or capacity, work arrives at `arrival + slope·t` and is done at most at `service`, both per
second. Whoever has work to do does it (work conserving). The net rate is a straight line, so it changes its sign at
most once. While it is not positive, the backlog falls to 0 and stays there: max(0, B + integral). While it is not
negative, it grows up to the limit: min(limit, B + integral). Two phases in one of two orders are all that can happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .series import Floats

CATCH_UP: Final = 1.0
"""A pod with a backlog asks for the cores that would work it off in so many seconds."""

_MOST: Final = 1e15
"""Endless capacity as a number: beyond any load, and within exact sums."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What a piece of time did to each backlog: amounts, and the backlog at its end."""

    backlog: Floats
    arrived: Floats
    served: Floats
    dropped: Floats
    """What arrived while the backlog was at its limit."""


def flow(
    backlog: Floats, arrival: Floats, slope: Floats, service: Floats, limit: Floats, seconds: float | Floats
) -> Flow:
    """One straight piece of `seconds`, of each or of all; arrays have one entry per backlog, `limit` may be infinite.

    All but `slope` are at least 0, and so is the arrival rate at the end. `service` may be infinite, too.
    """
    service = np.minimum(service, _MOST)
    net = arrival - service
    turn = np.full_like(net, seconds)
    # `slope` may be so small that the quotient overflows: the turn is then beyond the end anyway.
    with np.errstate(over="ignore"):
        np.divide(-net, slope, out=turn, where=slope != 0)
    turn = np.clip(turn, 0.0, seconds)
    first = turn * (net + slope * turn / 2)
    rest = (seconds - turn) * (net + slope * (seconds + turn) / 2)
    middle, lost_first = _phase(backlog, first, limit)
    end, lost_rest = _phase(middle, rest, limit)
    arrived = seconds * (arrival + slope * seconds / 2)
    dropped = lost_first + lost_rest
    served = np.clip(arrived - dropped - (end - backlog), 0.0, service * seconds)
    return Flow(end, arrived, served, dropped)


def _phase(backlog: Floats, change: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """The backlog after a phase in which the net rate has one sign, and what was dropped."""
    wanted = backlog + change
    after = np.clip(wanted, 0.0, limit)
    return after, np.where(change > 0, np.maximum(wanted - after, 0.0), 0.0)
