"""How well replicas followed demand, and how restless they and the nodes were.

The measures of elasticity of the SPEC research group (Herbst et al.): d is what the metrics called for, before limits
and stabilisation; s is the replicas that were ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from .run_tables import Held, number, read_rows

FLAPPING_WITHIN: Final = 600.0
"""Seconds after the end of a node within which a new one of its pool is one too many."""

_HOUR: Final = 3600.0
_OWN_REASONS: Final = ("Initial", "Replacement")


class Elasticity(NamedTuple):
    """Means over time; under and over are shares of the demand, the others shares of the time."""

    under: float
    over: float
    under_time: float
    over_time: float
    instability: float


def elasticity(demanded: Held, supplied: Held, end: float) -> Elasticity | None:
    """Of one autoscaler over [0, end]; None if nothing is known of it."""
    if not len(demanded.times) or not len(supplied.times) or end <= 0:
        return None
    edges = np.unique(np.concatenate(([0.0, end], demanded.times, supplied.times)))
    edges = edges[(edges >= 0) & (edges <= end)]
    lengths = np.diff(edges)
    want, have = demanded.at(edges[:-1]), supplied.at(edges[:-1])
    base = np.maximum(want, 1.0)
    return Elasticity(
        under=float(np.sum(np.maximum(want - have, 0) / base * lengths) / end),
        over=float(np.sum(np.maximum(have - want, 0) / base * lengths) / end),
        under_time=float(np.sum(lengths[have < want]) / end),
        over_time=float(np.sum(lengths[have > want]) / end),
        instability=_instability(demanded, supplied, end),
    )


def _instability(demanded: Held, supplied: Held, end: float) -> float:
    """Share of the time between samples of the supply in which it and the demand did not go the same way."""
    moments = np.append(supplied.times[supplied.times < end], end)
    if len(moments) < 2:
        return 0.0
    wanted = np.sign(np.diff(demanded.at(moments)))
    had = np.sign(np.diff(supplied.at(moments)))
    return float(np.sum(np.diff(moments)[wanted != had]) / end)


def elasticity_of_run(folder: str, targets: Mapping[str, str], end: float) -> Elasticity | None:
    """The mean over all autoscalers of a run. `targets`: the workload that each scales; None if there are none."""
    demanded: dict[str, list[tuple[float, float]]] = {}
    rows = read_rows(folder, "series/autoscalers.csv", "seconds", "autoscaler", "proposed", "desired")
    for seconds, name, proposed, desired in rows:
        demanded.setdefault(name, []).append((float(seconds), number(proposed or desired)))
    wanted = {targets[name] for name in demanded if name in targets}
    supplied: dict[str, list[tuple[float, float]]] = {name: [] for name in wanted}
    for seconds, name, ready in read_rows(folder, "series/workloads.csv", "seconds", "workload", "ready"):
        if name in supplied:
            supplied[name].append((float(seconds), number(ready)))
    found = [
        each
        for name, points in sorted(demanded.items())
        if name in targets and (each := elasticity(Held.of(points), Held.of(supplied[targets[name]]), end)) is not None
    ]
    if not found:
        return None
    return Elasticity(*(sum(values) / len(found) for values in zip(*found, strict=True)))


def turns(values: Iterable[float]) -> int:
    """How often a number changed its direction."""
    last: float | None = None
    direction = count = 0
    for value in values:
        if last is not None and value != last:
            now = 1 if value > last else -1
            count += direction not in {0, now}
            direction = now
        last = value
    return count


def replica_flapping(folder: str, end: float) -> float | None:
    """Changes of direction per hour of what autoscalers set, added up over them; None if there are none."""
    desired: dict[str, list[float]] = {}
    for name, value in read_rows(folder, "series/autoscalers.csv", "autoscaler", "desired"):
        desired.setdefault(name, []).append(number(value))
    if not desired or end <= 0:
        return None
    return sum(turns(values) for values in desired.values()) / (end / _HOUR)


class NodeLife(NamedTuple):
    """What of a node's life counts for flapping; `going`: when somebody began to empty it, or it ended."""

    pool: str
    requested: float
    going: float | None
    began: str


def node_lives(folder: str) -> list[NodeLife]:
    """Those of a run."""
    columns = ("pool", "requested", "disrupted", "ended", "began")
    lives = []
    for pool, requested, disrupted, ended, began in read_rows(folder, "nodes.csv", *columns):
        going = disrupted or ended
        lives.append(NodeLife(pool, number(requested), float(going) if going else None, began))
    return lives


def node_flapping(lives: Sequence[NodeLife]) -> int:
    """Nodes that were asked for soon after another one of their pool had begun to go; replacements do not count."""
    going: dict[str, list[float]] = {}
    for life in lives:
        if life.going is not None:
            going.setdefault(life.pool, []).append(life.going)
    return sum(
        life.began not in _OWN_REASONS
        and any(0 <= life.requested - moment <= FLAPPING_WITHIN for moment in going.get(life.pool, ()))
        for life in lives
    )
